"""Charts: well-formed, complete, and with nothing drawn outside or on top of something else."""

import base64
import re
import xml.etree.ElementTree as ET
import zlib

import numpy as np
import pytest

from cofill.metrics import ResultRecord
from cofill_papers._charts._panels import grouped_bars, heat_maps, image_grid
from cofill_papers._charts._svg import CHAR, key, png, ticks
from cofill_papers._pictures import pictures

SVG = "{http://www.w3.org/2000/svg}"


def words(svg):
    return [t.text for t in ET.fromstring(svg).iter(f"{SVG}text")]


def inside(svg):
    root = ET.fromstring(svg)
    width, height = float(root.get("width")), float(root.get("height"))
    for shape in root.iter(f"{SVG}rect"):
        x, y = float(shape.get("x", 0)), float(shape.get("y", 0))
        assert x >= 0
        assert y >= 0
        assert x + float(shape.get("width")) <= width
        assert y + float(shape.get("height")) <= height
    for text in root.iter(f"{SVG}text"):
        room = CHAR * float(text.get("font-size")) * len(text.text)
        x = float(text.get("x"))
        if text.get("text-anchor") == "start":
            assert x + room <= width + 1
        assert 0 <= float(text.get("y")) <= height


@pytest.mark.parametrize("views", [1, 3, 6])
@pytest.mark.parametrize("methods", [1, 4, 8])
def test_bars_have_names_ticks_and_deviations(views, methods):
    rng = np.random.default_rng(0)
    groups = [f"view {k} & more" for k in range(views)]
    series = {
        f"method <{m}>": [(float(v), 0.1) for v in rng.normal(size=views)] for m in range(methods)
    }
    series["method <0>"][0] = None
    svg = grouped_bars("Title", groups, series, axis="points", caption="Mean over 2 repeats.")
    shown = words(svg)
    for word in ("Title", *groups, *series, "points", "Mean over 2 repeats."):
        assert word in shown
    inside(svg)
    bars = svg.count('stroke="#1d2733" fill="none"')
    assert bars == views * methods - 1


def test_a_bar_is_as_long_as_its_value():
    svg = grouped_bars("T", ["a"], {"m": [(1.0, 0.0)], "n": [(0.25, 0.0)]}, axis="x")
    heights = [float(r.get("height")) for r in ET.fromstring(svg).iter(f"{SVG}rect")][-2:]
    assert heights[0] == pytest.approx(4 * heights[1], abs=0.2)


def test_a_method_keeps_its_colour_when_others_are_left_out():
    value = [(1.0, 0.0)]
    both = grouped_bars("T", ["a"], {"m": value, "n": value}, axis="x", order=("m", "n"))
    alone = grouped_bars("T", ["a"], {"n": value}, axis="x", order=("m", "n"))
    colours = [[r.get("fill") for r in ET.fromstring(s).iter(f"{SVG}rect")] for s in (both, alone)]
    assert colours[1][-1] == colours[0][-1] != colours[0][-2]


def test_bars_without_any_value_or_all_zero_are_drawn():
    inside(grouped_bars("T", ["a"], {"m": [None]}, axis="x"))
    inside(grouped_bars("T", ["a"], {"m": [(0.0, 0.0)]}, axis="x"))


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 0.43), (-0.07, 0.031), (0.0, 1e-9), (-3.0, 0.0), (0.0, 12_345.0)]
)
def test_ticks_are_few_round_and_cover_the_values(low, high):
    found = ticks(low, high)
    assert 3 <= len(found) <= 8
    assert found[0] <= low
    assert found[-1] >= high
    assert any(abs(t) < 1e-15 for t in found)


def test_the_key_breaks_lines_and_no_two_names_touch():
    parts, height = key({f"method {k}": "#000000" for k in range(8)}, 74, 54, 300)
    places = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"', parts)
    assert len(set(places)) == 8
    assert len({y for _, y in places}) > 1
    assert height > 14


@pytest.mark.parametrize("features", [2, 10, 240])
def test_heat_maps_have_a_cell_for_every_weight(features):
    row = {f"feature {k}": k / features * 2 - 1 for k in range(features)}
    panels = {"view a": {"from b": row, "from c": row}, "view b": {"from a": row}}
    svg = heat_maps("Masks", panels)
    inside(svg)
    assert {"view a", "from b", "view b"} <= set(words(svg))
    assert svg.count('height="22"') == 3 * features
    assert ("−1.00" in words(svg)) == (features <= 10)


def test_images_are_grey_pixels():
    rows = {n: np.arange(24.0).reshape(2, 4, 3) for n in ("original", "mwm")}
    svg = image_grid("Digits", rows, columns=["3", "8"])
    inside(svg)
    assert {"original", "mwm", "3", "8"} <= set(words(svg))
    found = re.findall(r"base64,([^\"]+)", svg)
    assert len(found) == 4
    data = base64.b64decode(png(np.array([[0, 255], [7, 9]], dtype=np.uint8)))
    assert data.startswith(b"\x89PNG")
    start = data.index(b"IDAT") + 4
    size = int.from_bytes(data[start - 8 : start - 4], "big")
    assert zlib.decompress(data[start : start + size]) == b"\0\0\xff\0\x07\x09"


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
    drawn = pictures(record)
    assert set(drawn) == {"mse", "class_diff", "masks_mwm", "digits_best", "digits_worst"}
    for svg in drawn.values():
        inside(svg)
    assert words(drawn["mse"])[:3] == ["Mean squared error per view: wdbc", "equal", "mwm"]
