"""The first thing a reader sees: what was completed, how well, for whom, and what leaked."""

from __future__ import annotations

from typing import TypeAlias

from cofill.pages import (
    VERDICT_TONES,
    Part,
    Quantity,
    Section,
    byte_size,
    join,
    key_figures,
    paragraph,
    verdict_badge,
)
from cofill.privacy import Gate
from cofill.report._errors import Figures, metric_of, pools_rows
from cofill.report._records import Records

Tile: TypeAlias = tuple[str, Part, str]
Overview: TypeAlias = tuple[list[Tile], list[Part]]
"""Key figures, and sentences below them."""


def summary(records: Records) -> Section | None:
    """Return the most important figures of all records, in a few sentences."""
    parts = [part(records) for part in (_completed, _quality, _groups, _crossed, _leaked)]
    tiles = [tile for part_tiles, _ in parts for tile in part_tiles]
    sentences = [sentence for _, part_sentences in parts for sentence in part_sentences]
    return Section("Summary", [key_figures(tiles), *sentences], "summary") if tiles else None


def _completed(records: Records) -> Overview:
    completions = records.of("completion")
    if not completions:
        return [], []
    people = sum(r.content["individuals"] for r in completions)
    counts = [c for r in completions for c in r.content["views"].values()]
    cells = sum(c["reconstructed_cells"] for c in counts)
    empty = sum(c["missing_cells"] for c in counts)
    rows = sum(c["reconstructed_rows"] for c in counts)
    left = f"{empty:,} cells stay empty." if empty else "No cell stays empty."
    tiles: list[Tile] = [
        ("individuals", Quantity(people), "people in any of the views"),
        ("cells filled", Quantity(cells), f"{rows:,} whole rows, and holes inside known rows"),
    ]
    words = f"{people:,} individuals in {len(counts)} views: {rows:,} missing rows were filled."
    return tiles, [paragraph(f"{words} {left}")]


def _quality(records: Records) -> Overview:
    evaluations = [r.content for r in records.of("result") if r.content.name == "evaluation"]
    figures = [Figures(record) for record in evaluations]
    return [tile for f in figures for tile in _tile(f)], [s for f in figures for s in _sentence(f)]


def _tile(figures: Figures) -> list[Tile]:
    for key in ("mse", "accuracy", "cell_mse", "cell_accuracy"):
        methods = figures.methods(key)
        figure = figures.of(methods[0], key, "all") if methods else None
        if figure is not None:
            metric = metric_of(key)
            label = f"error ({metric.name})" if metric.lower_is_better else metric.name
            return [(label, figure, metric.words)]
    return []


def _sentence(figures: Figures) -> list[Part]:
    key = "mse" if figures.methods("mse") else "cell_mse"
    methods = figures.methods(key)
    ours = figures.of(methods[0], key, "all") if methods else None
    floor = figures.of("mean", key, "all")
    if ours is None or ours.value is None:
        return []
    hidden = "rows" if key == "mse" else "cells"
    words = f"On {hidden} hidden from it, {methods[0]} has a standardised error of {ours}"
    if floor is not None and floor.value:
        times = floor.value / max(ours.value, 1e-9)
        words += f"; filling in the mean has {floor}, {times:.1f} times as much"
    ceiling = [
        (q.value, m)
        for m in methods[1:]
        if m in pools_rows() and (q := figures.of(m, key, "all")) and q.value is not None
    ]
    if ceiling:
        value, name = min(ceiling)
        words += f". The best beside it that uses all rows in one place ({name}) has {value:.3f}"
    return [paragraph(f"{words}.")]


def _groups(records: Records) -> Overview:
    words = "found among the completed individuals"
    return [("groups", Quantity(r.content["k"]), words) for r in records.of("clustering")], []


def _crossed(records: Records) -> Overview:
    ledgers = records.of("ledger")
    if not ledgers:
        return [], []
    entries = [e for r in ledgers for e in r.content]
    kinds = ", ".join(dict.fromkeys(e.kind for e in entries))
    spent = [cost for r in ledgers for cost in Gate(r.content).spent_by_site().values()]
    size = byte_size(sum(e.bytes for e in entries))
    cost: Part = "no guarantee"
    why = "no release carries a differential privacy guarantee"
    if spent:
        cost = Quantity(max(spent), digits=2)
        why = "the largest of a site, over all its releases with a guarantee, at δ = 1e-5"
    tiles: list[Tile] = [
        ("crossed a border", size, f"{len(entries):,} releases: {kinds}"),
        ("privacy spent, ε", cost, why),
    ]
    without = sum(e.epsilon is None for e in entries)
    guarantees = f" {without:,} of them carry no guarantee." if without else ""
    if without == len(entries):
        guarantees = " None of them carries a guarantee."
    words = f"{len(entries):,} releases crossed a border ({kinds}), and no row.{guarantees}"
    return tiles, [paragraph(words)]


def _leaked(records: Records) -> Overview:
    audits = records.of("audit")
    if not audits:
        return [], []
    chapters = [c for r in records.of("story") for c in r.content.get("chapters", ())]
    imagined = tuple(f"{c['folder']}/" for c in chapters if not c.get("sent", True))
    sentences: list[Part] = []
    sent: list[str] = []
    for record in audits:
        audit = record.content
        refuted = sum(bool(release["refuted"]) for release in audit["releases"])
        broken = f" {refuted} claimed guarantees were refuted." if refuted else ""
        count = f"{len(audit['releases']):,} releases"
        if record.name.startswith(imagined):
            count += ", had they been sent"
        else:
            sent.append(str(audit["verdict"]))
        audited = f"Audit ({audit['title']}): {count}; the worst verdict about a person: "
        sentences.append(paragraph(audited, verdict_badge(audit["verdict"]), broken))
    if not sent:
        return [], [join(*sentences)]
    scale = list(VERDICT_TONES)
    worst = max(sent, key=lambda v: scale.index(v) if v in scale else len(scale))
    why = "the worst verdict of an attack on what crossed a border"
    return [("leak about a person", worst, why)], [join(*sentences)]
