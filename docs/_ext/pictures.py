"""The pictures of the pages, drawn from records: ``python docs/_ext/pictures.py [--check]``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from cofill.metrics import ResultRecord
from cofill.reproduce import pictures
from cofill.reproduce._mean_pictures import mean_pictures

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
Drawn = Mapping[str, str]
# file: (record, how it is drawn, which of its pictures)
WANTED: dict[str, tuple[str, Callable[[ResultRecord], Drawn], str]] = {
    "cube_masks.svg": ("cube", pictures, "masks_mwm"),
    "wdbc_errors.svg": ("wdbc", pictures, "mse"),
    "mfdd_digits.svg": ("mfdd", pictures, "digits_best"),
    "mean_attacks.svg": ("growpu-mnist", mean_pictures, "accuracy"),
}


def drawn() -> dict[Path, str]:
    """Return every picture and where it belongs."""
    made = {}
    for name, (record, draw, which) in WANTED.items():
        made[FOLDER / name] = draw(ResultRecord.read(ROOT / "results" / f"{record}.json"))[which]
    return made


def stale() -> list[Path]:
    """Return the files that do not show what the records hold."""
    return [p for p, new in drawn().items() if not p.exists() or p.read_text("utf-8") != new]


def main() -> int:
    """Draw, or with ``--check`` say what is stale."""
    if "--check" in sys.argv[1:]:
        found = stale()
        for path in found:
            sys.stderr.write(f"{path.relative_to(ROOT)} is stale; run `make docs`\n")
        return 1 if found else 0
    FOLDER.mkdir(exist_ok=True)
    for path, text in drawn().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
