from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill.errors import DataError, SettingError
from cofill.views._multiview import MultiView
from cofill.views._view import View

NAN = float("nan")
SECRET_ID, SECRET_TEXT, SECRET_CELL = 74917491, "zz-Kowalski", 83.625


def view(name, ids, width=1):
    """A view whose cells tell the id and the column, so that a mixed-up row is seen."""
    at = np.array([hash(i) % 1000 for i in ids], dtype=float).reshape(-1, 1)
    return View(name, np.asarray(ids), at + np.arange(width) / 10)


PEOPLE = MultiView([view("clinic", [1, 2, 4], 2), view("lab", [2, 3]), view("scan", [2, 4, 5])])

BAD = {
    "no view": (lambda: MultiView([]), DataError, "there is no view"),
    "name twice": (
        lambda: MultiView([view("a", [SECRET_ID]), view("a", [2])]),
        DataError,
        "view 'a' occurs more than once",
    ),
    "two id types": (
        lambda: MultiView([view("a", [SECRET_ID]), view("b", [SECRET_TEXT])]),
        DataError,
        "whole numbers in view 'a' but text in view 'b'",
    ),
    "leading zeros": (
        lambda: MultiView([view("a", ["007"]), view("b", [7])]),
        DataError,
        "store them the same way in every view",
    ),
    "no such view": (
        lambda: PEOPLE["labs"],
        SettingError,
        "no view 'labs'; the views are 'clinic'",
    ),
    "present": (lambda: PEOPLE.present("x"), SettingError, "there is no view 'x'"),
    "select": (lambda: PEOPLE.select(["lab", "x"]), SettingError, "there is no view 'x'"),
    "without": (lambda: PEOPLE.without_view("x"), SettingError, "there is no view 'x'"),
    "without all": (lambda: PEOPLE.select(["lab"]).without_view("lab"), DataError, "no view"),
    "hide": (lambda: PEOPLE.hide({"x": np.ones(5, bool)}), SettingError, "there is no view 'x'"),
    "arrays of two lengths": (
        lambda: MultiView.from_arrays({"a": np.ones((2, 1)), "b": np.ones((3, 1))}, ids=[1, 2]),
        DataError,
        "view 'b': 2 ids for 3 rows",
    ),
    "presence too short": (
        lambda: MultiView.from_arrays({"a": np.ones((3, 1))}, presence={"a": [True]}),
        DataError,
        "one truth value per row",
    ),
    "presence of no array": (
        lambda: MultiView.from_arrays({"a": np.ones((3, 1))}, presence={"b": [True] * 3}),
        SettingError,
        "there is no array for view 'b'",
    ),
}


