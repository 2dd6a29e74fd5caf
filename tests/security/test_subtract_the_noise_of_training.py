"""A receiver wants numbers without their noise: it repeats a round, or draws the noise itself."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.network.conftest import OPEN, ROUNDS, marked_views
from tests.network.test_by_row import drive

from cofill.cooperate import CodeDefence, CooperativeReconstruction
from cofill.errors import DataError
from cofill.nets import DPSettings
from cofill.nets._private import private_gradient
from cofill.privacy import ModelWeights, Update
from cofill.protocol import COORDINATOR, LocalData

DP = {"clip_norm": 1.0, "noise_multiplier": 4.0}


@pytest.fixture
def trained(rows_at):
    """A site before the second round, the step it trains in, and the model it is sent."""
    settings = {**ROUNDS, "rounds": 2, "local": {"moments": "reset", "dp": DP}}
    federation = rows_at("federate", settings, OPEN)
    office = drive(federation, stop=9)
    (site,) = federation.place("a").parties.values()
    weights = office.runner.parties[COORDINATOR].weights
    model = ModelWeights(sender=COORDINATOR, receiver="a", round=2, weights=weights)
    return site, office.schedule.steps[9], model


def change_of(site, step, model) -> np.ndarray:
    ((_, (update,)),) = step.run([site], [(model,)], print)
    assert isinstance(update, Update)
    assert update.event is not None
    return update.change


def test_the_same_round_has_other_noise_every_time(trained):
    site, step, model = trained
    first, second = (change_of(site, step, model) for _ in range(2))
    # With the same noise the difference of two answers would be that of two models, noise gone.
    assert np.std(first - second) > np.std(first)


@pytest.mark.parametrize("number", [0, 1, 3, 10**6])
def test_a_round_is_answered_once_and_in_its_order(trained, number):
    site, step, model = trained
    assert site.trained_round == 1
    with pytest.raises(DataError, match=rf"sent round {number}; refused"):
        step.run([site], [(replace(model, round=number),)], print)


def test_a_site_remembers_its_rounds_over_a_restart(rows_at):
    settings = {**ROUNDS, "rounds": 2, "local": {"moments": "reset", "dp": DP}}
    federation = rows_at("federate", settings, OPEN)
    drive(federation, stop=9)
    assert [p.trained_round for p in federation.place("b").parties.values()] == [1]


def test_noise_on_codes_does_not_follow_from_a_seed_in_one_process():
    marked = marked_views()
    defence = CodeDefence(epsilon=1.0)
    protocol = CooperativeReconstruction(defence=defence, seed=7).protocol(marked)
    data = LocalData("a", {"a": marked["a"]})
    keys = {protocol.start_site(data)["a"].noise_key for _ in range(2)}
    # Whoever knows the seed, which results name, would have the key of the noise.
    assert len(keys) == 2


# --- the last bits of noise -----------------------------------------------------------------------


def noisy_sums(row: float, dp: DPSettings, draws: int = 2000) -> np.ndarray:
    """Return sums of one gradient with noise, as an attacker sees them who knows all the rest."""

    def slope(batch, key):
        return batch.sum(), batch[0]

    def draw(key):
        rows, drawn = jnp.full((1, 2), row), jnp.array([True])
        return private_gradient(slope, rows, drawn, jnp.array(1.0), dp, key)[1]

    return np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(1), draws)))


@pytest.mark.parametrize("multiplier", [0.7, 1.0, 30.0])
def test_the_last_bits_of_a_gradient_do_not_tell_it(multiplier):
    dp = DPSettings(clip_norm=1.0, noise_multiplier=multiplier)
    # Of plain floating-point noise, the numbers that occur are others for another row.
    seen = [noisy_sums(row, dp).astype(np.float64) for row in (0.0, 0.3, 0.1234567)]
    step = 2.0 ** (np.floor(np.log2(multiplier)) - 16)
    for sums in seen:
        assert (sums / step == np.rint(sums / step)).all()
    for row, sums in zip((0.0, 0.3, 0.1234567), seen, strict=True):
        assert abs(sums.mean() - row) < 4 * multiplier / np.sqrt(sums.size)
        assert sums.std() == pytest.approx(multiplier, rel=0.05)
