"""Numbers as people read them: thousands apart, with their spread and unit."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

from markupsafe import Markup, escape


@dataclass(frozen=True)
class Quantity:
    """A number with its uncertainty, unit and explanation.

    Parameters
    ----------
    value
        The number; a dash is shown for None and for what is not a number.
    spread
        Its standard deviation or half-width, shown after ±; `words` should say which.
    unit
        Shown after the number.
    digits
        Digits after the point; four significant ones when left out.
    words
        Explanation, shown on hover.

    Examples
    --------
    >>> str(Quantity(0.22345, 0.0601, digits=3)), str(Quantity(1536, unit="bytes"))
    ('0.223 ± 0.060', '1,536 bytes')
    """

    value: int | float | None
    spread: int | float | None = None
    unit: str = ""
    digits: int | None = None
    words: str = ""

    def __str__(self) -> str:
        shown = number(self.value, self.digits)
        if shown == "–":
            return shown
        spread = "" if self.spread is None else f" ± {number(self.spread, self.digits)}"
        return f"{shown}{spread}{' ' + self.unit if self.unit else ''}"

    def __html__(self) -> Markup:
        """Return the number as markup; `markupsafe.escape` asks for it."""
        if not self.words:
            return escape(str(self))
        return Markup('<span title="{}">{}</span>').format(self.words, str(self))


def number(value: int | float | None, digits: int | None = None) -> str:
    """Return a number for people: thousands apart, a true minus, a dash for none.

    Examples
    --------
    >>> number(1234567), number(-0.12345), number(0.5, 3), number(None), number(3.2e-7)
    ('1,234,567', '−0.1235', '0.500', '–', '3.2e−07')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    if digits is not None:
        shown = f"{value:,.{digits}f}"
    elif isinstance(value, numbers.Integral) or (value == int(value) and abs(value) < 1e15):
        shown = f"{int(value):,}"
    else:
        shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return shown.replace("-", "−")


def byte_size(count: int | float) -> str:
    """Return a number of bytes with the unit that suits it.

    Examples
    --------
    >>> byte_size(812), byte_size(30_600), byte_size(4_815_814)
    ('812 B', '30.6 kB', '4.8 MB')
    """
    if count < 1000:
        return f"{count:.0f} B"
    unit, size = next(
        (u, s) for u, s in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)) if count < 1000 * s or u == "GB"
    )
    return f"{count / size:,.1f} {unit}"
