"""Lines and maps of points: complete, in place, and without a point that shows alone."""

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest

from cofill.errors import SettingError
from cofill_papers._charts._curves import _log_marks, _marks, density_maps, line_chart
from cofill_papers._charts._svg import CHAR

SVG = "{http://www.w3.org/2000/svg}"
AXES = {"x_axis": "across", "y_axis": "up"}
LONG = "a name of many words " * 15 + "x" * 200


def words(svg):
    return [t.text for t in ET.fromstring(svg).iter(f"{SVG}text")]


def inside(svg):
    """Check that words and shapes are on the page, and that no words touch on a line."""
    root = ET.fromstring(svg)
    width, height = float(root.get("width")), float(root.get("height"))
    for shape in root.iter(f"{SVG}rect"):
        x, y = float(shape.get("x", 0)), float(shape.get("y", 0))
        assert min(x, y) >= 0
        assert x + float(shape.get("width")) <= width
        assert y + float(shape.get("height")) <= height
    taken = {}
    turned = root.findall(f".//{SVG}g/{SVG}text")
    for text in root.iter(f"{SVG}text"):
        room = CHAR * float(text.get("font-size")) * len(text.text)
        before = {"start": 0, "middle": room / 2, "end": room}[text.get("text-anchor")]
        x = float(text.get("x"))
        assert 0 < float(text.get("y")) <= height
        if text in turned:
            assert x >= 12
        else:
            assert x - before >= 0
            assert x - before + room <= width
            taken.setdefault(text.get("y"), []).append((x - before, x - before + room))
    for x, y in re.findall(r'd="M([\d.]+) ([\d.]+)h32"', svg):  # the lines of a key
        taken[f"{float(y) + 4:.1f}"].append((float(x), float(x) + 32))
    for spans in map(sorted, taken.values()):
        for (_, end), (start, _) in pairwise(spans):
            assert end <= start


def lines(svg):
    """Return the shapes of the lines, without key and grid."""
    return list(ET.fromstring(svg).find(f"{SVG}svg"))


def places(shape):
    return [tuple(map(float, p.split())) for p in shape.get("d")[1:].split("L")]


def squares(svg):
    """Return the corner of every bin that is drawn, per colour."""
    paths = ET.fromstring(svg).iter(f"{SVG}path")
    found = {p.get("fill"): re.findall(r"M([\d.]+) ([\d.]+)h", p.get("d")) for p in paths}
    return {k: [(float(x), float(y)) for x, y in v] for k, v in found.items() if k}


def shares(svg):
    return [int(re.search(r"(\d+) % drawn", w)[1]) for w in words(svg) if "drawn" in w]


@pytest.mark.parametrize("count", [1, 2, 8, 20])
def test_every_line_has_a_path_a_key_and_its_own_look(count):
    series = {f"line <{k}>": [(0, k), (5, k + 1), (10, k)] for k in range(count)}
    svg = line_chart("Title & more", series, caption="Mean over 2 repeats.", **AXES)
    inside(svg)
    assert {"Title & more", "across", "up", "Mean over 2 repeats.", *series} <= set(words(svg))
    drawn = lines(svg)
    assert [len(places(p)) for p in drawn] == [3] * count
    looks = [(p.get("stroke"), p.get("stroke-dasharray")) for p in drawn]
    assert len(set(looks)) == count
    assert len({dash for _, dash in looks}) == min(count, 7)
    in_key = [p for p in ET.fromstring(svg).iter(f"{SVG}path") if "h32" in p.get("d")]
    assert [(p.get("stroke"), p.get("stroke-dasharray")) for p in in_key] == looks


