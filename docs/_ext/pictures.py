"""The pictures of the pages, drawn from records: ``python docs/_ext/pictures.py [--check]``."""

from __future__ import annotations

import sys
from hashlib import sha256
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
    "growpu_share.svg": ("growpu-mnist", "training_share"),
    "growpu_means.svg": ("growpu-mnist", "means"),
}


def source_of(experiment: str) -> str:
    """Return the comment that says which record a picture shows, and in which state."""
    content = (ROOT / "results" / f"{experiment}.json").read_bytes()
    return f"<!-- results/{experiment}.json {sha256(content).hexdigest()} -->\n"


def stale() -> list[Path]:
    """Return the pictures that were not drawn from the records as they are.

    Records are compared and not pictures: those differ with the version of matplotlib.
    """
    outdated = []
    for name, (experiment, _) in WANTED.items():
        path = FOLDER / name
        if not path.exists() or source_of(experiment) not in path.read_text("utf-8"):
            outdated.append(path)
    return outdated


def main() -> int:
    """Draw what is stale, or with ``--check`` name it."""
    for path in stale():
        if "--check" in sys.argv[1:]:
            sys.stderr.write(f"{path.relative_to(ROOT)} is stale; run `make docs`\n")
            continue
        experiment, which = WANTED[path.name]
        record = ResultRecord.read(ROOT / "results" / f"{experiment}.json")
        FOLDER.mkdir(exist_ok=True)
        svg = find_experiment(experiment).draw_record(record)[which]
        path.write_text(svg + source_of(experiment), encoding="utf-8")
    return 1 if stale() else 0


if __name__ == "__main__":
    sys.exit(main())
