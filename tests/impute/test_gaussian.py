"""The conditional Gaussian: closed forms, checked one row at a time."""

import numpy as np
import pytest

from cofill.impute._factors import analyse_factors
from cofill.impute._gaussian import Gaussian, expectation_maximisation
from cofill.impute._table import Encoding
from cofill.views import Feature, Kind

RNG = np.random.default_rng(0)
FEATURES = [
    Feature("a"),
    Feature("b", Kind.CATEGORICAL, ("x", "y", "z")),
    Feature("c"),
    Feature("d"),
]


def table(n=60, share=0.3):
    base = RNG.normal(size=n)
    cells = np.column_stack(
        [base, np.digitize(base + RNG.normal(size=n) / 2, [-0.5, 0.5]), base**2, RNG.normal(size=n)]
    )
    cells[RNG.random(cells.shape) < share] = np.nan
    return cells


def by_hand(model, row):
    known = ~np.isnan(row)
    S = model.covariance
    slope = S[np.ix_(~known, known)] @ np.linalg.inv(S[np.ix_(known, known)])
    filled = row.copy()
    filled[~known] = model.mean[~known] + slope @ (row[known] - model.mean[known])
    spare = np.diag(S[np.ix_(~known, ~known)] - slope @ S[np.ix_(known, ~known)])
    return filled, spare


@pytest.fixture(scope="module")
def fitted():
    cells = table()
    encoding = Encoding.fit(cells, FEATURES)
    matrix = encoding.encode(cells)
    return encoding, matrix, expectation_maximisation(matrix, 3.0)


@pytest.mark.parametrize("copies", [1, 9])  # rows whose patterns differ, and that share them
def test_cells_are_conditional_means_and_variances(fitted, copies):
    _, matrix, model = fitted
    rows = np.repeat(matrix, copies, axis=0)
    filled, spare = model.fill(rows), model.variances(rows)
    for k, row in enumerate(matrix):
        mean, variance = by_hand(model, row)
        np.testing.assert_allclose(filled[k * copies], mean, atol=1e-8)
        np.testing.assert_allclose(spare[k * copies][np.isnan(row)], variance, atol=1e-8)


def test_hiding_each_column_is_filling_without_it(fitted):
    encoding, matrix, model = fitted
    without = model.fill_without_each(matrix, encoding)
    for k, column in enumerate(encoding.columns):
        hidden = matrix.copy()
        hidden[:, column.place] = np.nan
        np.testing.assert_allclose(without[k], model.fill(hidden), atol=1e-4)


def test_without_holes_the_covariance_is_the_tables_drawn_to_the_identity():
    cells = RNG.normal(size=(200, 3)) @ RNG.normal(size=(3, 3))
    encoding = Encoding.fit(cells, [Feature(c) for c in "abc"])
    matrix = encoding.encode(cells)
    model = expectation_maximisation(matrix, 10.0)
    expected = (matrix.T @ matrix + 10 * np.eye(3)) / 210
    np.testing.assert_allclose(model.covariance, expected, atol=1e-6)


def test_em_finds_a_covariance_through_holes():
    S = np.array([[1.0, 0.8], [0.8, 1.0]])
    cells = RNG.multivariate_normal([0, 0], S, size=4000)
    cells[RNG.random(cells.shape) < 0.3] = np.nan
    assert isinstance(expectation_maximisation(cells, 1.0), Gaussian)
    np.testing.assert_allclose(expectation_maximisation(cells, 1.0).covariance, S, atol=0.06)


@pytest.fixture(scope="module")
def few_factors():
    rng = np.random.default_rng(3)
    cells = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 8)) + 0.3 * rng.normal(size=(300, 8))
    cells[:, 5] = np.digitize(cells[:, 5], [-1, 1])
    cells[rng.random(cells.shape) < 0.3] = np.nan
    kinds = [Feature(f"c{k}") for k in range(8)]
    kinds[5] = Feature("c5", Kind.CATEGORICAL, ("x", "y", "z"))
    encoding = Encoding.fit(cells, kinds)
    matrix = encoding.encode(cells)
    model = analyse_factors(matrix, 3.0)
    dense = Gaussian(model.mean, model.loadings @ model.loadings.T + np.diag(model.unique))
    return encoding, matrix, model, dense


def test_factors_are_a_gaussian_of_their_covariance(few_factors):
    encoding, matrix, model, dense = few_factors
    np.testing.assert_allclose(model.fill(matrix), dense.fill(matrix), atol=1e-8)
    np.testing.assert_allclose(model.variances(matrix), dense.variances(matrix), atol=1e-8)
    without = dense.fill_without_each(matrix, encoding)
    np.testing.assert_allclose(model.fill_without_each(matrix, encoding), without, atol=1e-4)


def test_factors_are_learned_through_holes(few_factors):
    matrix = few_factors[1]
    steps = [analyse_factors(matrix, 3.0, steps=s) for s in (1, 30)]
    fits = []
    for fitted in steps:
        S = fitted.loadings @ fitted.loadings.T + np.diag(fitted.unique)
        fit = 0.0
        for row in matrix:
            known = ~np.isnan(row)
            gaps = row[known] - fitted.mean[known]
            block = S[np.ix_(known, known)]
            fit -= 0.5 * (np.linalg.slogdet(block)[1] + gaps @ np.linalg.solve(block, gaps))
        fits.append(fit)
    assert fits[1] > fits[0] + 50


@pytest.mark.parametrize("name", ["gaussian", "factors"])
def test_noise_has_the_conditional_variance(few_factors, name):
    _, matrix, *models = few_factors
    model = models[name == "gaussian"]
    rows = np.repeat(matrix[:3], 4000, axis=0)
    noise = model.noise(rows, np.random.default_rng(0)).reshape(3, 4000, -1)
    np.testing.assert_allclose(noise.var(axis=1), model.variances(matrix[:3]), atol=0.06)