def test_a_point_lies_between_the_numbers_beside_it():
    svg = line_chart("T", {"a": [(0, 0.0), (25, 0.25), (100, 1.0)]}, **AXES)
    (x0, y0), (x1, y1), (x2, y2) = places(lines(svg)[0])
    assert x1 - x0 == pytest.approx((x2 - x0) / 4, abs=0.2)
    assert y0 - y1 == pytest.approx((y0 - y2) / 4, abs=0.2)
    marks = {t.text: t for t in ET.fromstring(svg).iter(f"{SVG}text")}
    assert {"0", "20", "100", "0.0", "0.2", "1.0"} <= set(marks)
    assert float(marks["0"].get("x")) == pytest.approx(x0)
    assert float(marks["100"].get("x")) == pytest.approx(x2)
    assert float(marks["1.0"].get("y")) == pytest.approx(y2 + 4)


def test_a_logarithmic_axis_has_powers_of_ten_equally_far_apart():
    points = [(0, 9.0), (-1, 9.0), (1, 0.0), (10, 0.2), (100, 0.5), (10_000, 1.0)]
    svg = line_chart("T", {"a": points}, x_log=True, **AXES)
    x = [x for x, _ in places(lines(svg)[0])]
    assert len(x) == 4
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.2)
    assert x[3] - x[2] == pytest.approx(2 * (x[2] - x[1]), abs=0.2)
    assert {"1", "10", "100", "1 000", "10 000"} <= set(words(svg))
    assert "9.0" not in words(svg)


def test_the_range_of_the_vertical_axis_is_kept_and_cuts():
    svg = line_chart("T", {"a": [(0, 0.4), (1, 7.0)]}, y_range=(0, 1), **AXES)
    assert {"0.0", "1.0"} <= set(words(svg))
    assert "7.0" not in words(svg)
    window = ET.fromstring(svg).find(f"{SVG}svg")
    assert window.get("viewBox").split()[1] == window.get("y")
    assert places(lines(svg)[0])[1][1] < float(window.get("y"))


def test_the_vertical_axis_ends_at_round_numbers():
    svg = line_chart("T", {"a": [(0, 0.13), (10, 0.94)]}, **AXES)
    frame = ET.fromstring(svg).findall(f"{SVG}rect")[1]
    marks = {t.text: float(t.get("y")) - 4 for t in ET.fromstring(svg).iter(f"{SVG}text")}
    assert marks["1.0"] == pytest.approx(float(frame.get("y")), abs=0.1)
    assert marks["0.1"] - marks["1.0"] == pytest.approx(float(frame.get("height")), abs=0.1)


def test_points_that_are_not_finite_are_left_out():
    whole = [(0, 1.0), (1, 2.0), (2, 1.5)]
    holes = [(0, 1.0), (0.5, math.nan), (1, 2.0), (math.inf, 1.0), (2, 1.5), (3, -math.inf)]
    assert line_chart("T", {"a": holes}, **AXES) == line_chart("T", {"a": whole}, **AXES)
    array = np.array(whole, dtype=np.float32)
    assert line_chart("T", {"a": array}, **AXES) == line_chart("T", {"a": whole}, **AXES)


def test_a_line_without_values_is_named_as_such():
    svg = line_chart("T", {"a": [(0, 1)], "b": [], "c": [(1, math.nan)]}, **AXES)
    assert {"a", "b (no values)", "c (no values)"} <= set(words(svg))
    assert [s.tag for s in lines(svg)] == [f"{SVG}circle"]


@pytest.mark.parametrize("value", [0.0, 1.0, -3e-12, 0.1 + 0.2, 123_456_789.0])
@pytest.mark.parametrize("x_log", [True, False])
def test_constant_values_are_drawn_in_the_middle(value, x_log):
    svg = line_chart("T", {"a": [(3, value)], "b": [(3, value)] * 4}, x_log=x_log, **AXES)
    inside(svg)
    assert max(map(len, words(svg))) <= 8
    frame = ET.fromstring(svg).findall(f"{SVG}rect")[1]
    first, second = lines(svg)
    assert first.get("cx") == second.get("cx")
    middle = float(frame.get("x")) + float(frame.get("width")) / 2
    assert float(first.get("cx")) == pytest.approx(middle, abs=0.1)


