"""Self-contained HTML pages: words, tables, pictures and interactive plots, nothing from outside.

Words that are not `markupsafe.Markup` are escaped wherever they are put, and a page allows only its
own two scripts to run, by their hashes, so that no name of a column or a site can become markup or
code.
"""

from cofill.pages._figures import Line, bars, density, flow, heat_map, histogram, lines
from cofill.pages._html import (
    Cell,
    Part,
    Quantity,
    badge,
    bullets,
    byte_size,
    choice,
    code,
    columns,
    details,
    element,
    heading,
    hint,
    join,
    key_figures,
    note,
    number,
    paragraph,
    scroll_area,
    strong,
    table_html,
)
from cofill.pages._leaks import VERDICT_TONES, Curve, draw_curves, verdict_badge
from cofill.pages._page import Page, Section
from cofill.pages._pictures import image_rows, picture, plot

__all__ = [
    "VERDICT_TONES",
    "Cell",
    "Curve",
    "Line",
    "Page",
    "Part",
    "Quantity",
    "Section",
    "badge",
    "bars",
    "bullets",
    "byte_size",
    "choice",
    "code",
    "columns",
    "density",
    "details",
    "draw_curves",
    "element",
    "flow",
    "heading",
    "heat_map",
    "hint",
    "histogram",
    "image_rows",
    "join",
    "key_figures",
    "lines",
    "note",
    "number",
    "paragraph",
    "picture",
    "plot",
    "scroll_area",
    "strong",
    "table_html",
    "verdict_badge",
]
