"""Pictures: well-formed, complete, the same twice, and without a point that shows alone."""

import base64
import math
import re
import xml.etree.ElementTree as ET
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from cofill.metrics import ResultRecord
from cofill_papers._draw import density_maps, grouped_bars, heat_maps, image_grid, line_chart
from cofill_papers._view_pictures import draw_views

SVG = "{http://www.w3.org/2000/svg}"
AXES = {"x_axis": "across", "y_axis": "up"}
LONG = "a name of many words " * 15


def words(svg):
    return [t.text for t in ET.fromstring(svg).iter(f"{SVG}text")]


def colours(svg):
    """Return the fills of the drawing, in order, each once."""
    found = re.findall(r"fill: (#[0-9a-f]{6})", svg)
    return list(dict.fromkeys(found))


def pixels(svg):
    """Return the drawn pixels of every embedded image, as masks."""
    images = re.findall(r"base64,\s*([^\"]+)\"", svg)
    return [
        np.array(Image.open(BytesIO(base64.b64decode(data))).convert("RGBA"))[..., 3] > 0
        for data in images
    ]


@pytest.mark.parametrize("views", [1, 6])
@pytest.mark.parametrize("methods", [1, 8])
def test_bars_have_names_axis_and_caption(views, methods):
    rng = np.random.default_rng(0)
    groups = [f"view {k} & more" for k in range(views)]
    series = {
        f"method <{m}>": [(float(v), 0.1) for v in rng.normal(size=views)] for m in range(methods)
    }
    series["method <0>"][0] = None
    svg = grouped_bars("Title", groups, series, axis="points", caption="Mean over 2 repeats.")
    assert {"Title", *groups, *series, "points", "Mean over 2 repeats."} <= set(words(svg))
    assert svg == grouped_bars(
        "Title", groups, series, axis="points", caption="Mean over 2 repeats."
    )


def test_a_method_keeps_its_colour_when_others_are_left_out():
    value = [(1.0, 0.0)]
    both = grouped_bars("T", ["a"], {"m": value, "n": value}, axis="x", order=("m", "n"))
    alone = grouped_bars("T", ["a"], {"n": value}, axis="x", order=("m", "n"))
    first, second = "#9aa7b3", "#2a78b5"
    assert {first, second} <= set(colours(both))
    assert second in colours(alone)
    assert first not in colours(alone)


def test_bars_without_any_value_or_all_zero_are_drawn():
    assert "m" in words(grouped_bars("T", ["a"], {"m": [None]}, axis="x"))
    assert "m" in words(grouped_bars("T", ["a"], {"m": [(0.0, 0.0)]}, axis="x"))


def test_lines_leave_out_what_is_not_finite_and_name_what_has_no_values():
    whole = [(0, 1.0), (1, 2.0), (2, 1.5)]
    holes = [(0, 1.0), (0.5, math.nan), (1, 2.0), (math.inf, 1.0), (2, 1.5), (3, -math.inf)]
    assert line_chart("T", {"a": holes}, **AXES) == line_chart("T", {"a": whole}, **AXES)
    assert line_chart("T", {"a": np.array(whole)}, **AXES) == line_chart("T", {"a": whole}, **AXES)
    svg = line_chart("T", {"a": [(0, 1)], "b": [], "c": [(1, math.nan)]}, **AXES)
    assert {"a", "b (no values)", "c (no values)", "across", "up"} <= set(words(svg))


def test_the_range_of_the_vertical_axis_is_kept():
    svg = line_chart("T", {"a": [(0, 0.4), (1, 7.0)]}, y_range=(0, 1), **AXES)
    assert {"0.0", "1.0"} <= set(words(svg))
    assert not {"7", "7.0"} & set(words(svg))


def test_words_of_any_length_are_wrapped():
    svg = line_chart(LONG, {"a": [(0, 1), (1, 2)]}, caption=LONG, **AXES)
    lines = words(svg)
    assert max(map(len, lines)) < 140
    assert " ".join(lines).count("many words") == 30


@pytest.mark.parametrize("features", [2, 10, 240])
def test_heat_maps_have_every_weight_and_values_where_there_is_room(features):
    row = {f"feature {k}": k / features * 2 - 1 for k in range(features)}
    panels = {"view a": {"from b": row, "from c": row}, "view b": {"from a": row}}
    svg = heat_maps("Masks", panels)
    assert {"view a", "from b", "view b"} <= set(words(svg))
    assert words(svg).count("−1.00") == (3 if features <= 10 else 0)
    assert ("feature 1" in words(svg)) == (features <= 10)


