"""Before the first round: scales as if all rows lay in one place, and what is said about them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.errors import DataError, SettingError
from cofill.federate import FederatedCompletion, RoundSettings
from cofill.federate._estimator import _Fit
from cofill.federate._scales import _disclosed, _pool, _scales_of, _summary_of, scaling_steps
from cofill.protocol import run_steps
from cofill.views import Feature, Kind, MultiView, Scaler, View


@given(
    seed=st.integers(0, 2**31),
    parts=st.lists(st.integers(0, 7), min_size=1, max_size=5),
    offset=st.sampled_from([0.0, 1e6, -1e9]),
)
@settings(max_examples=60)
def test_combined_summaries_are_those_of_pooled_rows(seed, parts, offset):
    rng = np.random.default_rng(seed)
    sites = [rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1] + offset for n in parts]
    for cells in sites:
        cells[rng.random(cells.shape) < 0.3] = np.nan
    pooled = np.concatenate(sites)
    count, mean, variance, low, high = _pool([_summary_of(cells) for cells in sites])
    for k in range(3):
        known = pooled[~np.isnan(pooled[:, k]), k]
        assert count[k] == len(known)
        if len(known):
            assert mean[k] == pytest.approx(known.mean(), rel=1e-12)
            assert variance[k] == pytest.approx(known.var(), rel=1e-5, abs=1e-12)
            assert (low[k], high[k]) == (known.min(), known.max())


def tables(n=30, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "person": np.arange(n) + 100 * seed,
            "level": rng.normal(size=n) + 1e6,
            "high": rng.random(n) < 0.5,
            "group": rng.choice(["a", "b", "c"], size=n),
        }
    )


def held_tables() -> dict[str, MultiView]:
    return {
        name: MultiView.from_frames(
            {"one": tables(seed=k), "two": tables(seed=k).rename(columns=str)}, id="person"
        )
        for k, name in enumerate(("east", "west"))
    }


def start(held, **more):
    """A federation before its first step."""
    estimator = FederatedCompletion(network={"width": 2, "blocks": 0}, secure=False, **more)
    return _Fit(estimator, held).federation


def scaled(held):
    """A federation whose sites have encoded their rows."""
    federation = start(held)
    run_steps(scaling_steps(), [federation])
    return federation


def test_all_sites_scale_alike_as_by_their_pooled_rows():
    held = held_tables()
    federation = scaled(held)
    frame = pd.concat([tables(seed=k) for k in (0, 1)])
    pooled = Scaler.fit(MultiView.from_frames({"one": frame}, id="person")["one"])
    for site in federation.sites.values():
        mine = site.scalers["one"]
        assert mine.features == pooled.features
        for name in ("center", "scale", "low", "high"):
            np.testing.assert_allclose(getattr(mine, name), getattr(pooled, name), rtol=1e-9)
        levels = site.rows.cells[:, 0]
        assert np.abs(levels).max() < 5  # not lost in the offset
    both = np.concatenate([s.rows.cells[:, 0] for s in federation.sites.values()])
    assert both.mean() == pytest.approx(0, abs=1e-5)
    assert both.std() == pytest.approx(1, abs=1e-5)


def test_what_crosses_is_finite_summaries_and_scales_that_the_network_can_carry():
    federation = start(held_tables())
    sent = []

    def keep(step):
        def run(parties, inboxes, report_progress):
            made = step.run(parties, inboxes, report_progress)
            sent.extend(r for _, out in made for r in out)
            return made

        return replace(step, run=run)

    run_steps([keep(step) for step in scaling_steps()], [federation])
    kinds = ["columns", "columns", "column-summary", "column-scales"]
    assert [r.kind for r in sent] == [kind for kind in kinds for _ in range(2)]
    summaries, scales = sent[4:6], sent[6:]
    for release in (*summaries, *scales):
        for array in release.columns.values():
            assert np.isfinite(array).all()
            assert array.ndim == 2
    # Of coded columns scaling needs nothing, and nothing is told but how many are known.
    np.testing.assert_array_equal(summaries[0].columns["one"][1:, 1:], 0)
    ledger = [(e.kind, e.sender, e.individuals) for e in federation.ledger]
    assert ledger[4:6] == [("column-summary", "east", 30), ("column-summary", "west", 30)]


def test_a_modality_of_very_few_rows_is_not_told_of():
    lab = View("lab", [1, 2, 3], [[1.0], [2.0], [6.0]])
    assert _disclosed(lab, {})[:, 0].tolist() == [3, 3, 14, 1, 6]
    assert not _disclosed(lab.take([0, 1]), {}).any()
    image = View("image", [1, 2, 3], np.arange(12.0).reshape(3, 2, 2))
    told = _disclosed(image, {})
    assert not told[1:3].any()  # a range is all that images need
    assert (told[3].min(), told[4].max()) == (0.0, 11.0)


def test_constant_and_empty_columns_have_a_scale():
    features = (Feature("same"), Feature("none"), Feature("group", Kind.CATEGORICAL, ("a", "b")))
    cells = np.array([[1e6, np.nan, 0], [1e6, np.nan, 1], [1e6, np.nan, 1.0]])
    scales = _scales_of(_pool([_summary_of(cells)]), features, False, "lab", {})
    np.testing.assert_array_equal(scales[0], [1e6, 0, 0])
    np.testing.assert_array_equal(scales[1], [1, 1, 1])
    np.testing.assert_array_equal(scales[2] > scales[3], [False, True, True])
    pooled = _pool([_summary_of(np.full((3, 4), 7.0))])
    images = _scales_of(pooled, (Feature("p"),) * 4, True, "image", {})
    np.testing.assert_array_equal(images[:2], [[7] * 4, [1] * 4])


def test_a_column_without_a_scale_is_not_learned_from():
    # At x nobody has "rare"; y has two rows with huge values, too few to be told of.
    rng = np.random.default_rng(0)
    many = np.column_stack([rng.normal(size=12), np.full(12, np.nan)])
    views = {
        "x": MultiView.from_arrays({"a": many, "b": rng.normal(size=(12, 2))}),
        "y": MultiView.from_arrays({"a": [[0.5, 1e9], [0.1, 2e9]], "b": np.ones((2, 2))}),
    }
    rows = scaled(views).sites["y"].rows
    assert not rows.known[:, 1].any()
    assert not rows.cells[:, 1].any()
    assert rows.known[:, 0].all()


def test_a_modality_that_nobody_has_is_an_error():
    with pytest.raises(DataError, match="'lab' has fewer than 3 rows at every site; leave it out"):
        _scales_of(
            _pool([_summary_of(np.zeros((0, 2)))]), (Feature("a"), Feature("b")), False, "lab", {}
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: [], "site 'east' did not describe its columns"),
        (lambda r: [r, r], "must come once"),
        (
            lambda r: [replace(r, columns={"one": r.columns["one"]})],
            "'two' must be 5 × 3, got None",
        ),
        (
            lambda r: [replace(r, columns={n: v[:, :2] for n, v in r.columns.items()})],
            r"'one' must be 5 × 3, got \(5, 2\)",
        ),
        (
            lambda r: [
                replace(
                    r, columns={n: v * [[1], [np.nan], [1], [1], [1]] for n, v in r.columns.items()}
                )
            ],
            "'one' must be finite",
        ),
    ],
)
def test_an_unsound_summary_is_named(change, words):
    federation = start(held_tables())
    *before, summarise, agree, encode = scaling_steps()

    def run(sites, inboxes, report_progress):
        made = summarise.run(sites, inboxes, report_progress)
        return [(s, change(*out) if s.name == "east" else out) for s, out in made]

    with pytest.raises(DataError, match=words):
        run_steps([*before, replace(summarise, run=run), agree, encode], [federation])


# --- what sites may not bring -------------------------------------------------------------------


def test_sites_must_agree_on_columns_kinds_and_shapes():
    three = MultiView.from_arrays({"a": np.ones((4, 3)), "b": np.ones((4, 2))})
    with pytest.raises(DataError, match="there is no site; give at least one"):
        scaled({})
    with pytest.raises(
        DataError, match=r"site 'y': 'a' has other columns .*\(2\) than at site 'x'"
    ):
        scaled({"x": three, "y": MultiView.from_arrays({"a": np.ones((4, 2))})})
    wide, high = (MultiView.from_arrays({"i": np.ones((4, *s))}) for s in ((2, 3), (3, 2)))
    with pytest.raises(DataError, match=r"\(\(3, 2\)\) than at site 'x' \(\(2, 3\)\)"):
        scaled({"x": wide, "y": high})
    one = MultiView([View("t", [1], [[0]], [Feature("g", Kind.CATEGORICAL, ("a", "b"))])])
    two = MultiView([View("t", [1], [[0]], [Feature("g", Kind.CATEGORICAL, ("a", "z"))])])
    with pytest.raises(DataError, match="other kinds or categories of columns than at site 'x'"):
        scaled({"x": one, "y": two})
    with pytest.raises(DataError, match="site 'y' has no individual; leave it out"):
        scaled({"x": three, "y": three.take(np.zeros(4, bool))})


def test_a_site_may_lack_a_modality_and_the_order_of_modalities_is_its_own():
    one = MultiView.from_arrays({"a": np.ones((4, 3)), "b": np.ones((4, 2))})
    two = MultiView.from_arrays({"b": np.ones((4, 2)), "a": np.ones((4, 3))})
    only = MultiView.from_arrays({"b": np.ones((4, 2))})
    sites = scaled({"x": one, "y": two, "z": only}).sites
    assert {site.learner.shape.names for site in sites.values()} == {("a", "b")}
    assert sites["z"].rows.present.tolist() == [[False, True]] * 4


def test_phases_that_a_model_does_not_have_are_named():
    both = MultiView.from_arrays(
        {"a": np.random.default_rng(0).normal(size=(6, 2)), "b": np.ones((6, 2))}
    )
    typo = RoundSettings(rounds=1, pretrain={"autoencodr": 3})
    with pytest.raises(SettingError, match="pretrain: there is no phase 'autoencodr'; there is"):
        FederatedCompletion(model="vigan", settings=typo).fit(both)
