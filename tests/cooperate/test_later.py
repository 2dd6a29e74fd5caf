"""What happens after a fit: more rows, draws, saving, views that come and go."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from cofill.completion import load_model
from cofill.cooperate._residuals import Residuals
from cofill.errors import DataError, SettingError
from cofill.views import View

METHODS = ["masked", "fused", "auto", "faithful"]


@pytest.mark.parametrize("method", METHODS)
def test_a_partial_fit_sends_only_new_codes_and_trains_no_encoder(quick, related, method):
    truth = related(240)
    first = np.arange(240) < 150
    model = quick(method=method).fit(truth.take(first))
    versions = {n: s.encoder.spec.version for n, s in model.sites_.items()}
    before = len(model.ledger_)
    assert model.partial_fit(truth.take(~first)) is model
    sent = [e for e in list(model.ledger_)[before:] if e.kind == "codes"]
    assert len(sent) == 6
    assert {e.individuals for e in sent} == {90}
    assert {n: s.encoder.spec.version for n, s in model.sites_.items()} == versions
    assert model.trained_["encoders"] == 3
    assert all(len(s.view) == 240 for s in model.sites_.values())


def test_masks_and_ridge_are_updated_exactly(quick, related):
    # Without networks, links over all rows are the same however the rows arrived, but for the
    # penalty and the codes' scale, which stay as they were at the first fit.
    truth = related(240)
    first = np.arange(240) < 150
    model = quick(method="masked").fit(truth.take(first))
    old = model.sites_["a"].model.statistics
    model.partial_fit(truth.take(~first))
    new = model.sites_["a"].model.statistics
    np.testing.assert_array_equal(new.rows - old.rows, 90)
    assert (new.power > old.power).all()
    np.testing.assert_array_equal(model.sites_["a"].model.residuals.count, 240)


def test_a_partial_fit_with_nothing_new_changes_no_statistics(quick, related):
    truth = related(150)
    model = quick(method="masked").fit(truth)
    old = model.masks_
    model.partial_fit(truth)
    assert model.masks_.equals(old)


def test_a_first_partial_fit_is_a_fit(quick, related):
    truth = related(150)
    one, other = quick().fit(truth), quick().partial_fit(truth)
    for name in truth:
        np.testing.assert_array_equal(one.reconstruct(truth, name), other.reconstruct(truth, name))


@pytest.mark.parametrize(
    "settings",
    [{"method": "masked"}, {"method": "auto"}, {"method": "faithful", "mask_folds": 3}],
    ids=["masked", "auto", "faithful"],
)
def test_a_view_joins_after_more_rows_have_come(quick, related, settings):
    """Links refined by more rows have no guesses out of fold for them: they are learned anew."""
    truth = related(240)
    two, first = truth.without_view("c"), np.arange(240) < 150
    model = quick(**settings).fit(two.take(first))
    model.partial_fit(two.take(~first)).add_view(truth["c"])
    for site in model.sites_.values():
        np.testing.assert_array_equal(site.model.statistics.rows, 240)
    assert np.isfinite(model.reconstruct(truth, "a")).all()


def test_masks_from_folds_grow_by_what_old_links_say_of_new_rows(quick, related):
    truth = related(240)
    first = np.arange(240) < 150
    model = quick(method="faithful", mask_folds=3).fit(truth.take(first))
    old = model.sites_["a"].model.statistics
    model.partial_fit(truth.take(~first))
    new = model.sites_["a"].model.statistics
    np.testing.assert_array_equal(new.rows - old.rows, 90)
    np.testing.assert_array_equal(model.sites_["a"].model.residuals.count, 240)


def test_draws_keep_what_is_observed_and_vary_as_the_residuals_do(quick, related):
    truth = related(400)
    hidden = np.arange(400) < 100
    holes = truth.hide({"b": hidden})
    model = quick(method="masked").fit(holes)
    draws = model.draw(holes, 30, key=1)
    observed = ~hidden
    for done in draws:
        np.testing.assert_array_equal(done.cells["b"][observed], truth["b"].cells[observed])
    drawn = np.stack([d.cells["b"][hidden] for d in draws])
    site = model.sites_["b"]
    wrong = np.sqrt(site.model.residuals.wrong / site.model.residuals.count)
    spread = drawn.std(axis=0).mean(axis=0) / np.array(site.scaler.scale)
    np.testing.assert_allclose(spread, wrong, rtol=0.35)
    same = model.draw(holes, 1, key=1)[0].cells["b"]
    np.testing.assert_array_equal(same, draws[0].cells["b"])
    with pytest.raises(SettingError, match="n_draws"):
        model.draw(holes, 0)


def test_residuals_add_up_and_draw_their_own_distribution():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(3000, 2))
    predicted = truth + rng.normal(size=(3000, 2)) @ np.array([[0.5, 0.4], [0.0, 0.3]])
    truth[::7, 1] = np.nan
    whole = Residuals.of(predicted, truth)
    first, rest = slice(1000), slice(1000, None)
    parts = Residuals.of(predicted[first], truth[first]) + Residuals.of(
        predicted[rest], truth[rest]
    )
    np.testing.assert_allclose(parts.r2, whole.r2)
    np.testing.assert_allclose(parts.ordered, whole.ordered)
    known = ~np.isnan(truth[:, 1])
    r2 = 1 - ((truth - predicted)[known, 1] ** 2).sum() / (known.sum() * truth[known, 1].var())
    assert whole.r2[1] == pytest.approx(r2)
    drawn = whole.draw(np.random.default_rng(1), 20_000)
    np.testing.assert_allclose(drawn.std(axis=0), np.nanstd(truth - predicted, axis=0), rtol=0.05)
    actual = np.corrcoef((truth - predicted)[known].T)[0, 1]
    assert np.corrcoef(drawn.T)[0, 1] == pytest.approx(actual, abs=0.1)


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_model_completes_alike_and_holds_no_row(quick, related, tmp_path, method):
    truth = related(150)
    holes = truth.hide({"b": np.arange(150) < 30})
    model = quick(method=method, interval=0.8).fit(holes)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    one, other = model.complete(holes), loaded.complete(holes)
    for name in truth:
        np.testing.assert_array_equal(one.cells[name], other.cells[name])
        np.testing.assert_array_equal(one.lower[name], other.lower[name])
    assert loaded.masks_.equals(model.masks_)
    assert loaded.reconstructability_.equals(model.reconstructability_)
    assert all(len(site.view) == 0 for site in loaded.sites_.values())
    content = (tmp_path / "model" / "model.safetensors").read_bytes()
    for site in model.sites_.values():
        for row in (site.view.cells[40], site.encoded()[40]):
            assert row.astype(np.float64).tobytes() not in content
            assert row.astype(np.float32).tobytes() not in content
        assert site.tokens[40] not in content
        for link in site.model.links.values():
            if link.out_of_fold is not None:
                assert link.out_of_fold[40].tobytes() not in content
        if site.model.fusion is not None:
            assert site.model.fusion.out_of_fold[40].tobytes() not in content
    with pytest.raises(DataError, match="loaded without its rows"):
        loaded.partial_fit(holes)


def test_of_very_many_residuals_a_sample_is_sorted(monkeypatch):
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(5000, 2)) * [1.0, 3.0]
    whole = Residuals.of(np.zeros_like(truth), truth)
    monkeypatch.setattr("cofill.cooperate._residuals._MOST_ROWS", 2000)
    some = Residuals.of(np.zeros_like(truth), truth)
    assert len(some.ordered) == 2000
    for share in (0.05, 0.5, 0.95):
        np.testing.assert_allclose(
            np.quantile(some.ordered, share, axis=0),
            np.quantile(whole.ordered, share, axis=0),
            atol=0.3,
        )
    np.testing.assert_array_equal(some.wrong, whole.wrong)


# --- views that come and go -------------------------------------------------------------------


def test_a_new_view_costs_one_encoder_and_its_links(quick, holed, masked):
    model = quick(method="masked").fit(holed.without_view("c"))
    assert model.trained_["encoders"] == 2
    assert model.trained_["links"] == 2
    crossed = len(model.ledger_)
    assert model.add_view(holed["c"]) is model
    assert model.trained_["encoders"] == 2 + 1
    assert model.trained_["links"] == 2 + 2 * (3 - 1)
    assert len(model.ledger_) > crossed
    done, fresh = model.complete(holed), masked.complete(holed)
    for name in holed:
        np.testing.assert_allclose(done.cells[name], fresh.cells[name], atol=0.02)


def test_a_view_that_leaves_costs_no_training(quick, holed):
    model = quick(method="masked").fit(holed)
    kept = {n: dict(s.trained) for n, s in model.sites_.items() if n != "b"}
    assert model.remove_view("b") is model
    assert {n: dict(s.trained) for n, s in model.sites_.items()} == kept
    rest = holed.without_view("b")
    done, fresh = model.complete(rest), quick(method="masked").fit(rest).complete(rest)
    for name in rest:
        np.testing.assert_allclose(done.cells[name], fresh.cells[name], atol=0.02)
    assert set(model.masks_["source"]) == {"a", "c"}
    with pytest.raises(DataError, match="fitted on the views"):
        model.complete(holed)


def test_views_that_cannot_come_or_go(quick, holed, masked):
    with pytest.raises(DataError, match="there is a view 'a' already"):
        masked.add_view(holed["a"])
    with pytest.raises(SettingError, match="no view 'z'"):
        masked.remove_view("z")
    two = quick(method="masked").fit(holed.without_view("c"))
    with pytest.raises(DataError, match="two views are left"):
        two.remove_view("a")
    for change in (lambda m: m.add_view(holed["a"]), lambda m: m.remove_view("a")):
        with pytest.raises(NotFittedError):
            change(quick())


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (lambda v: View("d", v.ids, np.where([[True, False, True]], v.cells, np.nan)), "no value"),
        (lambda v: v.take(np.zeros(len(v), bool)), "no rows"),
        (lambda v: View("d", [str(i) for i in v.ids], v.cells), "text"),
    ],
    ids=["empty column", "no rows", "ids of another type"],
)
def test_a_view_that_could_not_be_fitted_cannot_join(quick, holed, view, words):
    model = quick(method="masked").fit(holed.without_view("c"))
    with pytest.raises(DataError, match=words):
        model.add_view(view(holed["c"]))
    assert set(model.sites_) == {"a", "b"}
