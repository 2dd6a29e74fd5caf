"""The pictures of the pages, drawn from records: ``python docs/_ext/pictures.py [--check]``."""

from __future__ import annotations

import sys
from pathlib import Path

from cofill.metrics import ResultRecord
from cofill_papers import find_experiment

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
# file: (record, which of its pictures)
WANTED: dict[str, tuple[str, str]] = {
    "cube_masks.svg": ("cube", "masks_mwm"),
    "wdbc_errors.svg": ("wdbc", "mse"),
    "mfdd_digits.svg": ("mfdd", "digits_best"),
    "mean_attacks.svg": ("growpu-mnist", "accuracy"),
}


def drawn() -> dict[Path, str]:
    """Return every picture and where it belongs."""
    pictures = {}
    for name, (experiment, which) in WANTED.items():
        record = ResultRecord.read(ROOT / "results" / f"{experiment}.json")
        pictures[FOLDER / name] = find_experiment(experiment).draw_record(record)[which]
    return pictures


def stale() -> list[Path]:
    """Return the files that do not show what the records hold."""
    return [p for p, new in drawn().items() if not p.exists() or p.read_text("utf-8") != new]


def main() -> int:
    """Draw, or with ``--check`` say what is stale."""
    if "--check" in sys.argv[1:]:
        outdated = stale()
        for path in outdated:
            sys.stderr.write(f"{path.relative_to(ROOT)} is stale; run `make docs`\n")
        return 1 if outdated else 0
    FOLDER.mkdir(exist_ok=True)
    for path, text in drawn().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
