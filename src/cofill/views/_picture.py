"""The presence picture of a notebook: which share of the individuals is known to which views."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

_MOST_PATTERNS = 24
_KNOWN, _UNKNOWN = "#2a78b5", "#d9dee3"


def presence_html(
    rows: Mapping[str, int], features: Mapping[str, int], patterns: Mapping[tuple[bool, ...], int]
) -> str:
    """Draw one bar per view, cut into the patterns of presence, the commonest first.

    Only counts are drawn, no individual.
    """
    total = sum(patterns.values())
    shown = list(patterns.items())[:_MOST_PATTERNS]
    lines = []
    for k, name in enumerate(rows):
        x, bars = 0.0, []
        for pattern, count in shown:
            width = 100 * count / total if total else 0.0
            known = "known" if pattern[k] else "missing"
            bars.append(
                f'<rect x="{x:.3f}%" y="0" width="{max(width - 0.2, 0.1):.3f}%" height="16" '
                f'fill="{_KNOWN if pattern[k] else _UNKNOWN}">'
                f"<title>{count:,} individuals, {known} in {escape(name)}</title></rect>"
            )
            x += width
        share = f"{100 * rows[name] / total:.0f} %" if total else "–"
        lines.append(
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"<td style='text-align:right'>{rows[name]:,}</td>"
            f"<td style='text-align:right'>{share}</td>"
            f"<td style='text-align:right'>{features[name]}</td>"
            f"<td><svg width='360' height='16' role='img' "
            f"aria-label='presence in {escape(name, quote=True)}'>{''.join(bars)}</svg></td></tr>"
        )
    left_out = len(patterns) - len(shown)
    note = f" ({left_out} rarer patterns not drawn)" if left_out > 0 else ""
    return (
        "<table><caption style='text-align:left'>"
        f"MultiView of {total:,} individuals in {len(patterns)} patterns{note}</caption>"
        "<thead><tr><th>view</th><th>rows</th><th>share</th><th>features</th>"
        f"<th style='text-align:left'><span style='color:{_KNOWN}'>■</span> known "
        f"<span style='color:{_UNKNOWN}'>■</span> missing</th></tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )
