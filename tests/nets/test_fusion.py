"""Fusions: what they recover, what they have not seen, and what they do not depend on."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from cofill.errors import DataError, SettingError
from cofill.metrics import r2
from cofill.nets import Block, FusionProblem, FusionSettings, _fusion, _fusion_fit, fit_fusions
from cofill.nets._fusion import PENALTIES
from cofill.nets._fusion_fit import _cross_validate, _folds

RIDGE = FusionSettings(hidden=(), folds=4)
SMALL = FusionSettings(
    hidden=(16,),
    weight_decays=(0.01,),
    members=1,
    fold_members=1,
    folds=2,
    dropout=0.0,
    learning_rate=2e-2,
    steps=500,
)
GROUPS = ((0, 2), (2, 3))


def problem_of(x, y, **others):
    """Rows with two groups, of numbers only unless told otherwise."""
    y = y.reshape(len(x), -1)
    blocks = others.pop("blocks", (Block("squared", 0, y.shape[1]),))
    present = others.pop("present", np.ones((len(x), 2), bool))
    return FusionProblem(x, present, GROUPS, y, blocks, **others)


def inputs_of(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


X = inputs_of(250)
PRODUCT = problem_of(X, X[:, 0] * X[:, 1], name="product")
# As large as the other after rounding: their networks are padded and trained as one program.
SINE = problem_of(X[:200], np.sin(3 * X[:200, 0]), seed=4, name="sine")


def coded_problem(**others):
    """A number, a yes or no, and one of three; some not known; only the first group needed."""
    x = inputs_of(120)
    kind = np.digitize(x[:, 0] * x[:, 1], [-0.4, 0.4])
    y = np.column_stack([x[:, 0] ** 2, x[:, 1] > x[:, 2], np.eye(3)[kind]]).astype(float)
    y[::7, 0] = np.nan
    y[::5, 2:] = np.nan
    blocks = (Block("squared", 0, 1), Block("bernoulli", 1, 2), Block("categorical", 2, 5))
    needed = np.array([[True, False]] * 3)
    return problem_of(x, y, blocks=blocks, **{"needed": needed, "name": "coded", **others})


def never_together():
    """Rows that never have the second group, though the rows to predict have nothing else."""
    present, needed = np.tile([True, False], (120, 1)), np.tile([False, True], (5, 1))
    return coded_problem(present=present, needed=needed, name="never together")


@pytest.fixture(scope="module")
def shares():
    return []


@pytest.fixture(scope="module")
def fitted(shares):
    """Fusions of several problems, learned in one call."""
    problems = {"product": PRODUCT, "sine": SINE, "coded": coded_problem()}
    problems["apart"] = never_together()
    fusions = fit_fusions(list(problems.values()), SMALL, progress=shares.append)
    return dict(zip(problems, fusions, strict=True))


@pytest.fixture(scope="module")
def alone():
    return fit_fusions([PRODUCT], SMALL)[0]


def test_ridge_alone_recovers_a_linear_relation():
    x, new = inputs_of(60), inputs_of(20, seed=1)
    slope = np.array([[1.0, 0.0], [-2.0, 3.0], [0.5, 1.0]])
    (fusion,) = fit_fusions([problem_of(x, x @ slope + 4)], RIDGE)
    predicted = fusion.predict(new, np.ones((20, 2), bool))
    np.testing.assert_allclose(predicted, new @ slope + 4, atol=1e-3)
    assert r2(x @ slope + 4, fusion.out_of_fold) > 0.999
    assert (fusion.weight_decay, fusion.networks) == (None, ())


def test_ridge_alone_is_ridge_regression_with_the_penalty_chosen_for_each_output():
    rng = np.random.default_rng(2)
    x = inputs_of(60)
    y = x @ rng.normal(size=(3, 2)) + rng.normal(size=(60, 2)) * [0.1, 20]
    (fusion,) = fit_fusions([problem_of(x, y)], RIDGE)
    unit = np.trace(np.cov(x.T, bias=True)) / 3
    for k, penalty in enumerate(PENALTIES[fusion.penalty]):
        theirs = Ridge(alpha=60 * unit * penalty, solver="svd").fit(x, y[:, k]).predict(x)
        ours = fusion.predict(x, np.ones((60, 2), bool))[:, k]
        np.testing.assert_allclose(ours, theirs, rtol=1e-7)
    assert fusion.penalty[0] < fusion.penalty[1]


def test_networks_learn_what_ridge_cannot(alone):
    (ridge,) = fit_fusions([PRODUCT], RIDGE)
    new = inputs_of(300, seed=1)
    there = np.ones((300, 2), bool)
    truth = new[:, :1] * new[:, 1:2]
    assert r2(PRODUCT.targets, ridge.out_of_fold) < 0.1
    assert r2(PRODUCT.targets, alone.out_of_fold) > 0.7
    assert r2(truth, ridge.predict(new, there)) < 0.1
    assert r2(truth, alone.predict(new, there)) > 0.7


def test_noise_is_fitted_but_not_predicted_out_of_fold(monkeypatch):
    # One penalty, too small for noise: a choice among several would hide a leak.
    for module in (_fusion, _fusion_fit):
        monkeypatch.setattr(module, "PENALTIES", np.array([1e-4]))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 40)), rng.normal(size=(60, 3))
    there = np.ones((60, 1), bool)
    noise = FusionProblem(x, there, ((0, 40),), y, (Block("squared", 0, 3),))
    (fusion,) = fit_fusions([noise], RIDGE)
    assert r2(y, fusion.predict(x, there)) > 0.4
    assert r2(y, fusion.out_of_fold) < 0


@pytest.mark.parametrize("row", [0, 101])
def test_a_rows_own_target_does_not_move_its_out_of_fold_predictions(monkeypatch, row):
    for module in (_fusion, _fusion_fit):
        monkeypatch.setattr(module, "PENALTIES", np.array([1e-2]))
    other = PRODUCT.targets.copy()
    other[row] += 5
    pair = [PRODUCT, replace(PRODUCT, targets=other)]
    folds = _folds(PRODUCT, SMALL)
    inside = folds == folds[row]

    linear = [fusion.out_of_fold for fusion in fit_fusions(pair, replace(RIDGE, folds=2))]
    networks = [
        _cross_validate([problem], [folds], SMALL, lambda _: None)[0][0.01] for problem in pair
    ]
    for one, two in (linear, networks):
        np.testing.assert_array_equal(one[inside], two[inside])
        assert np.abs(one[~inside] - two[~inside]).max() > 1e-3


def test_what_is_left_open_depends_on_the_rows():
    few, some, many = (FusionSettings().chosen(rows) for rows in (1023, 1024, 8192))
    assert len(few.hidden) < len(some.hidden) == len(many.hidden)
    assert few.members == some.members > many.members
    assert max(many.weight_decays) < max(some.weight_decays)
    assert many.steps > some.steps
    chosen = FusionSettings(hidden=(7,), dropout=0.0, steps=3).chosen(10)
    assert (chosen.hidden, chosen.dropout, chosen.steps) == ((7,), 0.0, 3)
    assert chosen.members == few.members
    # Rows of one fold belong to the problem's size, not to their own.
    assert FusionSettings().training(700, 1050).learning_rate == some.learning_rate
    assert [FusionSettings().training(n, n).batch_size for n in (100, 1800, 27_000, 10**6)] == [
        16, 128, 128, 512,
    ]  # fmt: skip
    assert FusionSettings().training(10**6, 10**6).epochs == 5


def test_coded_cells_are_probabilities_and_shares_are_shares(fitted):
    coded = fitted["coded"]
    new = inputs_of(40, seed=5)
    for present in ([True, True], [True, False], [False, True], [False, False]):
        cells = coded.predict(new, np.tile(present, (40, 1)))
        assert np.isfinite(cells).all()
        assert ((cells[:, 1:] >= 0) & (cells[:, 1:] <= 1)).all()
        np.testing.assert_allclose(cells[:, 2:].sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(coded.out_of_fold[:, 2:].sum(axis=1), 1, rtol=1e-6)
    for fusion in fitted.values():
        assert ((fusion.share >= 0) & (fusion.share <= 1)).all()
    assert len(set(coded.share[2:])) == 1
    assert coded.share[0] > 0.5


def test_a_pattern_nobody_needed_is_served_by_ridge_alone(fitted):
    coded = fitted["coded"]
    ridge = replace(coded, networks=())
    assert coded.patterns == {(True, False)}
    new = inputs_of(40, seed=5)
    for present, same in (
        ([False, True], True),
        ([True, True], True),
        ([False, False], True),
        ([True, False], False),
    ):
        there = np.tile(present, (40, 1))
        blended, linear = coded.predict(new, there), ridge.predict(new, there)
        assert np.array_equal(blended, linear) is same
    # In one call, each row by its own pattern.
    there = np.array([[True, False], [False, True]] * 20)
    mixed = coded.predict(new, there)
    np.testing.assert_allclose(mixed[1::2], ridge.predict(new, there)[1::2], rtol=1e-12)
    needed = coded.predict(new, np.tile([True, False], (40, 1)))
    np.testing.assert_allclose(mixed[::2], needed[::2], atol=1e-6)


def test_a_group_that_no_row_to_learn_from_has_says_nothing(fitted):
    apart = fitted["apart"]
    cells = apart.predict(inputs_of(40, seed=5), np.tile([False, True], (40, 1)))
    np.testing.assert_allclose(cells, np.tile(cells[:1], (40, 1)), atol=1e-6)
    np.testing.assert_allclose(cells[0], np.nanmean(never_together().targets, axis=0), atol=1e-6)


def test_a_group_that_is_missing_is_not_read(fitted):
    coded = fitted["coded"]
    new = inputs_of(40, seed=5)
    there = np.tile([True, False], (40, 1))
    blank = new * [1, 1, 0]
    np.testing.assert_array_equal(coded.predict(new, there), coded.predict(blank, there))


def test_no_rows_give_no_predictions(fitted):
    for name, width in (("product", 1), ("coded", 5)):
        cells = fitted[name].predict(np.empty((0, 3)), np.empty((0, 2), bool))
        assert cells.shape == (0, width)


def test_a_problem_does_not_depend_on_the_others_in_the_call(fitted, alone):
    there = np.ones((len(X), 2), bool)
    np.testing.assert_allclose(fitted["product"].out_of_fold, alone.out_of_fold, atol=1e-5)
    np.testing.assert_allclose(
        fitted["product"].predict(X, there), alone.predict(X, there), atol=1e-5
    )
    np.testing.assert_allclose(fitted["product"].share, alone.share, atol=1e-5)


def test_the_same_seed_gives_the_same_fusion_and_another_does_not(alone):
    same, other = (fit_fusions([replace(PRODUCT, seed=seed)], SMALL)[0] for seed in (0, 1))
    there = np.ones((len(X), 2), bool)
    np.testing.assert_array_equal(same.out_of_fold, alone.out_of_fold)
    np.testing.assert_array_equal(same.predict(X, there), alone.predict(X, there))
    assert np.abs(other.predict(X, there) - alone.predict(X, there)).max() > 1e-4


@pytest.mark.usefixtures("fitted")
def test_progress_rises_to_one(shares):
    assert len(shares) > 2
    assert min(shares) >= 0
    assert all(one <= two for one, two in pairwise(shares))
    assert shares[-1] == pytest.approx(1)


def test_rows_are_shown_with_the_needed_patterns_in_their_shares():
    rng = np.random.default_rng(0)
    needed = np.array([[True, False]] * 30 + [[True, True]] * 10 + [[False, False]] * 5)
    present = np.ones((100, 2), bool)
    present[::4, 0] = False
    problem = problem_of(rng.normal(size=(100, 3)), np.zeros(100), present=present, needed=needed)
    assert problem.patterns == {(True, False): 0.75, (True, True): 0.25}
    assert problem.needs_thinning
    drawn = problem.draw(40)
    assert not (drawn & ~present[:, None]).any()
    assert drawn.any(axis=2).all()
    # A row without the first group keeps the second; the others show it a quarter of the time.
    assert drawn[::4, :, 1].all()
    assert drawn[present[:, 0], :, 0].all()
    assert drawn[present[:, 0], :, 1].mean() == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize("needed", [None, np.empty((0, 2), bool), np.zeros((4, 2), bool)])
def test_without_needed_patterns_rows_are_shown_whole(needed):
    problem = problem_of(inputs_of(9), np.zeros(9), needed=needed)
    assert problem.patterns == {(True, True): 1.0}
    assert not problem.needs_thinning
    assert problem.thinned.all()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"members": 0}, "members must be at least 1, got 0"),
        ({"fold_members": 0}, "fold_members must be at least 1, got 0"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"folds": 1}, "folds must be at least 2, got 1"),
        ({"weight_decays": ()}, "weight_decays must hold at least one value, got none"),
    ],
)
def test_settings_that_cannot_work_are_refused(bad, words):
    with pytest.raises(SettingError, match=words):
        FusionSettings(**bad)


def test_one_row_is_not_enough():
    with pytest.raises(DataError, match="view 'lab' must have at least 2 rows to learn from, got"):
        problem_of(inputs_of(1), np.zeros(1), name="view 'lab'")


def test_two_rows_are_enough_for_ridge():
    (fusion,) = fit_fusions([problem_of(inputs_of(2), np.array([1.0, 3.0]))], RIDGE)
    assert np.isfinite(fusion.predict(inputs_of(4), np.ones((4, 2), bool))).all()
