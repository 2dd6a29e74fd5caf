"""Tables split by row from one noisy sum: what a row can move, what is paid, what is left."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.errors import DataError, SettingError
from cofill.federate import FederatedCompletion, NoisyTable, RoundSettings, Rows, Shape
from cofill.privacy import Budget, Gate, GaussianEvent, MaskedVector, SentLog, Update, epsilon
from cofill.views import MultiView, View

WIDTHS = (1, 3, 1)
SIZE = sum(WIDTHS)


def table_of(eps, *, people=4000, widths=WIDTHS) -> NoisyTable:
    return NoisyTable(Shape(("t",), (sum(widths),), widths=widths, people=people), eps)


def mixed_rows(n=4000, seed=0, rate=0.3) -> Rows:
    """Return encoded rows of a number, a category that follows from it, and a second number."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    group = np.digitize(x + 0.4 * rng.normal(size=n), [-0.5, 0.5])
    cells = np.column_stack([x, np.eye(3)[group], 0.9 * x + 0.44 * rng.normal(size=n)])
    known = np.repeat(rng.random((n, 3)) >= rate, WIDTHS, axis=1)
    return Rows((cells * known).astype(np.float32), known, np.ones((n, 1), bool))


def clinics(n=900, seed=3) -> dict[str, MultiView]:
    """Return three sites' people with two columns, of which each tells the other."""
    rng = np.random.default_rng(seed)
    x = rng.normal(50, 10, size=n)
    cells = np.column_stack([x, 2 * x + rng.normal(0, 5, size=n)])
    cells[rng.random(cells.shape) < 0.2] = np.nan
    people = np.array([f"p{i:04}" for i in range(n)])
    return {
        name: MultiView([View("t", people[k::3], cells[k::3], ("a", "b"))])
        for k, name in enumerate(("north", "south", "west"))
    }


# --- what a row can move ------------------------------------------------------------------------

numbers = st.floats(-1e6, 1e6, width=32)


@settings(max_examples=50)
@given(st.lists(numbers, min_size=SIZE, max_size=SIZE), st.lists(st.booleans(), min_size=3))
def test_no_row_in_the_place_of_another_moves_the_sums_by_more_than_is_paid_for(cells, marks):
    table, rows = table_of(1.0), mixed_rows(6)
    known = np.repeat(np.array(marks[:3]), WIDTHS)
    other = Rows(rows.cells.copy(), rows.known.copy(), rows.present)
    other.cells[2], other.known[2] = np.where(known, np.float32(cells), 0), known
    moved = np.linalg.norm(table.products(other) - table.products(rows))
    assert moved <= np.sqrt(2) * (1 + 1e-9)


def test_two_unlike_rows_move_the_sums_as_far_as_is_paid_for():
    table = table_of(1.0, widths=(1, 1))
    here, there = np.eye(2, dtype=bool)
    parts = [
        table.products(Rows(known[None] * np.float32(4), known[None], np.ones((1, 1), bool)))
        for known in (here, there)
    ]
    assert np.linalg.norm(parts[0] - parts[1]) == pytest.approx(np.sqrt(2))


def test_the_noise_is_what_the_event_says():
    table = table_of(0.5)
    silence = np.zeros(table.sum_length(table.start()))
    noise = np.array([table.protect(silence, np.random.default_rng(k)) for k in range(200)])
    wanted = table.event.noise_multiplier * np.sqrt(2)
    assert noise.std() == pytest.approx(wanted, rel=0.02)
    assert noise.std(axis=0).min() > 0.8 * wanted
    assert epsilon(table.event, 1e-5) == pytest.approx(0.5, rel=1e-3)


# --- what is learned ----------------------------------------------------------------------------


def error(table, total, sites, rows) -> float:
    """Return the squared error of hidden cells over that of the column's mean."""
    whole = mixed_rows(len(rows), rate=0.0).cells
    state = table.advance(total, sites=sites)
    filled = table.fill(state, table.learned_cells(rows).astype(float))
    hidden = ~rows.known
    return float(((whole - filled)[hidden] ** 2).mean() / whole[hidden].var())


def test_more_epsilon_and_more_people_tell_more():
    errors = {}
    for people in (400, 4000):
        rows = mixed_rows(people)
        for eps in (0.1, 1.0, 100.0):
            table = table_of(eps, people=people)
            draws = [
                error(table, table.protect(table.products(rows), rng), 1, rows)
                for rng in map(np.random.default_rng, range(5))
            ]
            errors[people, eps] = np.mean(draws)
    assert errors[4000, 100.0] < errors[4000, 1.0] < errors[4000, 0.1] < 1.1
    assert errors[4000, 1.0] < errors[400, 1.0]
    assert errors[4000, 1.0] < 1.15 * errors[4000, 100.0]


