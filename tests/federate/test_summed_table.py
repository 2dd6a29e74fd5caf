"""Tables split by row, learned from sums: the sums are those of one table, and nothing leaks."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.codec import decode, encode
from cofill.errors import DataError
from cofill.federate import (
    CompletionNet,
    FederatedCompletion,
    LocalSettings,
    RoundSettings,
    Rows,
    Shape,
    SummedTable,
)
from cofill.federate._summed_features import Features, FeatureSums
from cofill.federate._table_state import FEATURES, TableState
from cofill.impute import Encoding, Gaussian, PooledCompleter, practise_on_learned
from cofill.privacy import MaskedVector, SiteNoise, Update
from cofill.views import MultiView, View

WIDTHS = (1, 1, 3, 1)


def mixed_rows(n=240, seed=0, rate=0.25):
    """Return encoded rows of three numbers, one of them bent, and a category of three values."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    group = np.digitize(x[:, 0] + 0.5 * rng.normal(size=n), [-0.5, 0.5])
    bent = x[:, 0] ** 2 + 0.1 * rng.normal(size=n)
    cells = np.column_stack([x, np.eye(3)[group], bent]).astype(np.float32)
    known = np.repeat(rng.random((n, 4)) >= rate, WIDTHS, axis=1)
    return Rows(cells * known, known, np.ones((n, 1), bool))


def learn(parts, rounds=30, until=None):
    """Return the table's model, the state after the rounds, and the stages it went through."""
    people = sum(map(len, parts))
    table = SummedTable(Shape(("t",), (sum(WIDTHS),), widths=WIDTHS, people=people))
    state, stages = table.start(), []
    for number in range(1, rounds + 1):
        if table.is_done(state) or TableState.of_vector(state).stage == until:
            break
        stages.append(table.describe(state))
        added = [table.summands(state, rows, seed=[k])[0] for k, rows in enumerate(parts)]
        assert {len(numbers) for numbers in added} == {table.sum_length(state)}
        state = table.advance(state, np.sum(added, axis=0), left=rounds - number)
    return table, state, stages


def split(rows, *ends):
    return [rows.take(part) for part in np.split(np.arange(len(rows)), ends)]


def test_the_gaussian_of_sums_is_that_of_all_rows_in_one_place():
    rows = mixed_rows()
    states = [learn(parts, until=FEATURES)[1] for parts in ([rows], split(rows, 30, 130))]
    np.testing.assert_allclose(*states, atol=1e-9)


def test_stages_follow_each_other_and_few_rounds_are_em_alone():
    rows = mixed_rows()
    _, state, stages = learn(split(rows, 100))
    assert list(dict.fromkeys(stages)) == [
        "shares",
        "gaussians",
        "strengths",
        "features",
        "weights",
    ]
    assert stages.count("strengths") == stages.count("features") == stages.count("weights") == 1
    for rounds in (1, 2, 5, 12, 13, 16):
        table, state, stages = learn([rows], rounds=rounds)
        assert len(stages) <= rounds
        filled = table.fill(state, np.where(rows.known, rows.cells, np.nan))
        assert np.isfinite(filled).all()


def test_the_regression_of_sums_is_that_of_all_rows():
    rng = np.random.default_rng(0)
    features = Features((1, 1, 1), (300, 300, 300), 0)
    inputs, shown = rng.normal(size=(300, 3)), rng.random((300, 3)) < 0.5
    left = np.sin(2 * inputs[:, [0]]) + 0.1 * rng.normal(size=(300, 1))
    total = np.zeros(features.length)
    size = len(total) // 3
    for part in np.split(np.arange(300), [50, 180]):
        total[:size] += features.sums_of(0, inputs[part], shown[part], left[part])
    sums = features.split(total)[0]
    every = features.of_rows(0, inputs, shown)
    np.testing.assert_allclose(sums.gram, every.T @ every, atol=1e-9)
    solved, _ = sums.regress()
    told = every @ solved
    assert np.mean((told - left) ** 2) < 0.03
    # What is noise is left alone.
    noise = rng.normal(size=left.shape)
    sums = FeatureSums(every.T @ every, every.T @ noise, float((noise**2).sum()), 300.0)
    assert (every @ sums.regress()[0]).std() < 0.35


def test_there_are_no_more_features_than_people_allow():
    few, none = Features((1,) * 5, (90,) * 5, 0), Features((1,) * 5, (30,) * 5, 0)
    assert all(0 < 1.5 * size <= 90 for size in few.sizes)
    assert none.sizes == (0,) * 5
    many = Features((1,) * 60, (10**6,) * 60, 0)
    assert many.length <= 4_000_000


def test_a_row_is_told_as_by_a_gaussian_that_never_saw_it():
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3))
    matrix -= matrix.mean(axis=0)
    start, strength = Gaussian(np.zeros(3), np.eye(3)), 2.0
    encoding = Encoding.of_widths((1, 1, 1))
    whole = start.expected_sums(matrix).gaussian(strength)
    practice = practise_on_learned(matrix, encoding, whole, rng, learned=42.0)
    for row in range(5):
        without = start.expected_sums(np.delete(matrix, row, axis=0)).gaussian(strength)
        told = without.fill_without_each(matrix[[row]], encoding)
        for k in range(3):
            gap = matrix[row, k] - told[k, 0, k]
            assert practice.bases[k][row, 0] == pytest.approx(told[k, 0, k], abs=0.1 * abs(gap))
            # Inputs hold the plain prediction: the one without the row tells the row's own cell.
            assert practice.inputs[k, row, k] != pytest.approx(practice.bases[k][row, 0], abs=1e-6)


def test_columns_that_nothing_tells_are_left_at_their_mean():
    rng = np.random.default_rng(2)
    cells = rng.integers(0, 3, size=(300, 6)).astype(np.float32)  # few values: leaks would show
    known = rng.random(cells.shape) > 0.3
    rows = Rows(cells * known, known, np.ones((300, 1), bool))
    table = SummedTable(Shape(("t",), (6,), widths=(1,) * 6, people=300))
    state = table.start()
    for number in range(1, 31):
        if table.is_done(state):
            break
        numbers, correction = table.summands(state, rows, seed=[0])
        state = table.advance(state, numbers, left=30 - number)
    filled = table.fill(state, np.where(known, cells, np.nan), correction)
    error = ((filled - cells)[~known] ** 2).mean() / cells.var()
    assert error < 1.05


def views_of(cells, ids=None):
    return MultiView([View("t", np.arange(len(cells)) if ids is None else ids, cells)])


def bent_cells(n, seed=0, sign=1.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = sign * (x[:, 0] ** 2 + x[:, 1]) + 0.2 * rng.normal(size=n)
    return np.column_stack([x, y])


def with_holes(cells, seed=0, column=2, rate=0.3):
    hidden = np.zeros(cells.shape, bool)
    hidden[:, column] = np.random.default_rng(seed).random(len(cells)) < rate
    return np.where(hidden, np.nan, cells), hidden


def error_of(done, cells, hidden):
    return float(((done.cells["t"] - cells)[hidden] ** 2).mean())


def test_sites_do_as_one_table_would_and_better_than_alone():
    cells = bent_cells(400)
    holes, hidden = with_holes(cells)
    parts = np.array_split(np.arange(400), [30, 60, 150, 270])
    held = {f"s{k}": views_of(holes[p], p) for k, p in enumerate(parts)}
    model = FederatedCompletion().fit_sites(held)
    assert isinstance(model.learner_, SummedTable)
    together, alone = 0.0, 0.0
    for (site, views), part in zip(held.items(), parts, strict=True):
        done = model.complete_sites({site: views})[site]
        together += error_of(done, cells[part], hidden[part]) * hidden[part].sum()
        own = PooledCompleter().fit_complete(views)
        alone += error_of(own, cells[part], hidden[part]) * hidden[part].sum()
        # Thirty people are too few for candidates of their own.
        assert (model.federation_.sites[site].correction is None) == (len(part) < 40)
    pooled = error_of(PooledCompleter().fit_complete(views_of(holes)), cells, hidden)
    assert together / hidden.sum() < 1.1 * pooled
    assert together < alone
    # Completed by the estimator, everybody is completed by their own site's candidates too.
    everybody = model.complete(views_of(holes))
    assert error_of(everybody, cells, hidden) == pytest.approx(together / hidden.sum())


def test_a_site_that_differs_follows_its_own_people():
    parts = [bent_cells(150, seed, sign=-1.0 if seed == 3 else 1.0) for seed in range(4)]
    holed = [with_holes(cells, seed) for seed, cells in enumerate(parts)]
    held = {f"s{k}": views_of(h, 1000 * k + np.arange(150)) for k, (h, _) in enumerate(holed)}
    model = FederatedCompletion().fit_sites(held)
    site = model.federation_.sites["s3"]
    common = replace(site, correction=None).complete(model.weights_, held["s3"])["t"]
    own = site.complete(model.weights_, held["s3"])["t"]
    hidden = holed[3][1]
    errors = [((cells - parts[3])[hidden] ** 2).mean() for cells in (common, own)]
    assert errors[1] < 0.3 * errors[0]


def test_only_sums_under_masks_leave_and_plain_sums_give_the_same_model():
    cells = bent_cells(1800)
    holes, _ = with_holes(cells)
    held = {f"s{k}": views_of(holes[k::3], np.arange(1800)[k::3]) for k in range(3)}
    secure = FederatedCompletion(rounds=20).fit_sites(held)
    plain = FederatedCompletion(rounds=20, secure=False).fit_sites(held)
    models = [TableState.of_vector(model.weights_) for model in (secure, plain)]
    for name in ("means", "covariances", "coefficients"):  # rounding may turn a tree's split
        np.testing.assert_allclose(*(getattr(m, name) for m in models), rtol=1e-4, atol=1e-4)
    kinds = {entry.kind for entry in secure.ledger_ if entry.sender != "coordinator"}
    assert MaskedVector.kind in kinds
    assert Update.kind not in kinds


def test_sites_of_fewer_people_than_features_show_no_plain_products_of_them():
    table, state, _ = learn(split(mixed_rows(), 100), until=FEATURES)
    few, many = mixed_rows(n=60), mixed_rows(n=2000)
    for rows, is_shown in ((few, True), (few, False), (many, True)):
        added, _ = table.summands(state, rows, seed=[0], is_shown=is_shown)
        assert added.any() == (rows is many or not is_shown)


def test_a_site_of_fewer_people_than_columns_shows_no_plain_moments():
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(128, 10))
    parts = np.split(np.arange(128), [60, 120])
    held = {f"s{k}": views_of(cells[p], p) for k, p in enumerate(parts)}
    model = FederatedCompletion(rounds=3, secure=False).fit_sites(held)
    sent = {
        entry.sender for entry in model.ledger_ if entry.kind == Update.kind and entry.individuals
    }
    assert sent == {"s0", "s1"}
    assert any("too few individuals for its columns" in note for note in model.notes_)


@pytest.mark.parametrize(
    "settings",
    [
        {"batch": 8},
        {"network": {"width": 4}},
        {"strategy": "fedadam"},
        {"model": "network"},
        {"local": LocalSettings()},
        {"settings": RoundSettings(rounds=1, site_noise=SiteNoise(1.0, 1.0, sites=3))},
        {"settings": RoundSettings(rounds=1, participation=0.5, secure=False)},
    ],
)
def test_whoever_sets_training_gets_the_network(settings):
    members = FederatedCompletion(**settings)._design(4)
    shape = Shape(("t",), (3,), widths=(1, 1, 1), people=500)
    assert isinstance(members.make_learner(shape), CompletionNet)


def test_wide_tables_of_few_people_and_images_get_the_network():
    design = FederatedCompletion()._design(4)
    table = Shape(("t",), (50,), widths=(1,) * 50, people=500)
    assert isinstance(design.make_learner(table), SummedTable)
    assert isinstance(design.make_learner(replace(table, people=60)), CompletionNet)
    image = Shape(("t",), (64,), image=(8, 8), widths=(1,) * 64, people=500)
    assert isinstance(design.make_learner(image), CompletionNet)


def test_a_model_of_other_parts_is_refused():
    with pytest.raises(DataError, match="parts of a model of tables"):
        TableState.of_vector(np.ones(40))


def test_what_a_site_has_fitted_is_stored():
    rows = mixed_rows(80)
    table, state, _ = learn([rows])
    state = replace(TableState.of_vector(state), stage=4).to_vector()
    _, correction = table.summands(state, rows, seed=[0])
    stored = decode(encode(correction, format="test"), format="test")
    encoded = np.where(rows.known, rows.cells, np.nan)
    filled = [table.fill(state, encoded, c) for c in (correction, stored)]
    np.testing.assert_array_equal(*filled)


def test_inputs_of_a_column_do_not_depend_on_the_cell_that_is_told(monkeypatch):
    rows = mixed_rows(rate=0.0)
    table, state, _ = learn([rows], until=FEATURES)
    inputs = []

    def keep_inputs(self, column, seen, shown, left):
        inputs.append((column, seen.copy()))
        return np.zeros(Features._numbers(self.sizes[column], self.widths[column]))

    monkeypatch.setattr(Features, "sums_of", keep_inputs)
    changed = rows.cells.copy()
    changed[0, 1] += 3.0
    for cells in (rows.cells, changed):
        table.summands(state, replace(rows, cells=cells), seed=[0])
    before, after = (dict(part) for part in (inputs[:4], inputs[4:]))
    np.testing.assert_allclose(before[1][0], after[1][0], atol=1e-5)
    assert np.abs(before[0][0] - after[0][0]).max() > 1