@pytest.mark.parametrize(("make", "error", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_without_showing_a_person(make, error, words):
    with pytest.raises(error) as caught:
        make()
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert not any(str(s) in message for s in (SECRET_ID, SECRET_TEXT, SECRET_CELL))


def test_the_union_and_who_is_where():
    np.testing.assert_array_equal(PEOPLE.ids, [1, 2, 3, 4, 5])
    expected = [[1, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 0, 1]]
    np.testing.assert_array_equal(PEOPLE.presence, np.array(expected, dtype=bool))
    assert PEOPLE.names == tuple(PEOPLE) == ("clinic", "lab", "scan")
    assert PEOPLE.n_individuals == 5
    assert len(PEOPLE) == 3
    assert "lab" in PEOPLE
    assert "x" not in PEOPLE
    assert PEOPLE.overlaps() == {("clinic", "lab"): 1, ("clinic", "scan"): 2, ("lab", "scan"): 1}
    assert PEOPLE.patterns() == {
        (True, True, True): 1,
        (True, False, True): 1,
        (True, False, False): 1,
        (False, True, False): 1,
        (False, False, True): 1,
    }


def test_patterns_list_the_commonest_first():
    many = MultiView([view("a", range(10)), view("b", range(7, 12))])
    assert list(many.patterns().items()) == [
        ((True, False), 7),
        ((True, True), 3),
        ((False, True), 2),
    ]


def test_arrays_and_views_cannot_be_changed():
    for array in (PEOPLE.ids, PEOPLE.presence, PEOPLE.present("lab"), PEOPLE["lab"].cells):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    with pytest.raises(TypeError):
        PEOPLE["lab"] = PEOPLE["scan"]
    alone = View("a", [1, 2], [[1.0], [2.0]])
    assert MultiView([alone]).ids is not alone.ids


def test_views_come_and_go():
    more = MultiView({**PEOPLE, "genes": view("genes", [9])})
    assert more.names == ("clinic", "lab", "scan", "genes")
    assert more.n_individuals == 6
    assert PEOPLE.without_view("scan").names == ("clinic", "lab")
    assert PEOPLE.select(["scan", "lab"]).names == ("scan", "lab")
    assert MultiView({v.name: v for v in PEOPLE.values()}).same_as(PEOPLE)
    assert not PEOPLE.same_as(PEOPLE.without_view("scan"))
    assert not PEOPLE.same_as(PEOPLE.take(np.array([0, 1, 2, 3])))


@pytest.mark.parametrize(
    ("people", "complete"),
    [
        (PEOPLE, False),
        (MultiView([view("a", [1, 2]), view("b", [2, 1])]), True),
        (MultiView([View("a", [1], [[1.0, NAN]])]), False),
    ],
)
def test_complete_means_every_row_and_every_cell(people, complete):
    assert people.is_complete is complete


def test_from_arrays_reads_gaps_from_nan_rows_and_presence():
    a = np.array([[1.0, 2.0], [NAN, NAN], [3.0, NAN]])
    both = MultiView.from_arrays(
        {"a": a, "b": np.arange(12).reshape(3, 2, 2)},
        ids=["x", "y", "z"],
        presence={"b": [True, True, False]},
        features={"a": ["p", "q"]},
    )
    np.testing.assert_array_equal(both.presence, [[1, 1], [0, 1], [1, 0]])
    assert both["a"].feature_names == ("p", "q")
    assert both["b"].image_shape == (2, 2)
    np.testing.assert_array_equal(both.aligned("a"), a)
    numbered = MultiView.from_arrays({"a": np.ones((3, 1))})
    np.testing.assert_array_equal(numbered.ids, [0, 1, 2])


def test_views_without_rows_stay_in_place():
    hidden = PEOPLE.hide({"lab": np.ones(5, dtype=bool)})
    assert hidden.names == PEOPLE.names
    assert len(hidden["lab"]) == 0
    np.testing.assert_array_equal(hidden.ids, [1, 2, 4, 5])
    assert not hidden.present("lab").any()
    assert np.isnan(hidden.aligned("lab")).all()
    nobody = PEOPLE.take(np.zeros(5, dtype=bool))
    assert nobody.n_individuals == 0
    assert nobody.patterns() == {}
    assert repr(nobody).splitlines() == [
        "MultiView of 0 individuals",
        "  clinic  0 (–) × 2 features",
        "  lab     0 (–) × 1 feature",
        "  scan    0 (–) × 1 feature",
        "  in every view: 0 individuals",
    ]
    assert "0 individuals" in nobody._repr_html_()
    text = MultiView([view("a", ["x"]), view("b", ["x", "y"])])
    emptied = text.hide({"a": np.array([True, False])})
    assert len(emptied["a"]) == 0
    np.testing.assert_array_equal(emptied.ids, ["x", "y"])


def test_reprs_count_and_show_nobody():
    people = MultiView(
        [
            View("<clinic>", [SECRET_ID, 74917492], [[SECRET_CELL], [1.0]]),
            View("lab & co", [SECRET_ID, 74917493, 74917494], [[83.625, 9.375]] * 3),
        ]
    )
    assert repr(people).splitlines() == [
        "MultiView of 4 individuals",
        "  <clinic>  2 (50.0 %) × 1 feature",
        "  lab & co  3 (75.0 %) × 2 features",
        "  in every view: 1 individual",
    ]
    html = people._repr_html_()
    assert "MultiView of 4 individuals in 3 patterns" in html
    assert "&lt;clinic&gt;" in html
    assert "<clinic>" not in html
    assert "lab &amp; co" in html
    for text in (repr(people), html):
        assert "7491749" not in text
        assert "83.6" not in text
        assert "9.375" not in text


def test_the_picture_leaves_out_rare_patterns_and_says_so():
    names = [f"v{k}" for k in range(5)]
    ids = {n: [i for i in range(1, 32) if i >> k & 1] for k, n in enumerate(names)}
    html = MultiView([view(n, ids[n]) for n in names])._repr_html_()
    assert "31 patterns (7 rarer patterns not drawn)" in html
    assert html.count("<rect") == 5 * 24


NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "i")
memberships = st.integers(1, 9).flatmap(
    lambda n: st.dictionaries(
        st.integers(0, 40), st.tuples(*[st.booleans()] * n), min_size=1, max_size=25
    )
)


def from_membership(members, text):
    """Build the views of {id: which views know them} and the same facts by brute force."""
    n = len(next(iter(members.values())))
    keyed = {f"p{i}" if text else i: m for i, m in members.items()}
    people = MultiView(
        [
            View(
                NAMES[k],
                np.array([i for i, m in keyed.items() if m[k]], dtype=str if text else int),
                np.array([[hash(i) % 97 + k / 10] for i, m in keyed.items() if m[k]]).reshape(
                    -1, 1
                ),
            )
            for k in range(n)
        ]
    )
    known = {i: keyed[i] for i in sorted(keyed) if any(keyed[i])}
    return people, known


@given(members=memberships, text=st.booleans())
def test_presence_patterns_and_overlaps_agree_with_brute_force(members, text):
    people, known = from_membership(members, text)
    assert list(people.ids) == list(known)
    assert [tuple(row) for row in people.presence] == list(known.values())
    assert people.patterns() == Counter(known.values())
    counts = list(people.patterns().values())
    assert counts == sorted(counts, reverse=True)
    for a, b in combinations(range(len(people)), 2):
        both = [i for i, m in known.items() if m[a] and m[b]]
        assert people.overlaps()[NAMES[a], NAMES[b]] == len(both)
    for k, name in enumerate(people):
        expected = [[hash(i) % 97 + k / 10] if m[k] else [NAN] for i, m in known.items()]
        np.testing.assert_array_equal(people.aligned(name), np.array(expected).reshape(-1, 1))


@given(members=memberships, text=st.booleans(), data=st.data())
def test_take_and_hide_agree_with_brute_force(members, text, data):
    people, known = from_membership(members, text)
    n = people.n_individuals
    masks = st.lists(st.booleans(), min_size=n, max_size=n)
    keep = np.array(data.draw(masks), dtype=bool)
    taken = people.take(keep)
    assert taken.same_as(people.take(np.flatnonzero(keep)))
    name = data.draw(st.sampled_from(people.names))
    hide = np.array(data.draw(masks), dtype=bool)
    hidden = people.hide({name: hide})
    k = people.names.index(name)
    for j, other in enumerate(people):
        was = [i for i, m in known.items() if m[j]]
        chosen = [i for i, kept in zip(known, keep, strict=True) if kept]
        assert list(taken[other].ids) == [i for i in was if i in chosen]
        gone = [i for i, h in zip(known, hide, strict=True) if h and j == k]
        assert list(hidden[other].ids) == [i for i in was if i not in gone]
        # What stays is unchanged.
        at = people[other].positions(hidden[other].ids)
        np.testing.assert_array_equal(hidden[other].cells, people[other].cells[at])


@given(members=memberships, order=st.randoms(use_true_random=False))
def test_the_order_of_views_and_rows_does_not_matter(members, order):
    people, _ = from_membership(members, text=False)
    views = [
        v.take(np.array(order.sample(range(len(v)), len(v)), dtype=int)) for v in people.values()
    ]
    order.shuffle(views)
    assert MultiView(views).select(people.names).same_as(people)