def test_without_noise_the_total_is_that_of_all_rows_in_one_place():
    table, rows = table_of(1.0), mixed_rows(300)
    parts = [rows.take(part) for part in np.split(np.arange(300), [40, 170])]
    total = np.sum([table.products(part) for part in parts], axis=0)
    np.testing.assert_allclose(total, table.products(rows), atol=1e-9)
    apart, together = table.advance(total, sites=3), table.advance(table.products(rows), sites=3)
    np.testing.assert_allclose(apart, together, atol=1e-9)


def test_noise_alone_tells_nothing():
    # Of two people the sums drown: what is known of a row tells nothing of its other cells.
    table, rows = table_of(0.5), mixed_rows(2, rate=0.0)
    state = table.advance(table.protect(table.products(rows), np.random.default_rng(0)), sites=1)
    unknown, asked = np.full((2, 1, SIZE), np.nan)
    asked[0, 0] = 3.0
    assert np.abs(table.fill(state, asked) - table.fill(state, unknown))[0, 1:].max() < 0.2


# --- runs ---------------------------------------------------------------------------------------


def fit_clinics(folder, **settings) -> tuple[FederatedCompletion, list]:
    """Return a fitted estimator and everything that was sent."""
    model = FederatedCompletion(epsilon=1.0, **settings)
    model.sent = SentLog(folder, last_rounds=None)
    model.fit_sites(clinics())
    return model, [release for step in model.sent for release in step.releases]


@pytest.mark.parametrize("secure", [True, False])
def test_a_run_takes_one_round_and_every_site_pays_once(secure, tmp_path):
    fitted, releases = fit_clinics(tmp_path / "sent", secure=secure)
    kind = MaskedVector if secure else Update
    sums = [r for r in releases if isinstance(r, kind) and r.event is not None]
    assert sorted(r.sender for r in sums) == ["north", "south", "west"]
    assert Gate(fitted.ledger_).spent_by_site() == pytest.approx(
        dict.fromkeys(("north", "south", "west"), 1.0), rel=1e-3
    )
    assert {type(r.event) for r in sums} == {GaussianEvent}
    assert [entry["round"] for entry in fitted.curve_] == [1]
    done = fitted.complete_sites(clinics())
    for site, views in clinics().items():
        known = ~np.isnan(views["t"].cells)
        np.testing.assert_array_equal(done[site].cells["t"][known], views["t"].cells[known])
        both = done[site].cells["t"][known.sum(axis=1) == 1]
        assert np.abs(both[:, 1] - 2 * both[:, 0]).mean() < 12  # of a deviation of 20


def test_noise_follows_no_seed_and_own_people_are_sent_to_nobody(tmp_path, monkeypatch):
    monkeypatch.delenv("COFILL_SEEDED_SECRETS", raising=False)
    changes = []
    for k in range(2):
        run, releases = fit_clinics(tmp_path / f"sent{k}", secure=False, seed=5)
        updates = [release for release in releases if isinstance(release, Update)]
        changes.append(updates[0].change)
        assert {len(u.change) for u in updates} == {run.learner_.sum_length(run.learner_.start())}
        assert all(u.metrics == {} and u.extras == {} for u in updates)
        assert all(site.correction is not None for site in run.federation_.sites.values())
    assert (changes[0] != changes[1]).all()


def test_a_budget_ends_a_run_that_would_cost_more():
    with pytest.raises(SettingError, match="budget"):
        FederatedCompletion(epsilon=1.0, budget=Budget(epsilon=0.5)).fit_sites(clinics())


@pytest.mark.parametrize(
    "more",
    [
        {"batch": 8},
        {"strategy": "fedprox"},
        {"model": "network"},
        {"settings": RoundSettings(epsilon=1.0, participation=0.5)},
    ],
)
def test_what_would_train_a_network_is_refused_beside_epsilon(more):
    model = FederatedCompletion(**{"epsilon": 1.0, **more})
    with pytest.raises(SettingError, match="epsilon is kept by noise on sums"):
        model.fit_sites(clinics())


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"epsilon": -1.0}, {"delta": 1.0}])
def test_an_impossible_guarantee_is_refused(wrong):
    with pytest.raises(SettingError, match="must be"):
        RoundSettings(**{"epsilon": 1.0, **wrong})


def test_images_and_wide_tables_are_refused_beside_epsilon():
    rng = np.random.default_rng(0)
    wide = {
        name: MultiView.from_arrays({"t": rng.normal(size=(30, 120))})
        for name in ("north", "south", "west")
    }
    with pytest.raises(DataError, match="epsilon is for tables of at most 100 encoded columns"):
        FederatedCompletion(epsilon=1.0).fit_sites(wide)
