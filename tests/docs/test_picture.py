"""The picture of a completion in the README, read back as XML."""

from xml.etree import ElementTree

import pytest

from cofill.metrics import ResultRecord

VIEWS = {
    "clinic": {"observed_rows": 1200, "reconstructed_rows": 600},
    '<b> & "x"': {"observed_rows": 500, "reconstructed_rows": 0},
    "lab": {"observed_rows": 0, "reconstructed_rows": 2000},
}
RECORD = ResultRecord(
    "demo",
    seeds=[0, 1],
    values={
        "mean/mse/clinic": [1.0, 1.2],
        "mean/mse/lab": [1.0, 1.2],
        "central/mse/clinic": [0.2, 0.4],
        "central/mse/lab": [0.4, 0.4],
        "knn<3/mse/clinic": [0.5, 0.5],
        "knn<3/mse/lab": [0.5, 0.5],
        "knn<3/mae/lab": [0.1, 0.1],
        "late/mse/clinic": [None, None],
    },
)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(record=None, views=VIEWS, individuals=2000, pooled=()):
    from bench.picture import completion_picture

    return ElementTree.fromstring(completion_picture(individuals, views, record, pooled=pooled))


def words(tree):
    return [text.text for text in tree.iter(f"{SVG}text")]


def bars(tree, height):
    """Return ``(x, y, width)`` of the bars of one height, in the order they are drawn."""
    return [
        tuple(float(rect.get(side)) for side in ("x", "y", "width"))
        for rect in tree.iter(f"{SVG}rect")
        if rect.get("height") == height
    ]


def test_every_view_has_one_row_of_bars_to_scale():
    tree = drawn()
    rects = bars(tree, "24")
    assert len(rects) == 3 * len(VIEWS)
    rows = sorted({y for _, y, _ in rects})
    assert len(rows) == len(VIEWS)
    for k, counts in enumerate(VIEWS.values()):
        total, known, filled = rects[3 * k : 3 * k + 3]
        assert {total[1], known[1], filled[1]} == {rows[k]}
        assert known[2] / total[2] == pytest.approx(counts["observed_rows"] / 2000, abs=1e-3)
        assert filled[2] / total[2] == pytest.approx(counts["reconstructed_rows"] / 2000, abs=1e-3)
        assert filled[0] == pytest.approx(known[0] + known[2], abs=0.1)
    assert {"2,000 individuals", "1,200 known + 600 filled"} <= set(words(tree))


@pytest.mark.parametrize("name", ["<b>", "a & b", "\"'", "</svg>", "été †", "<!--"])
def test_any_name_is_shown_as_it_is(name):
    tree = drawn(views={name: VIEWS["lab"]})
    assert name in words(tree)
    assert not list(tree.iter(f"{SVG}b"))


def test_methods_are_sorted_by_error_and_pooled_ones_have_a_dagger():
    tree = drawn(RECORD, pooled=("central", "iterative"))
    shown = [w for w in words(tree) if w.split()[0] in ("mean", "central", "knn<3", "late")]
    assert shown == ["central †", "knn<3", "mean"]
    assert sum("yardstick" in w for w in words(tree)) == 1
    lengths = [width for _, _, width in bars(tree, "18")]
    assert lengths == sorted(lengths)
    assert lengths[0] / lengths[1] == pytest.approx(0.35 / 0.5, abs=0.01)
    figures = [w for w in words(tree) if "±" in w]
    assert figures == ["0.350 ± 0.071", "0.500 ± 0.000", "1.100 ± 0.141"]


def test_no_method_pools_no_dagger():
    assert not any("†" in w for w in words(drawn(RECORD)))
    assert not any("†" in w for w in words(drawn(RECORD, pooled=("iterative",))))


@pytest.mark.parametrize(
    "record", [None, ResultRecord("demo", seeds=[0], values={"mean/mae/lab": [1.0]})]
)
def test_without_errors_only_the_left_half_is_drawn(record):
    tree = drawn(record)
    assert not bars(tree, "18")
    assert all(float(text.get("x")) < 450 for text in tree.iter(f"{SVG}text"))
    assert "error" not in tree.find(f"{SVG}title").text
    assert "error" in drawn(RECORD).find(f"{SVG}title").text


@pytest.mark.parametrize("views", [{}, VIEWS, {f"v{k}": VIEWS["lab"] for k in range(12)}])
@pytest.mark.parametrize("record", [None, RECORD])
def test_everything_is_inside_the_picture(views, record):
    tree = drawn(record, views=views, pooled=("central",))
    width, height = float(tree.get("width")), float(tree.get("height"))
    for shape in (*tree.iter(f"{SVG}rect"), *tree.iter(f"{SVG}text")):
        across = float(shape.get("x", 0)) + float(shape.get("width", 0))
        down = float(shape.get("y", 0)) + float(shape.get("height", 0))
        assert 0 <= across <= width
        assert 0 <= down <= height


def test_nobody_can_be_drawn():
    assert "0 individuals" in words(drawn(individuals=0, views={}))
