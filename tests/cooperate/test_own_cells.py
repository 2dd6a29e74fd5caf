"""Rows that a site knows in part: predictions made without them, beside their own cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.cooperate.plain_computer import plain_targets

from cofill.cooperate import (
    PrivateCompletion,
    PrivateProtocol,
    _private_coordinator,
)
from cofill.cooperate import _private_alignment as alignment
from cofill.errors import DataError, SettingError
from cofill.impute import PooledCompleter
from cofill.privacy import RowFlags
from cofill.protocol import COORDINATOR, Membership
from cofill.views import MultiView

N = 240


def small(**settings):
    return PrivateCompletion(**{"features": 12, "min_overlap": 10, "rounds": 2, **settings})


def holed(rate=0.3):
    """Two views of a bent sheet with holes inside rows, and the cells that were there."""
    rng = np.random.default_rng(4)
    trait = rng.normal(size=(N, 2))
    noise = 0.1 * rng.normal(size=(N, 5))
    cells = np.column_stack(
        [trait[:, 0], trait[:, 1], trait.sum(axis=1), trait[:, 0] ** 2, trait[:, 0] - trait[:, 1]]
    )
    truth = cells + noise
    hidden = rng.random(truth.shape) < rate
    hidden[:, [0, 4]] &= ~hidden[:, [1, 3]]  # nobody's row of a view is wholly empty
    shown = np.where(hidden, np.nan, truth)
    return MultiView.from_arrays({"a": shown[:, :2], "b": shown[:, 2:]}), truth, hidden


@pytest.fixture(scope="module")
def asked():
    views, truth, hidden = holed()
    model = small(interval=0.9).fit(views)
    return model, views, truth, hidden, model._ask(views)


@pytest.fixture(scope="module")
def completed(asked):
    model, views, *_ = asked
    return model.complete(views)


def test_rows_learned_from_are_predicted_without_the_fold_they_were_in(asked):
    model, *_, sites = asked
    parts = sites["b"].parts
    assert sorted(np.unique(parts)) == [1, 2, 3]
    expected = plain_targets(model, sites)  # the trusted machine leaves the same folds out
    for name, targets in expected.items():
        np.testing.assert_allclose(sites[name].predicted.targets, targets, atol=1e-3)
    learned = model.federation_.coordinator.learned
    assert set(learned.covariance) == {"0", "1", "2", "3"}


def test_predictions_with_rows_in_their_own_regression_are_too_good_to_practise_on(asked):
    model, views, *_, sites = asked
    fitted = model.federation_.sites
    kept = dict(fitted)
    for name, site in kept.items():
        fitted[name] = replace(site, parts=np.zeros(len(site.view), np.uint8))
    seen = model._ask(views)
    fitted |= kept
    for name, site in sites.items():
        apart, inside = error_of_known_cells(site), error_of_known_cells(seen[name])
        assert (inside < 0.97 * apart).all()


def error_of_known_cells(site):
    rows = site.view.positions(site.ids[site.predicted.at])
    known = site.fitted.targets.standardised(site.view)[rows]
    return np.nanmean((site.predicted.targets - known) ** 2, axis=0)


def test_own_cells_and_predictions_together_beat_each_alone(asked, completed):
    _, views, truth, hidden, _ = asked
    done = np.hstack([completed.cells[name] for name in "ab"])
    np.testing.assert_array_equal(done[~hidden], truth[~hidden])
    error = np.mean((done - truth)[hidden] ** 2)
    alone = [MultiView.from_arrays({name: views.aligned(name)}) for name in "ab"]
    local = [PooledCompleter(effort="quick").fit_complete(v) for v in alone]
    local = np.hstack([d.cells[name] for d, name in zip(local, "ab", strict=True)])
    assert error < 0.5 * np.mean((local - truth)[hidden] ** 2)


def test_intervals_of_rows_known_in_part_hold_nine_in_ten(asked, completed):
    _, _, truth, hidden, _ = asked
    done = completed
    inside = []
    for name, part in (("a", slice(0, 2)), ("b", slice(2, 5))):
        at = hidden[:, part]
        low, high = done.lower[name][at], done.upper[name][at]
        inside.append((low <= truth[:, part][at]) & (truth[:, part][at] <= high))
    assert 0.83 <= np.concatenate(inside).mean() <= 0.97


def test_a_part_that_nobody_learned_from_is_refused(asked):
    model, *_, sites = asked
    coordinator = model.federation_.coordinator
    first = sites["a"].in_round(0)
    site = replace(first, parts=np.full(len(first.view), 9, np.uint8))
    flags = [alignment.request(0)(s, [])[1] for s in (site, sites["b"])]
    inbox = [r for outbox in flags for r in outbox]
    assert any(isinstance(r, RowFlags) and r.receiver == COORDINATOR for r in inbox)
    with pytest.raises(DataError, match="a part of the people that nobody learned from"):
        _private_coordinator.match_asked(0)(coordinator, inbox)


def test_more_folds_than_a_byte_tells_are_refused():
    members = Membership({"x": ("a",), "y": ("b",)})
    with pytest.raises(SettingError, match="folds must be at most 60, got 61"):
        PrivateProtocol.from_settings({"folds": 61}, members)


def test_an_order_cannot_ask_about_the_same_rows_again_and_again():
    members = Membership({"x": ("a",), "y": ("b",)})
    with pytest.raises(SettingError, match="rounds must be at most 3, got 1000"):
        PrivateProtocol.from_settings({"rounds": 1000}, members)
    # A site's policy can allow fewer: it is told of how many there are.
    assert PrivateProtocol.from_settings({}, members).demands.rounds == 3
    assert PrivateProtocol.from_settings({"rounds": 1}, members).demands.rounds == 1


# --- rounds ---------------------------------------------------------------------------------------


def product_of_two_sites(n=250):
    """A column that follows from one of its own site's and one of another's; a third has noise."""
    rng = np.random.default_rng(11)
    base, ratio = rng.uniform(1, 2, size=(2, n))
    truth = np.column_stack(
        [base, base * ratio, ratio, base * ratio**2, base + ratio, rng.normal(size=n)]
    )
    truth += 0.02 * rng.normal(size=truth.shape)
    hidden = rng.random(truth.shape) < 0.3
    hidden[:, [0, 2, 4]] &= ~hidden[:, [1, 3, 5]]
    shown = np.where(hidden, np.nan, truth)
    parts = {name: shown[:, 2 * k : 2 * k + 2] for k, name in enumerate("abc")}
    return MultiView.from_arrays(parts), truth, hidden


def test_later_rounds_tell_what_follows_from_several_sites_together():
    views, truth, hidden = product_of_two_sites()
    error = {}
    for rounds in (1, 2):
        done = small(features=40, rounds=rounds).fit_complete(views)
        cells = np.hstack([done.cells[name] for name in "abc"])
        gaps = ((cells - truth) / truth.std(axis=0))[:, :5]
        error[rounds] = np.mean(gaps[hidden[:, :5]] ** 2)
    assert error[2] < 0.8 * error[1]


def test_later_rounds_tell_of_nobody_else(asked):
    *_, sites = asked
    for site in sites.values():
        ids = site.ids[site.predicted.at]
        for answer in site.earlier:
            np.testing.assert_array_equal(np.sort(site.known_ids[answer.at]), np.sort(ids))


def test_a_hole_is_filled_for_the_next_round_and_known_cells_are_not_kept(asked):
    _, _, truth, hidden, sites = asked
    for name, part in (("a", slice(0, 2)), ("b", slice(2, 5))):
        site, holes = sites[name], hidden[:, part]
        assert len(site.fills) == holes.sum()
        filled = site.table.cells
        np.testing.assert_array_equal(filled[~holes], truth[:, part][~holes])
        away = truth[:, part].std(axis=0) * np.ones_like(filled)
        assert np.mean(((filled - truth[:, part]) / away)[holes] ** 2) < 0.5


def test_each_round_learns_from_the_answers_of_all_before_and_holes_are_filled_once(monkeypatch):
    views, *_ = holed()
    answers = []

    def fill(site):
        answers.append((len(site.earlier) + 1, len(site.choices_so_far), site.predicted is None))
        return np.full(np.isnan(site.view.cells).sum(), float(len(answers)))

    monkeypatch.setattr(alignment, "fill_holes", fill)
    model = small(features=4, rounds=3).fit(views)
    fills = {name: [f[0] for f in site.learned_fills] for name, site in model.sites_.items()}
    # Two sites; in the second and the third round, of one and of two answers.
    assert answers == [(1, 1, False)] * 2 + [(2, 2, False)] * 2
    assert fills == {"a": [1, 3], "b": [2, 4]}
    asked = model._ask(views)
    assert len(answers) == 4  # the same rows: their holes are filled as they were
    assert {len(site.earlier) for site in asked.values()} == {2}
    model._ask(views.take(np.arange(N) < N - 20))
    assert len(answers) == 8


def test_without_holes_or_with_columns_kept_from_a_view_it_is_learned_once(asked):
    views, truth, _ = holed()
    model, *_ = asked
    assert model.federation_.coordinator.has_rounds
    whole = MultiView.from_arrays(
        {"a": truth[:, :2], "b": truth[:, 2:]}, presence={"b": np.arange(N) > 9}
    )
    once = [small(rounds=rounds).fit(whole) for rounds in (1, 2)]
    limited = small(informs={"a": {"b": views["a"].feature_names[:1]}})
    for fitted in (*once, limited.fit(views)):
        assert not fitted.federation_.coordinator.has_rounds
        assert {site.run for site in fitted.sites_.values()} == {1}
    first, second = (fitted.complete(whole).cells["b"] for fitted in once)
    np.testing.assert_allclose(first, second, atol=1e-3)


def test_a_site_fills_nothing_for_others_from_columns_that_may_not_inform_all(asked):
    *_, sites = asked
    site = sites["a"]
    plan = site.placed.plan
    groups = tuple(tuple((*group[:2], 1) for group in view) for view in plan.groups)
    placed = replace(site.placed, plan=replace(plan, groups=groups))
    with pytest.raises(DataError, match="may not inform everybody"):
        alignment.prepare_round(1)(replace(site, placement=placed), [])


def test_rounds_below_one_are_refused():
    members = Membership({"x": ("a",), "y": ("b",)})
    with pytest.raises(SettingError, match="rounds must be"):
        PrivateProtocol.from_settings({"rounds": 0}, members)
