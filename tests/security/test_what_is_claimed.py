"""SECURITY.md claims nothing without a test, and every test here is named in it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLAIMS = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`((?:tests/\w+/)?test_\w+\.py)`", CLAIMS))


def test_every_named_test_is_there():
    paths = [ROOT / (name if "/" in name else f"tests/security/{name}") for name in NAMED]
    assert [str(path) for path in paths if not path.exists()] == []


def test_every_attack_is_named():
    here = Path(__file__)
    attacks = {path.name for path in here.parent.glob("test_*.py") if path != here}
    assert attacks - NAMED == set()


def test_every_claim_names_a_test():
    claims = CLAIMS.partition("## What a site relies on")[2].partition("## What is out of scope")[0]
    # Headings in bold stand before bullets; what is left are bullets and paragraphs.
    parts = re.split(r"\n- |\n\n|\*\*\n", claims)
    told = [part for part in parts if part.strip() and not part.startswith("**")]
    assert len(told) > 20
    assert [part for part in told if "test_" not in part] == []


def test_every_hostile_party_has_a_test():
    rows = [line for line in CLAIMS.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 7
    assert [row for row in rows if "test_" not in row] == [
        "| a site's operator | no: they hold the rows | – | – |"
    ]
