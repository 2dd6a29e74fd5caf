"""Small images side by side, as pixels inside the page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from html import escape

import numpy as np
from jaxtyping import Float

from cofill.charts import png
from cofill.errors import SettingError
from cofill.pages._html import Html, Part, text

__all__ = ["image_rows", "picture"]


def image_rows(
    rows: Mapping[str, Float[np.ndarray, "images height width"]],
    *,
    caption: str,
    high: int | float = 1.0,
) -> Html:
    """Return grey images, one row per name, the same subject above one another.

    Parameters
    ----------
    rows
        Images by what they are ("original", "made from edges").
    caption
        What is to be seen.
    high
        The value drawn white; 0 is black.

    Examples
    --------
    >>> made = image_rows({"original": np.zeros((2, 8, 8))}, caption="two digits")
    >>> made.count("data:image/png;base64"), 'alt="original, 1 of 2"' in made
    (2, True)
    """
    counts = {len(images) for images in rows.values()}
    if len(counts) != 1:
        raise SettingError("image_rows: every row must have the same number of images")
    lines = []
    for name, images in rows.items():
        grey = np.rint(255 * np.clip(images / high, 0, 1)).astype(np.uint8)
        drawn = "".join(
            f'<img src="data:image/png;base64,{png(image)}" width="56" height="56" '
            f'alt="{escape(name)}, {k} of {len(grey)}">'
            for k, image in enumerate(grey, start=1)
        )
        lines.append(f'<tr><th scope="row">{text(name)}</th><td>{drawn}</td></tr>')
    return Html(
        f'<figure><div class="scroll images" role="region" tabindex="0" '
        f'aria-label="{escape(caption)}"><table><tbody>{"".join(lines)}</tbody></table></div>'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def picture(svg: str, *, caption: Part, alt: str) -> Html:
    """Return a drawing; as an image it can neither run scripts nor ask for anything.

    Examples
    --------
    >>> picture("<svg/>", caption="a map", alt="three groups").count("data:image/svg+xml")
    1
    """
    data = b64encode(svg.encode()).decode()
    return Html(
        f'<figure><div class="scroll" role="region" tabindex="0" aria-label="{escape(alt)}">'
        f'<img class="drawing" src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}"></div>'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )
