"""Self-contained HTML pages: words, tables, pictures and interactive plots, nothing from outside.

What is not `Html` is escaped wherever it is put, and a page allows only its own two scripts to run,
by their hashes, so that no name of a column or a site can become markup or code.
"""

from cofill.pages._figures import (
    Line,
    bars,
    density,
    flow,
    heat_map,
    histogram,
    lines,
    scatter,
)
from cofill.pages._html import (
    Cell,
    Html,
    Part,
    Quantity,
    badge,
    bullets,
    byte_size,
    choice,
    code,
    columns,
    details,
    heading,
    hint,
    join,
    key_figures,
    note,
    number,
    paragraph,
    strong,
    text,
)
from cofill.pages._images import image_rows, picture
from cofill.pages._page import Page, Section
from cofill.pages._plot import plot
from cofill.pages._table import table_html

__all__ = [
    "Cell",
    "Html",
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
    "scatter",
    "strong",
    "table_html",
    "text",
]