def test_many_points_do_not_make_a_large_file_and_keep_their_ends():
    x = np.linspace(0, 1, 100_000)
    svg = line_chart("T", {"a": np.stack([x, x**2], axis=1)}, **AXES)
    drawn = places(lines(svg)[0])
    assert 300 < len(drawn) < 1000
    ends = places(lines(line_chart("T", {"a": [(0, 0), (1, 1)]}, **AXES))[0])
    assert [drawn[0], drawn[-1]] == ends


@pytest.mark.parametrize("series", [{}, {"a": []}, {"a": [(1, math.nan)], "b": []}])
def test_lines_without_a_point_are_refused(series):
    with pytest.raises(SettingError, match=f"got {len(series)} lines without any"):
        line_chart("T", series, **AXES)


def test_unusable_settings_of_lines_are_refused():
    with pytest.raises(SettingError, match="y_range must be"):
        line_chart("T", {"a": [(0, 1)]}, y_range=(1, 1), **AXES)
    with pytest.raises(SettingError, match="'a' must be pairs"):
        line_chart("T", {"a": [(0, 1, 2), (0, 1, 2)]}, **AXES)
    with pytest.raises(SettingError, match="got 1 lines without any"):
        line_chart("T", {"a": [(0, 1), (-1, 1)]}, x_log=True, **AXES)


@pytest.mark.parametrize("scale", [1e-13, 1e-4, 1.0, 1e5, 1e9, 1e200])
@pytest.mark.parametrize("names", [("a", "b"), (LONG, "short", LONG[1:])])
def test_words_and_numbers_of_any_length_stay_on_the_page(scale, names):
    cloud = np.random.default_rng(0).normal(size=(800, 2)) * scale
    given = dict.fromkeys(names, cloud)
    for draw in (line_chart, density_maps):
        svg = draw(LONG, given, x_axis=LONG, y_axis=LONG, caption=LONG)
        inside(svg)
        shown = "".join(words(svg)).replace(" ", "")
        assert shown.count(LONG[1:].replace(" ", "")) == 4 + (2 if "short" in names else 0)


@pytest.mark.parametrize("low", [-3.0, 0.0, 0.017, 1000.0])
@pytest.mark.parametrize("span", [1e-3, 0.92, 1.2, 3.0, 7.7, 1e6])
def test_marks_are_few_evenly_spaced_and_around_the_range(low, span):
    marks = _marks(low, low + span)
    assert 4 <= len(marks) <= 11
    assert marks[0] <= low + 1e-9 * span
    assert marks[-1] >= low + span * (1 - 1e-9)
    assert marks[1] > low
    assert marks[-2] < low + span
    assert np.diff(marks) == pytest.approx(marks[1] - marks[0])


@pytest.mark.parametrize("high", [1.3, 4.0, 80.0, 5e3, 1e9, 1e30])
def test_marks_of_a_logarithmic_axis_are_few(high):
    assert 3 <= len(_log_marks(1.0, high)) <= 10


def test_a_bin_of_few_points_is_blank_and_one_of_enough_is_drawn():
    crowd, few, some = np.zeros((200, 2)), np.full((4, 2), 1.0), np.full((5, 2), 0.9)
    corner = np.array([[1.0, 0.0]] * 5 + [[0.0, 1.0]] * 5)
    base = np.concatenate([crowd, corner])
    count = [
        sum(map(len, squares(density_maps("T", {"a": points}, bins=10, **AXES)).values()))
        for points in (base, np.concatenate([base, few]), np.concatenate([base, some]))
    ]
    assert count == [3, 3, 4]
    loose = density_maps("T", {"a": np.concatenate([base, few])}, bins=10, least=4, **AXES)
    assert sum(map(len, squares(loose).values())) == 4


