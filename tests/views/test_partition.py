"""Partitions: everybody exactly once, counts exactly as asked, the same for the same key."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cofill.errors import SettingError
from cofill.views._multiview import MultiView
from cofill.views._partition import by_row, by_row_paired, pair_up

fast = settings(max_examples=60)


def complete(n, names=("image", "edge", "sound")):
    rng = np.random.default_rng(n)
    return MultiView.from_arrays({name: rng.normal(size=(n, 2)) for name in names})


def assert_covers(parts, views):
    """Every row of every view is at exactly one site, unchanged."""
    for name, view in views.items():
        held = [part[name] for part in parts.values() if name in part]
        ids = np.concatenate([h.ids for h in held])
        order = np.argsort(ids)
        assert np.array_equal(ids[order], view.ids)
        cells = np.concatenate([h.cells for h in held])[order]
        np.testing.assert_array_equal(cells, view.cells)


@fast
@given(st.integers(1, 60), st.integers(1, 12), st.integers(0, 2**40))
def test_an_even_deal(n, sites, key):
    views = complete(n)
    if sites > n:
        with pytest.raises(SettingError, match="use fewer sites"):
            by_row(views, sites, key=key)
        return
    parts = by_row(views, sites, key=key)
    sizes = [p.n_individuals for p in parts.values()]
    assert len(sizes) == sites
    assert max(sizes) - min(sizes) <= 1
    assert_covers(parts, views)
    again = by_row(views, sites, key=key)
    assert all(p.same_as(again[s]) for s, p in parts.items())


@fast
@given(st.integers(20, 80), st.integers(1, 6), st.floats(0.01, 100), st.integers(0, 2**40))
def test_a_skewed_deal(n, sites, alpha, key):
    views = complete(n)
    labels = np.arange(n) % 4
    least = n // sites // 2 or 1
    parts = by_row(views, sites, key=key, labels=labels, alpha=alpha, min_rows=least)
    assert min(p.n_individuals for p in parts.values()) >= least
    assert_covers(parts, views)


def test_rows_that_are_missing_stay_missing():
    holes = complete(200).hide({"edge": np.arange(200) % 3 == 0})
    assert_covers(by_row(holes, 4, key=2), holes)


def test_a_small_alpha_skews_the_classes_and_a_large_one_does_not():
    views, labels = complete(2000), np.arange(2000) % 5

    def largest_share(alpha):
        parts = by_row(views, 4, key=1, labels=labels, alpha=alpha)
        at = [np.bincount(labels[p.ids], minlength=5) for p in parts.values()]
        return np.mean([c.max() / c.sum() for c in at])

    assert largest_share(0.05) > 0.45
    assert largest_share(1000.0) < 0.25
    even = by_row(views, 4, key=1)
    assert np.ptp([np.bincount(labels[p.ids]).max() for p in even.values()]) < 40


def test_sites_can_be_named_and_numbers_sort():
    views = complete(12)
    assert list(by_row(views, ["b", "a"], key=0)) == ["b", "a"]
    names = list(by_row(views, 10, key=0))
    assert names == sorted(names)
    assert names[0] == "site_01"


@fast
@given(st.data())
def test_pairs_and_singles_in_exact_numbers_at_every_site(data):
    names = ("image", "edge", "sound")
    sites = data.draw(st.integers(1, 5))
    counts = [data.draw(st.integers(0, 20)) for _ in range(4)]
    paired, only = counts[0], dict(zip(names, counts[1:], strict=True))
    assume(sum(counts) >= sites)
    views, key = complete(sum(counts)), data.draw(st.integers(0, 2**40))
    whole = pair_up(views, paired=paired, only=only, key=key)
    want = {(True, True, True): paired}
    want |= {tuple(n == m for m in names): c for n, c in only.items()}
    want = {pattern: count for pattern, count in want.items() if count}
    assert whole.patterns() == want
    assert np.array_equal(whole.ids, views.ids)

    parts = by_row_paired(views, sites, paired=paired, only=only, key=key)
    assert_covers(parts, whole)
    for pattern, count in want.items():
        at_sites = [p.patterns().get(pattern, 0) for p in parts.values()]
        assert sum(at_sites) == count
        assert max(at_sites) - min(at_sites) <= 1
    sizes = [p.n_individuals for p in parts.values()]
    assert max(sizes) - min(sizes) <= 1


def test_fed_vigans_set_up():
    views = MultiView.from_arrays({n: np.ones((60_000, 1)) for n in ("image", "edge")})
    parts = by_row_paired(views, paired=30_000, only={"image": 15_000, "edge": 15_000}, key=0)
    assert len(parts) == 10
    for part in parts.values():
        assert part.patterns() == {
            (True, True): 3000, (True, False): 1500, (False, True): 1500,
        }  # fmt: skip


def test_keys_matter():
    views = complete(50)
    assert not by_row(views, 2, key=0)["site_1"].same_as(by_row(views, 2, key=1)["site_1"])
    one, two = (pair_up(views, paired=25, only={"image": 25}, key=k) for k in (0, 1))
    assert not one.same_as(two)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: by_row(v, 0, key=0), "sites must be at least 1, got 0"),
        (lambda v: by_row(v, ["a", "a"], key=0), "different names"),
        (lambda v: by_row(v, 2, key=0, alpha=0.1), "labels and alpha go together"),
        (lambda v: by_row(v, 2, key=0, labels=np.zeros(3), alpha=1.0), r"\(10\), got 3"),
        (lambda v: by_row(v, 2, key=0, labels=np.zeros(10), alpha=0.0), "alpha must be a positive"),
        (lambda v: by_row(v, 2, key=0, min_rows=6), "min_rows must be .* got 6 with 10"),
        (lambda v: pair_up(v, paired=5, only={"image": 4}, key=0), r"got 5 \+ 4 = 9"),
        (lambda v: pair_up(v, paired=11, only={"image": -1}, key=0), "at least 0, got -1"),
        (lambda v: pair_up(v, paired=5, only={"smell": 5}, key=0), "there is no view 'smell'"),
        (
            lambda v: by_row_paired(v, 11, paired=5, only={"image": 5}, key=0),
            r"at most the number of individuals \(10\), got 11",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_parameter_and_the_way_out(call, message):
    with pytest.raises(SettingError, match=message):
        call(complete(10))


def test_pairing_needs_complete_individuals():
    holes = complete(10).hide({"edge": np.arange(10) < 3})
    with pytest.raises(SettingError, match="got 3 individuals with a missing view"):
        pair_up(holes, paired=5, only={"image": 5}, key=0)
