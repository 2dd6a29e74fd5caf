"""An audit: its releases, its curves and what it was made with, as table, JSON and HTML."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cofill.audit._page import page_of
from cofill.audit._release import AuditedRelease
from cofill.audit._verdict import SCALE_WORDS, Verdict, worst_of
from cofill.errors import SettingError
from cofill.files import new_folder
from cofill.metrics import ResultTable, plain, versions
from cofill.pages import Curve, number

FORMAT, VERSION = "cofill-audit", 1


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What an audit found.

    Parameters
    ----------
    title, settings
        What was audited, and how.
    releases
        Every release, attacked or with the reason why not.
    curves
        What defences cost.
    choice
        The defence that is advised, its figures and what else it was weighed against, by name;
        empty where none was chosen.
    spent
        By site, the ε that its releases with a guarantee come to, and the δ.
    notes, duration_s
        What could not be audited, and anything else a reader must know; how long it took.

    Examples
    --------
    >>> keys = AuditedRelease(kind="public-keys", sender="lab", receiver="clinic", what="two keys",
    ...                       personal=False, reason="made from nobody's record")
    >>> audit = Audit(title="a trial", releases=(keys,))
    >>> audit.verdict
    'nothing about a person'
    >>> print(audit.table())
    release      from → to     attack          figure  floor  control  leak  ...
    """

    title: str
    releases: tuple[AuditedRelease, ...]
    curves: tuple[Curve, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    choice: Mapping[str, Any] = field(default_factory=dict)
    spent: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    duration_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.releases:
            raise SettingError("an audit must have at least one release, got none")
        attacks = sum(len(release.leaks) for release in self.releases)
        counted = tuple(replace(release, attacks=attacks) for release in self.releases)
        object.__setattr__(self, "releases", counted)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict about individuals among the releases."""
        return worst_of(r.individual for r in self.releases)

    @property
    def refuted(self) -> tuple[AuditedRelease, ...]:
        """Releases whose claimed guarantee an attack refutes."""
        return tuple(r for r in self.releases if r.refuted)

    def table(self) -> ResultTable:
        """Return one row for each attack (and each release without one).

        The rows are plain: ``pyarrow.Table.from_pylist(audit.table().rows)`` makes a data frame.
        """
        rows = [row for release in self.releases for row in _rows(release)]
        header = [
            "release", "from → to", "attack", "figure", "floor", "control", "leak", "95 % interval",
            "ceiling", "verdict",
        ]  # fmt: skip
        return ResultTable(rows, header, [_cells(row) for row in rows])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON's types: figures about people, nobody's values."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "title": self.title,
            "verdict": self.verdict,
            "scale": SCALE_WORDS,
            "releases": [release.to_dict() for release in self.releases],
            "curves": [plain(curve, "curves") for curve in self.curves],
            "choice": plain(dict(self.choice), "choice"),
            "spent": {
                site: {"epsilon": plain(float(cost), "spent"), "delta": delta}
                for site, (cost, delta) in self.spent.items()
            },
            "settings": plain(dict(self.settings), "settings"),
            "notes": list(self.notes),
            "versions": versions(),
            "duration_s": round(self.duration_s, 3),
        }

    def to_json(self) -> str:
        """Return the record as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def to_html(self) -> str:
        """Return a page that can be filed: one file, nothing is fetched when it is opened."""
        return page_of(self.to_dict())

    def write(self, out: str | Path) -> tuple[str, ...]:
        """Write ``audit.json`` and ``audit.html`` to a new folder, both or nothing."""
        texts = {"audit.json": self.to_json(), "audit.html": self.to_html()}
        with new_folder(Path(out)) as folder:
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="utf-8")
        return tuple(texts)


def join_audits(title: str, audits: Sequence[Audit], **rest: Any) -> Audit:
    """Return several audits as one.

    Examples
    --------
    >>> from cofill.audit import Audit, AuditedRelease, join_audits
    >>> keys = AuditedRelease(kind="roster", sender="a", receiver="b", what="keys", personal=False,
    ...                       reason="made from nobody's record")
    >>> one = Audit(title="one", releases=(keys,))
    >>> len(join_audits("both", [one, one]).releases)
    2
    """
    return Audit(
        title=title,
        releases=tuple(r for audit in audits for r in audit.releases),
        curves=tuple(c for audit in audits for c in audit.curves),
        notes=tuple(dict.fromkeys(n for audit in audits for n in audit.notes)),
        **rest,
    )


def _rows(release: AuditedRelease) -> list[dict[str, Any]]:
    facts: dict[str, Any] = {
        "release": release.kind,
        "sender": release.sender,
        "receiver": release.receiver,
        "claimed_epsilon": None if release.claim is None else float(release.claim.epsilon),
        "proved_epsilon": None if release.proof is None else release.proof.epsilon,
    }
    rows = []
    for leak in release.leaks or (None,):
        figures = {} if leak is None else leak.to_dict()
        low, high = figures.get("interval", (None, None))
        rows.append(
            {
                **facts,
                "attack": figures.get("name"),
                **{n: figures.get(n) for n in ("figure", "scope", "floor", "control")},
                "leak": figures.get("attack"),
                "low": low,
                "high": high,
                "ceiling": figures.get("ceiling"),
                "verdict": release.individual if leak is None else release.level_of(leak),
            }
        )
    return rows


def _cells(row: Mapping[str, Any]) -> list[str]:
    interval = "–" if row["low"] is None else f"{number(row['low'], 3)} to {number(row['high'], 3)}"
    return [
        row["release"],
        f"{row['sender']} → {row['receiver']}",
        row["attack"] or "–",
        row["figure"] or "–",
        *(number(row[figure], 3) for figure in ("floor", "control", "leak")),
        interval,
        number(row["ceiling"], 3),
        row["verdict"],
    ]
