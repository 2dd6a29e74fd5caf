"""A task's own weight decay, and the sizes programs are rounded to."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill.errors import SettingError
from cofill.nets import MLP, SquaredError, Task, TrainSettings, recipe, round_up, train

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
SETTINGS = TrainSettings(epochs=3, batch_size=8, optimizer="adamw", learning_rate=0.05)


def parameters(decays, settings=SETTINGS):
    tasks = [Task(recipe(MLP, (3, 4, 3)), X, key=KEY, weight_decay=d) for d in decays]
    return train(tasks, SquaredError(), settings).parameters


def test_a_tasks_weight_decay_stands_in_place_of_the_settings():
    by_settings = {
        d: parameters([None, None], replace(SETTINGS, weight_decay=d))[0] for d in (0.0, 0.1, 2.0)
    }
    assert np.abs(by_settings[0.1] - by_settings[2.0]).max() > 1e-3
    by_task = parameters([2.0, 0.1], replace(SETTINGS, weight_decay=7.0))
    np.testing.assert_allclose(by_task[0], by_settings[2.0], atol=1e-6)
    np.testing.assert_allclose(by_task[1], by_settings[0.1], atol=1e-6)
    # Zero is a decay, not "left out".
    zero, left_out = parameters([0.0, None], replace(SETTINGS, weight_decay=0.1))
    np.testing.assert_allclose(zero, by_settings[0.0], atol=1e-6)
    np.testing.assert_allclose(left_out, by_settings[0.1], atol=1e-6)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_tasks_weight_decay_needs_adamw(optimizer):
    with pytest.raises(SettingError, match=r"weight_decay must be None .* adamw, got 0\.1"):
        parameters([0.1], replace(SETTINGS, optimizer=optimizer))


@given(count=st.integers(1, 2**40))
def test_round_up_is_at_least_the_count_and_little_more(count):
    assert count <= round_up(count) <= count * 1.125


@given(one=st.integers(1, 2**20), other=st.integers(1, 2**20))
def test_round_up_keeps_the_order(one, other):
    low, high = sorted((one, other))
    assert round_up(low) <= round_up(high)


def test_round_up_keeps_powers_of_two_and_leaves_few_sizes():
    assert [round_up(2**k) for k in range(20)] == [2**k for k in range(20)]
    assert len({round_up(count) for count in range(1024, 2048)}) <= 9
    assert [round_up(count) for count in (17, 18, 19, 33)] == [18, 18, 20, 36]
