"""The first thing a reader sees: what was completed, how well, for whom, and what leaked."""

from __future__ import annotations

from cofill.pages import Part, Quantity, Section, badge, byte_size, join, key_figures, paragraph
from cofill.privacy import Ledger
from cofill.report._audit import TONES
from cofill.report._records import Records
from cofill.report._releases import ledgers, spent_of
from cofill.report._words import Figures, metric_of, pools_rows

__all__ = ["summary"]


def summary(records: Records) -> Section | None:
    """Return the most important figures of everything found, in a few sentences."""
    tiles: list[tuple[str, Part, str]] = []
    words: list[Part] = []
    for part in (_completed, _quality, _groups, _crossed, _leaked):
        figures, sentences = part(records)
        tiles += figures
        words += sentences
    if not tiles:
        return None
    return Section("Summary", [key_figures(tiles), *words], "summary")


Told = tuple[list[tuple[str, Part, str]], list[Part]]


def _completed(records: Records) -> Told:
    found = records.of("completion")
    if not found:
        return [], []
    people = sum(r.content["individuals"] for r in found)
    counts = [c for r in found for c in r.content["views"].values()]
    cells = sum(c["reconstructed_cells"] for c in counts)
    empty = sum(c["missing_cells"] for c in counts)
    rows = sum(c["reconstructed_rows"] for c in counts)
    left = f" {empty:,} cells stay empty." if empty else " No cell stays empty."
    return (
        [
            ("individuals", Quantity(people), "people in any of the views"),
            ("cells filled", Quantity(cells), f"{rows:,} whole rows, and holes inside known rows"),
        ],
        [
            paragraph(
                f"{people:,} individuals in {len(counts)} views: {rows:,} missing rows were filled."
                f"{left}"
            )
        ],
    )


def _quality(records: Records) -> Told:
    tiles: list[tuple[str, Part, str]] = []
    words: list[Part] = []
    for record in records.of("result"):
        if record.content.name == "evaluation":
            figures = Figures(record.content)
            tiles += _tile(figures)
            words += _sentence(figures)
    return tiles, words


def _tile(figures: Figures) -> list[tuple[str, Part, str]]:
    for metric in ("mse", "accuracy"):
        methods = figures.methods(metric)
        found = figures.of(methods[0], metric, "all") if methods else None
        if found is not None:
            said = metric_of(metric)
            label = f"error ({said.name})" if said.lower_is_better else said.name
            return [(label, found, said.words)]
    return []


def _sentence(figures: Figures) -> list[Part]:
    methods = figures.methods("mse")
    ours = figures.of(methods[0], "mse", "all") if methods else None
    floor = figures.of("mean", "mse", "all")
    if ours is None or ours.value is None:
        return []
    said = f"On rows hidden from it, {methods[0]} has a standardised error of {ours}"
    if floor is not None and floor.value:
        times = floor.value / max(ours.value, 1e-9)
        said += f"; filling in the mean has {floor}, {times:.1f} times as much"
    ceiling = [
        (q.value, m)
        for m in methods
        if m in pools_rows() and (q := figures.of(m, "mse", "all")) and q.value is not None
    ]
    if ceiling:
        value, name = min(ceiling)
        said += f". The best that sees all rows in one place ({name}) has {value:.3f}"
    return [paragraph(f"{said}.")]


def _groups(records: Records) -> Told:
    found = records.of("clustering")
    tiles: list[tuple[str, Part, str]] = [
        ("groups", Quantity(r.content["k"]), "found among the completed individuals") for r in found
    ]
    return tiles, []


def _crossed(records: Records) -> Told:
    found = ledgers(records)
    if not found:
        return [], []
    entries = [e for r in found for e in r.content]
    total = sum(e.bytes for e in entries)
    kinds = ", ".join(dict.fromkeys(e.kind for e in entries))
    spent = [cost for r in found for cost in spent_of(Ledger(list(r.content))).values()]
    without = sum(e.epsilon is None for e in entries)
    tiles: list[tuple[str, Part, str]] = [
        ("crossed a border", byte_size(total), f"{len(entries):,} releases: {kinds}"),
        (
            "privacy spent, ε",
            Quantity(max(spent), digits=2) if spent else "no guarantee",
            "the largest of a site, over all its releases with a guarantee, at δ = 1e-5"
            if spent
            else "no release carries a differential privacy guarantee",
        ),
    ]
    plain = ""
    if without:
        plain = f" {without:,} of them carry no guarantee."
        plain = " None of them carries a guarantee." if without == len(entries) else plain
    return tiles, [
        paragraph(f"{len(entries):,} releases crossed a border ({kinds}), and no row.{plain}")
    ]


def _leaked(records: Records) -> Told:
    words: list[Part] = []
    verdicts = [str(record.content["verdict"]) for record in records.of("audit")]
    for record, verdict in zip(records.of("audit"), verdicts, strict=True):
        refuted = sum(bool(r["refuted"]) for r in record.content["releases"])
        words.append(
            paragraph(
                f"Audit ({record.content['title']}): {len(record.content['releases']):,} releases; "
                "the worst verdict about a person: ",
                badge(verdict, TONES.get(verdict, "plain")),
                f" {refuted} claimed guarantees were refuted." if refuted else "",
            )
        )
    if not verdicts:
        return [], []
    scale = list(TONES)
    worst = max(verdicts, key=lambda v: scale.index(v) if v in scale else len(scale))
    why = "the worst verdict of an attack on what crossed a border"
    return [("leak about a person", worst, why)], [join(*words)]
