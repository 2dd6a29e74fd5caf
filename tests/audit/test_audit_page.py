"""The report and the record: whole, self-contained, escaped, and nobody's value in them."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from cofill.attack import DecoderSettings, share_leak
from cofill.audit import Audit, AuditedRelease, CodeAuditSettings, audit_codes, join_audits
from cofill.errors import SettingError
from cofill.nets import FusionSettings
from cofill.pages import Curve

CANARY = 773_142.4242
LINEAR = DecoderSettings(repeats=1, fusion=FusionSettings(hidden=()), draws=200)
CURVE = Curve(
    name="noise", strength="ε", x=(0.1, 1.0), leak=(0.2, 0.9), leak_name="share guessed",
    utility=(0.5, 0.1), utility_name="error", low=(0.1, 0.8), high=(0.3, 1.0), floor=0.1,
)  # fmt: skip


@pytest.fixture(scope="module")
def audit():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))
    rows[7] = CANARY
    settings = CodeAuditSettings(pairs=(10, "all"), decoders=LINEAR)
    made = audit_codes(
        rows @ rng.normal(size=(3, 4)), rows, sender="<clinic>", receiver="lab", settings=settings
    )
    return Audit(
        title="a <trial>", releases=made.releases, curves=(CURVE,), spent={"lab": (1.0, 1e-5)},
        notes=("read this",), settings={"pairs": [10]},
    )  # fmt: skip


def test_the_page_says_everything_and_asks_nobody_for_anything(audit):
    page = audit.to_html()
    for words in ("near-total", "How to read this", "What a defence costs", "What to change",
                  "k-anonymity", "read this", "ε = 1.000 at δ = 1e-05"):  # fmt: skip
        assert words in page
    assert "&lt;clinic&gt;" in page
    assert "<clinic>" not in page
    assert "default-src 'none'" in page
    body = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r'(src|href)="(?!#|data:)', body)


def test_nobodys_values_are_in_page_record_or_table(audit):
    for text in (audit.to_html(), audit.to_json(), str(audit.table()), repr(audit)):
        assert "773142" not in text.replace(",", "")


def test_the_record_is_whole(audit):
    record = json.loads(audit.to_json())
    assert (record["format"], record["version"], record["title"]) == (
        "cofill-audit",
        1,
        "a <trial>",
    )
    assert record["curves"][0]["leak"] == [0.2, 0.9]
    assert record["spent"] == {"lab": {"epsilon": 1.0, "delta": 1e-5}}
    release = record["releases"][0]
    assert release["verdict"]["individual"] == "near-total"
    assert {"threat", "floor", "control", "attack", "ceiling", "interval"} <= set(
        release["leaks"][0]
    )
    assert release["anonymity"][0]["smallest"] == 1
    assert "cofill" in record["versions"]


def test_audits_are_written_whole_or_not_at_all(audit, tmp_path, monkeypatch):
    assert audit.write(tmp_path / "one") == ("audit.json", "audit.html")
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == ["audit.html", "audit.json"]

    def broken(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Audit, "to_html", broken)
    with pytest.raises(KeyboardInterrupt):
        audit.write(tmp_path / "two")
    assert [p.name for p in tmp_path.iterdir()] == ["one"]


def test_audits_can_be_joined(audit):
    both = join_audits("two", [audit, audit], duration_s=3.0)
    assert (len(both.releases), len(both.curves), both.notes) == (2, 2, ("read this",))
    assert both.verdict == "near-total"


def test_total_and_no_leak_have_their_verdicts():
    facts = {"name": "a", "threat": "t", "figure": "share", "scope": "individual", "floor": 0.01}
    for hits, verdict in ((500, "near-total"), (5, "none seen")):
        release = AuditedRelease(
            kind="update",
            sender="a",
            receiver="b",
            what="",
            leaks=(share_leak(hits, 500, **facts),),
        )
        assert Audit(title="x", releases=(release,)).verdict == verdict


def figures_in(page):
    """Return the pictures of a page as data."""
    found = re.findall(r'<script type="application/json" class="figure">(.*?)</script>', page)
    return [json.loads(one) for one in found]


def test_curves_with_a_goal_are_drawn_as_leak_against_cost():
    curve = replace(
        CURVE, without=(0.95, 0.0), goal=(0.2, 0.05), worst=(0.3, 0.95), labels=("weak", "strong")
    )
    facts = {"name": "a", "threat": "t", "figure": "share", "scope": "individual", "floor": 0.01}
    codes = AuditedRelease(
        kind="codes", sender="a", receiver="b", what="", leaks=(share_leak(9, 10, **facts),)
    )
    page = Audit(title="x", releases=(codes,), curves=(curve,)).to_html()
    picture = figures_in(page)[-1]
    (line,) = picture["data"]
    assert (line["x"], line["y"]) == ([0.0, 0.5, 0.1], [0.95, 0.2, 0.9])
    assert line["text"] == ["without a defence", "weak", "strong"]
    layout = picture["layout"]
    assert (layout["xaxis"]["title"]["text"], layout["yaxis"]["title"]["text"]) == (
        "error",
        "share guessed",
    )
    (goal,) = layout["shapes"]
    assert (goal["x1"], goal["y0"], goal["y1"]) == (0.05, 0, 0.2)
    assert layout["annotations"][0]["text"] == "goal"
    assert layout["xaxis"]["range"] == pytest.approx([-0.01, 0.31])  # six times the goal
    assert "Lines that leave the picture go on in the table" in page
    assert "the same of the view that leaks most" in page


def test_many_releases_that_are_alike_are_told_as_one():
    facts = {"name": "a", "threat": "t", "figure": "share", "scope": "individual", "floor": 0.01}
    updates = [
        AuditedRelease(
            kind="update",
            sender=f"clinic_{k:02d}",
            receiver="coordinator",
            what="a change",
            leaks=(share_leak(300 + k, 500, **facts),),
        )
        for k in range(13)
    ]
    page = Audit(title="x", releases=tuple(updates)).to_html()
    assert ", ".join(f"clinic_{k:02d}" for k in range(13)) + " → coordinator" in page
    (bars,) = figures_in(page)
    assert bars["data"][0]["y"] == ["update, clinic_12 (worst of 13): share"]
    few = figures_in(Audit(title="x", releases=tuple(updates[:12])).to_html())[0]
    assert len(few["data"][0]["y"]) == 12


def test_bad_curves_and_empty_audits_are_refused():
    with pytest.raises(SettingError, match="one leak for each of 2 strengths, got 1"):
        Curve(name="n", strength="ε", x=(1, 2), leak=(1,), leak_name="l", utility=(1, 2),
              utility_name="u")  # fmt: skip
    with pytest.raises(SettingError, match="at least one release"):
        Audit(title="x", releases=())
