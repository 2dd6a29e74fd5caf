"""Saved after every round, taken up again to the same bits; another run's file is refused."""

import numpy as np
import pytest

from cofill.errors import StoreError
from cofill.federate import (
    FedAdam,
    FederatedCompletion,
    LocalSettings,
    RoundSettings,
    Scaffold,
    run_rounds,
)
from cofill.federate._checkpoint import FILE, fingerprint_of, restore, store
from cofill.views import MultiView, by_row


class StopError(Exception):
    pass


def run(made, folder, *, stop_after=None):
    mark = fingerprint_of(made)
    restore(folder, made, mark)

    def after(number):
        store(folder, made, mark)
        if number == stop_after:
            raise StopError

    run_rounds([made], after=after)


@pytest.mark.parametrize("how", ["adam", "fedadam", "scaffold"])
def test_an_interrupted_run_goes_on_to_the_same_bits(toy, tmp_path, how):
    def begin():
        settings = {"rounds": 6, "participation": 0.75, "dropout": 0.2, "seed": 3}
        if how == "scaffold":
            return toy.federation(strategy=Scaffold(), **settings)
        local = LocalSettings(batch=2, learning_rate=0.05)
        return toy.federation(
            local=local, strategy=FedAdam() if how == "fedadam" else None, **settings
        )

    whole = begin()
    run_rounds([whole])
    with pytest.raises(StopError):
        run(begin(), tmp_path, stop_after=3)
    resumed = begin()
    run(resumed, tmp_path)
    one, other = whole.coordinator, resumed.coordinator
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.round == other.round == 7
    assert one.notes == other.notes
    assert one.curve == other.curve
    assert list(one.state) == list(other.state)
    for name in one.state:
        np.testing.assert_array_equal(one.state[name], other.state[name])
    for name, site in whole.sites.items():
        if how == "scaffold":
            np.testing.assert_array_equal(site.control, resumed.sites[name].control)
    assert resumed.ledger.to_list() == whole.ledger.to_list()
    assert resumed.ledger.verify() is None
    finished = begin()
    run(finished, tmp_path)  # nothing is left to do
    np.testing.assert_array_equal(finished.coordinator.weights, one.weights)


def test_another_run_is_refused_and_its_file_left_alone(toy, tmp_path):
    run(toy.federation(rounds=1), tmp_path)
    before = (tmp_path / FILE).read_bytes()
    for other in (
        toy.federation(rounds=2),
        toy.federation(rounds=1, seed=1),
        toy.federation(toy.sites(4, seed=9), rounds=1),
        toy.federation(rounds=1, strategy=FedAdam()),
        toy.federation(rounds=1, secure=True),
    ):
        with pytest.raises(StoreError, match="belongs to a run with other settings or other rows"):
            restore(tmp_path, other, fingerprint_of(other))
    assert (tmp_path / FILE).read_bytes() == before
    (tmp_path / FILE).write_bytes(before[:-7])
    same = toy.federation(rounds=1)
    with pytest.raises(StoreError, match="cannot be read: these bytes are no value"):
        restore(tmp_path, same, fingerprint_of(same))


def test_an_empty_folder_is_a_beginning(toy, tmp_path):
    made = toy.federation(rounds=1)
    assert not restore(tmp_path / "new", made, fingerprint_of(made))


def test_an_estimator_goes_on_where_it_was_stopped(tmp_path):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(24, 2))
    views = MultiView.from_arrays({"a": a, "b": a + 1.0}).hide({"b": np.arange(24) % 3 == 0})
    held = by_row(views, 2, key=0)

    def estimator(**more):
        return FederatedCompletion(
            network={"width": 4, "blocks": 1},
            local=LocalSettings(batch=8),
            settings=RoundSettings(rounds=4),
            **more,
        )

    whole = estimator().fit_sites(held)

    def stop(number, _):
        if number == 2:
            raise StopError

    with pytest.raises(StopError):
        estimator(checkpoint=tmp_path).fit_sites(held, on_round=stop)
    resumed = estimator(checkpoint=tmp_path).fit_sites(held)
    np.testing.assert_array_equal(whole.weights_, resumed.weights_)
    assert whole.curve_ == resumed.curve_
    # What was released before the stop stays in the ledger; the survey was held again.
    kinds = [[e.kind for e in fit.ledger_] for fit in (whole, resumed)]
    assert kinds[1].count("update") == kinds[0].count("update") == 8
    assert kinds[1].count("column-summary") == 2 * kinds[0].count("column-summary") == 4
    assert resumed.ledger_.verify() is None
