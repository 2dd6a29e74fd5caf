"""A coordinator wants answers from errors: whose rows break a training, what lies where."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.network.conftest import row_sites

from cofill.errors import DataError, SettingError, StoreError
from cofill.nets import DPSettings
from cofill.nets._private import private_gradient
from cofill.network._faults import RefusedMessageError, fault_for_others
from cofill.network._policy_check import RefusedOrderError

OWN_LOG = "it could not do its part; its own log says why"


@pytest.mark.parametrize(
    "error",
    [
        DataError("site 'b': 3 of 30 individuals are not in every view"),
        DataError("training diverged: 7 numbers of the update are not finite"),
        StoreError("/srv/hospital/kit/cofill/ledger.jsonl, line 7: the entry was changed"),
        SettingError("/srv/hospital/site.toml: views.lab.source is missing"),
        ZeroDivisionError("of row 17"),
    ],
)
def test_others_learn_nothing_of_rows_and_files(error):
    assert fault_for_others(error) == OWN_LOG


def test_others_learn_why_an_order_or_a_message_is_refused(rows_at):
    federation = rows_at("cluster", {"k": 2})
    with pytest.raises(RefusedOrderError) as caught:
        federation.place("a")
    assert "'group-sums' would leave without a guarantee" in fault_for_others(caught.value)
    federation = rows_at_mean(federation)
    with pytest.raises(RefusedMessageError) as refused:
        federation.place("a").act(0, {(0, "b"): b"no message"})
    assert "a message too many" in fault_for_others(refused.value)


def rows_at_mean(federation):
    """Return the federation with an order of a mean."""
    settings = {"epsilon": 0.5, "low": 0.0, "high": 1.0, "view": "u"}
    federation.order = replace(federation.order, experiment="mean", settings=settings)
    return federation


def test_a_fault_of_a_sites_rows_is_told_like_any_other(rows_at):
    views = {"a": ("u", "v"), "b": ("u",), "c": ("u", "v")}
    noise = {"epsilon": 0.4, "clip": 1.0, "rounds": 3}
    settings = {"k": 2, "scale": "none", "noise": noise}
    federation = rows_at("cluster", settings, held=row_sites(whole=True), views=views)
    from tests.network.test_by_row import drive

    with pytest.raises(DataError, match="30 of 30 individuals") as caught:
        drive(federation)
    assert fault_for_others(caught.value) == OWN_LOG


@pytest.mark.parametrize("cell", [np.inf, np.nan, 3e38])
def test_a_row_cannot_break_private_training(cell):
    def slope(row, key):
        # Squares overflow, as those of a row far outside the others do.
        return (row**2).sum(), (row[0] * row[0] * jnp.sign(row[0])).astype(jnp.float32)

    dp = DPSettings(clip_norm=1.0, noise_multiplier=1.0)
    rows = jnp.array([[0.1, 0.2], [cell, 1.0]], dtype=jnp.float32)
    drawn = jnp.array([True, True])
    loss, gradient = private_gradient(slope, rows, drawn, jnp.array(2.0), dp, jax.random.key(0))
    assert np.isfinite(np.asarray(gradient)).all()
    assert np.isfinite(float(loss))
