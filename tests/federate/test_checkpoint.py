"""Saved after every round, taken up again to the same bits; another run's file is refused."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.errors import StoreError
from cofill.federate import FederatedCompletion, LocalSettings, RoundSettings
from cofill.nets import DPSettings
from cofill.views import MultiView, by_row

ADAM = LocalSettings(batch=4, learning_rate=0.05)
PLAIN = replace(ADAM, optimizer="sgd", momentum=0.0, moments="reset")
RUNS = {
    "adam": {"local": ADAM},
    "momentum": {"local": replace(ADAM, optimizer="sgd", clip=1.0)},
    "fedadam": {"local": ADAM, "strategy": "fedadam"},
    "scaffold": {"local": PLAIN, "strategy": "scaffold"},
}


class StopError(Exception):
    pass


def held_views(seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(32, 2))
    views = MultiView.from_arrays({"a": a, "b": a + 1.0}).hide({"b": np.arange(32) % 3 == 0})
    return by_row(views, 4, key=0)


def estimator(rounds=4, ways=None, **more):
    settings = RoundSettings(**{"rounds": rounds, "secure": False, **(ways or {})})
    return FederatedCompletion(
        **{"network": {"width": 4, "blocks": 0}, "settings": settings, "local": ADAM, **more}
    )


def stop_after(last):
    def on_round(number, _):
        if number == last:
            raise StopError

    return on_round


@pytest.mark.parametrize("way", RUNS)
def test_an_interrupted_fit_goes_on_to_the_same_bits(tmp_path, way):
    held = held_views()
    more = {**RUNS[way], "ways": {"participation": 0.75, "dropout": 0.1}, "seed": 3}
    expected = estimator(**more).fit_sites(held)
    with pytest.raises(StopError):
        estimator(checkpoint=tmp_path, **more).fit_sites(held, on_round=stop_after(2))
    rounds = []
    resumed = estimator(checkpoint=tmp_path, **more).fit_sites(
        held, on_round=lambda number, _: rounds.append(number)
    )
    assert rounds == [3, 4]
    np.testing.assert_array_equal(expected.weights_, resumed.weights_)
    assert expected.curve_ == resumed.curve_
    assert expected.notes_ == resumed.notes_
    before, after = (m.federation_.coordinator.state for m in (expected, resumed))
    assert list(before) == list(after)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])
    # Nothing that was released before the stop is released, or missing from the ledger, again.
    assert resumed.ledger_.to_list() == expected.ledger_.to_list()
    assert resumed.ledger_.verify() is None
    finished = estimator(checkpoint=tmp_path, **more).fit_sites(held)  # nothing is left to do
    np.testing.assert_array_equal(finished.weights_, expected.weights_)


def test_a_secure_run_goes_on_and_keeps_no_secret(tmp_path):
    held = held_views()
    ways = {"secure": True}
    expected = estimator(ways=ways).fit_sites(held)
    with pytest.raises(StopError):
        estimator(ways=ways, checkpoint=tmp_path).fit_sites(held, on_round=stop_after(1))
    resumed = estimator(ways=ways, checkpoint=tmp_path).fit_sites(held)
    np.testing.assert_array_equal(expected.weights_, resumed.weights_)
    for site in resumed.federation_.sites.values():
        assert site.member.round == 5  # the survey was 0
        assert site.member.mask_secret == b""


def test_what_private_training_cost_is_saved(tmp_path):
    held = held_views()
    local = replace(PLAIN, dp=DPSettings(clip_norm=1.0, noise_multiplier=1.0))
    with pytest.raises(StopError):
        estimator(2, local=local, checkpoint=tmp_path).fit_sites(held, on_round=stop_after(1))
    resumed = estimator(2, local=local, checkpoint=tmp_path).fit_sites(held)
    assert {site.trained_round for site in resumed.federation_.sites.values()} == {2}
    spent = [e for e in resumed.ledger_ if e.epsilon is not None]
    assert len(spent) == 2 * len(held)


def test_another_run_is_refused_and_its_file_left_alone(tmp_path):
    held = held_views()
    estimator(1, checkpoint=tmp_path).fit_sites(held)
    path = tmp_path / "state.safetensors"
    before = path.read_bytes()
    for other, views in (
        (estimator(2), held),
        (estimator(1, seed=1), held),
        (estimator(1), held_views(seed=9)),
        (estimator(1, strategy="fedadam"), held),
        (estimator(1, ways={"secure": True}), held),
    ):
        other.checkpoint = tmp_path
        with pytest.raises(StoreError, match="belongs to a run with other settings or other rows"):
            other.fit_sites(views)
    assert path.read_bytes() == before
    path.write_bytes(before[:-7])
    with pytest.raises(StoreError, match=r"state.safetensors cannot be read"):
        estimator(1, checkpoint=tmp_path).fit_sites(held)
