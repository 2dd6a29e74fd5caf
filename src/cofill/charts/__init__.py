"""Charts as plain SVG text, so that a picture can be made wherever cofill runs."""

from cofill.charts._curves import Points, density_maps, line_chart
from cofill.charts._panels import grouped_bars, heat_maps, image_grid
from cofill.charts._svg import png

__all__ = [
    "Points",
    "density_maps",
    "grouped_bars",
    "heat_maps",
    "image_grid",
    "line_chart",
    "png",
]