def test_images_are_grey_pixels_below_their_names():
    rows = {n: np.arange(24.0).reshape(2, 4, 3) for n in ("original", "mwm")}
    svg = image_grid("Digits", rows, columns=["3", "8"])
    assert {"original", "mwm", "3", "8"} <= set(words(svg))
    assert len(pixels(svg)) == 1
    assert svg != image_grid("Digits", {**rows, "mwm": rows["mwm"][::-1]}, columns=["3", "8"])


def drawn_shares(svg):
    return [int(s) for s in re.findall(r"points, (\d+) % drawn", svg)]


def test_a_bin_of_few_points_is_blank_and_one_of_enough_is_drawn():
    crowd, few, some = np.zeros((200, 2)), np.full((4, 2), 1.0), np.full((5, 2), 1.0)
    corner = np.array([[1.0, 0.0]] * 5 + [[0.0, 1.0]] * 5)
    base = np.concatenate([crowd, corner])
    areas = [
        pixels(density_maps("T", {"a": points}, bins=10, **AXES))[0].mean()
        for points in (base, np.concatenate([base, few]), np.concatenate([base, some]))
    ]
    assert areas[0] == pytest.approx(0.03, abs=0.003)  # three bins of a hundred
    assert areas[1] == areas[0]
    assert areas[2] == pytest.approx(0.04, abs=0.004)


@pytest.mark.parametrize("least", [2, 5, 40])
def test_as_many_points_are_said_to_be_drawn_as_are_in_drawn_bins(least):
    cloud = np.random.default_rng(1).integers(0, 8, size=(600, 2)).astype(float)
    _, sizes = np.unique(cloud, axis=0, return_counts=True)
    svg = density_maps("T", {"a": cloud}, least=least, **AXES)
    assert drawn_shares(svg) == [100 * sizes[sizes >= least].sum() // 600]
    assert ("no bin has 40 points" in words(svg)) == (least == 40)


def test_a_far_point_neither_shows_nor_stretches_the_axes():
    cloud = np.random.default_rng(3).normal(size=(2000, 2))
    far = np.concatenate([cloud, [[1e6, -1e6], [math.nan, 0.0], [0.0, math.inf]]])
    plain, stretched = (density_maps("T", {"a": c}, **AXES) for c in (cloud, far))
    assert "2,001 points" in " ".join(words(stretched))
    areas = [pixels(svg)[0].mean() for svg in (plain, stretched)]
    assert areas[1] == pytest.approx(areas[0], rel=0.1)


def test_an_empty_panel_beside_another_is_drawn_blank():
    svg = density_maps("T", {"a": [(1, 2)] * 9, "b": [], "c": [(1, 2)] * 4}, **AXES)
    assert drawn_shares(svg) == [100, 0, 0]
    assert words(svg).count("no bin has 5 points") == 2


def test_a_record_gives_its_pictures():
    weights = {"mean": {"error": {"radius": 0.9}}, "error": {"mean": {"radius": 0.4}}}
    digits = {"original": [[0.0, 1.0]], "mwm": [[0.5, 1.0]], "rows": [4], "names": ["7"]}
    record = ResultRecord(
        "wdbc",
        seeds=[0, 1],
        values={
            "mwm/mse/view_mean": [0.2, 0.3],
            "equal/mse/view_mean": [0.3, 0.4],
            "mwm/class_diff/view_mean": [-0.01, 0.02],
            "original/rf/view_mean": [0.9, 0.9],
        },
        extra={
            "masks": {"mwm": weights},
            "digits": {"shape": [1, 2], "by": "mwm", "best": digits, "worst": digits},
        },
    )
    drawn = draw_views(record)
    assert set(drawn) == {"mse", "class_diff", "masks_mwm", "digits_best", "digits_worst"}
    shown = words(drawn["mse"])
    assert {"Mean squared error per view: wdbc", "equal", "mwm", "mean"} <= set(shown)
    assert {"0.90", "0.40", "from error"} <= set(words(drawn["masks_mwm"]))
