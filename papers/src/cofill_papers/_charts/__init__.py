"""Charts as plain SVG text, so that a picture can be made wherever cofill runs."""

from cofill_papers._charts._curves import Points, density_maps, line_chart
from cofill_papers._charts._panels import grouped_bars, heat_maps, image_grid
from cofill_papers._charts._svg import png

__all__ = [
    "Points",
    "density_maps",
    "grouped_bars",
    "heat_maps",
    "image_grid",
    "line_chart",
    "png",
]