@pytest.mark.parametrize("least", [2, 5, 40])
def test_as_many_points_are_said_to_be_drawn_as_are_in_drawn_bins(least):
    cloud = np.random.default_rng(1).integers(0, 8, size=(600, 2)).astype(float)
    _, sizes = np.unique(cloud, axis=0, return_counts=True)
    svg = density_maps("T", {"a": cloud}, bins=48, least=least, **AXES)
    assert sum(map(len, squares(svg).values())) == (sizes >= least).sum()
    assert shares(svg) == [100 * sizes[sizes >= least].sum() // 600]
    assert ("no bin has 40 points" in words(svg)) == (least == 40)


def test_a_fuller_bin_is_darker_and_higher_values_are_further_up():
    points = np.repeat([[0.0, 0.0], [1.0, 1.0]], [100, 5], axis=0)
    svg = density_maps("T", {"a": points}, bins=20, **AXES)
    found = squares(svg)
    light, dark = sorted(found, reverse=True)
    assert dark == "#1f5f99"
    (x0, y0), (x1, y1) = found[dark][0], found[light][0]
    assert x0 < x1
    assert y0 > y1
    assert {"5", "100 per bin", "105 points, 100 % drawn"} <= set(words(svg))


def test_panels_share_their_axes_and_have_two_hues():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(3000, 2)), rng.normal(size=(300, 2)) * 0.3 + 4
    svg = density_maps("T", {"often": a, "rare": b}, **AXES)
    inside(svg)
    frames = [r for r in ET.fromstring(svg).iter(f"{SVG}rect") if r.get("fill") == "none"]
    assert len(frames) == 2
    assert frames[0].get("width") == frames[1].get("width")
    assert {"often", "rare"} <= set(words(svg))
    for label in ("0", "2", "4"):  # below both panels, and once on the left
        assert words(svg).count(label) == 3
    found = squares(svg)
    assert "#1f5f99" in found
    assert "#d67010" in found
    start = float(frames[1].get("x"))
    assert max(found["#1f5f99"])[0] < start <= min(found["#d67010"])[0]


def test_a_far_point_neither_shows_nor_stretches_the_axes():
    cloud = np.random.default_rng(3).normal(size=(2000, 2))
    far = np.concatenate([cloud, [[1e6, -1e6], [math.nan, 0.0], [0.0, math.inf]]])
    plain, stretched = (density_maps("T", {"a": c}, **AXES) for c in (cloud, far))
    assert not any("e" in w for w in words(stretched) if w[-1].isdigit())
    assert "2 001 points" in " ".join(words(stretched))
    drawn = [sum(map(len, squares(s).values())) for s in (plain, stretched)]
    assert drawn[1] == pytest.approx(drawn[0], rel=0.1)


@pytest.mark.parametrize("value", [0.0, -1.5, 1e-20, 7e8])
@pytest.mark.parametrize("bins", [1, 2, 48, 240])
def test_points_on_one_spot_are_one_bin(value, bins):
    svg = density_maps("T", {"a": np.full((7, 2), value)}, bins=bins, **AXES)
    inside(svg)
    assert [len(v) for v in squares(svg).values()] == [1]
    assert shares(svg) == [100]


@pytest.mark.parametrize("panels", [{}, {"a": []}, {"a": [(1, math.nan)] * 9}, {"a": [(1, 2)] * 4}])
def test_panels_without_enough_points_are_refused(panels):
    with pytest.raises(SettingError, match="at least 5 finite points"):
        density_maps("T", panels, **AXES)


def test_an_empty_panel_beside_another_is_drawn_blank():
    svg = density_maps("T", {"a": [(1, 2)] * 9, "b": [], "c": [(1, 2)] * 4}, **AXES)
    assert shares(svg) == [100, 0, 0]
    assert words(svg).count("no bin has 5 points") == 2


def test_unusable_settings_of_maps_are_refused():
    points = {"a": [(1, 2)] * 9}
    with pytest.raises(SettingError, match="least must be at least 2"):
        density_maps("T", points, least=1, **AXES)
    with pytest.raises(SettingError, match="bins must be from 1 to 240"):
        density_maps("T", points, bins=0, **AXES)
