"""Draw the README's picture: rows known and filled per view, and the error of each method.

It is plain SVG text, which opens anywhere and needs no drawing library, and shows only counts and
errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from cofill.metrics import ResultRecord

__all__ = ["completion_picture"]

_KNOWN, _FILLED, _EMPTY, _INK, _FAINT = "#2a78b5", "#f0962e", "#e3e7eb", "#1d2733", "#6b7785"
_WIDTH, _LEFT, _BAR, _ROW, _TOP = 890, 110, 300, 44, 64


def completion_picture(
    individuals: int,
    views: Mapping[str, Mapping[str, int]],
    record: ResultRecord | None,
    *,
    pooled: Sequence[str] = (),
) -> str:
    """Draw a completion as SVG.

    Parameters
    ----------
    individuals
        How many individuals there are.
    views
        Per view ``observed_rows`` and ``reconstructed_rows``, as in a result's facts.
    record
        An evaluation with figures ``<method>/mse/all``; the right half stays empty without one.
    pooled
        Methods that see all rows in one place, marked with a dagger.

    Examples
    --------
    >>> svg = completion_picture(10, {"lab": {"observed_rows": 7, "reconstructed_rows": 3}}, None)
    >>> svg.startswith("<svg") and "7 known" in svg
    True
    """
    methods = _errors(record) if record is not None else {}
    height = _TOP + max(len(views) * _ROW, len(methods) * 30) + 46
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="system-ui, sans-serif" font-size="13" '
        'role="img">',
        f"<title>Rows known and filled per view{' and the error per method' * bool(methods)}"
        "</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        _text(16, 26, f"{individuals:,} individuals", weight=600, size=15),
        _key(16, 46, (("known", _KNOWN), ("filled", _FILLED), ("still missing", _EMPTY))),
    ]
    for k, (name, counts) in enumerate(views.items()):
        parts.append(_presence(name, counts, individuals, _TOP + k * _ROW))
    if methods:
        parts.append(_error_bars(methods, pooled))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _errors(record: ResultRecord) -> dict[str, tuple[float, float]]:
    """Return mean and standard deviation of the error over all views, the smallest first."""
    errors = {}
    for key, value in record.summary.items():
        method, metric, where = key.split("/")
        mean = value["mean"]
        if metric == "mse" and where == "all" and mean is not None and math.isfinite(mean):
            errors[method] = (mean, value["std"] or 0.0)
    return dict(sorted(errors.items(), key=lambda item: item[1][0]))


def _presence(name: str, counts: Mapping[str, int], individuals: int, top: float | int) -> str:
    known, filled = counts["observed_rows"], counts["reconstructed_rows"]
    scale = _BAR / max(individuals, 1)
    return "".join(
        [
            _text(16, top + 17, name, weight=600),
            f'<rect x="{_LEFT}" y="{top}" width="{_BAR}" height="24" fill="{_EMPTY}"/>',
            f'<rect x="{_LEFT}" y="{top}" width="{known * scale:.1f}" height="24" '
            f'fill="{_KNOWN}"/>',
            f'<rect x="{_LEFT + known * scale:.1f}" y="{top}" width="{filled * scale:.1f}" '
            f'height="24" fill="{_FILLED}"/>',
            _text(_LEFT, top + 38, f"{known:,} known + {filled:,} filled", colour=_FAINT, size=11),
        ]
    )


def _error_bars(methods: Mapping[str, tuple[float, float]], pooled: Sequence[str]) -> str:
    left, width = 570, 200
    largest = max(mean + std for mean, std in methods.values()) or 1.0
    parts = [
        _text(450, 26, "Error on hidden rows", weight=600, size=15),
        _text(450, 46, "standardised MSE; 1 is as good as the mean", colour=_FAINT),
    ]
    for k, (name, (mean, std)) in enumerate(methods.items()):
        y = _TOP + k * 30
        mark = " †" if name in pooled else ""
        end = left + width * mean / largest
        spread = width * std / largest
        parts += [
            _text(450, y + 14, f"{name}{mark}"),
            f'<rect x="{left}" y="{y}" width="{end - left:.1f}" height="18" '
            f'fill="{_EMPTY if mark else _FILLED}" stroke="{_FAINT}" stroke-width="0.5"/>',
            f'<path d="M{end - spread:.1f} {y + 9}H{end + spread:.1f}" stroke="{_INK}"/>',
            _text(left + width + 14, y + 14, f"{mean:.3f} ± {std:.3f}", size=11),
        ]
    if any(name in pooled for name in methods):
        bottom = _TOP + len(methods) * 30 + 16
        parts.append(
            _text(450, bottom, "† sees all rows in one place: a yardstick", colour=_FAINT, size=11)
        )
    return "".join(parts)


def _key(x: float | int, y: float | int, entries: Sequence[tuple[str, str]]) -> str:
    parts = []
    for word, colour in entries:
        parts.append(f'<rect x="{x}" y="{y - 10}" width="11" height="11" fill="{colour}"/>')
        parts.append(_text(x + 16, y, word, colour=_FAINT, size=12))
        x += 36 + 6.5 * len(word)
    return "".join(parts)


def _text(
    x: float | int,
    y: float | int,
    words: str,
    *,
    colour: str = _INK,
    size: int = 13,
    weight: int = 400,
) -> str:
    return (
        f'<text x="{x}" y="{y}" fill="{colour}" font-size="{size}" font-weight="{weight}">'
        f"{escape(words)}</text>"
    )
