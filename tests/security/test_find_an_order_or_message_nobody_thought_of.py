"""Whoever tries everything: orders, messages, model files and checkpoints at random.

A few of each in the gate, more orders and 10⁵ of everything else in the long tier.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.network.conftest import _identities

from cofill.codec import load, save
from cofill.errors import CofillError, DataError, StoreError
from cofill.network._config import FederationConfig, Member
from cofill.network._messages import read_message, write_message
from cofill.network._order import RunOrder, new_run, schedule_of
from cofill.network._policy import SitePolicy
from cofill.network._policy_check import Request, refusals
from cofill.privacy import MessageAddress, RunFigures, Update, decode_releases, encode_releases

MANY = 100_000
BY_ROW = FederationConfig(
    "t", "localhost", 1, tuple(Member(n, n, ("u",)) for n in "abc"), shared=("u",)
)
BY_VIEW = FederationConfig("t", "localhost", 1, tuple(Member(n, n, (n,)) for n in "abc"))

# --- orders ---------------------------------------------------------------------------------------

NUMBERS = st.sampled_from([0, 1e-12, 1e-5, 0.01, 0.3, 0.5, 1, 2, 5, 9, 10, 50, 200, 999, 10**9])
FLAGS, WHOLE = st.booleans(), st.sampled_from([0, 1, 2, 5, 9, 10, 16, 50, 100, 200, 201, 10**6])


def table(**fields):
    """Return tables that have any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


DP = table(clip_norm=NUMBERS, noise_multiplier=NUMBERS)
TRAINING = table(learning_rate=NUMBERS, epochs=WHOLE, batch_size=WHOLE, dp=st.none() | DP)
NOISE = table(
    epsilon=st.sampled_from([0, 0.01, 0.1, 0.5, 2]),
    clip=NUMBERS,
    rounds=WHOLE,
    seed=st.none() | WHOLE,
)
ROBUST = table(rule=st.sampled_from(["mean", "median"]), norm=NUMBERS, most_rows=WHOLE)
ORDERS = {
    "mean": table(
        # Of absurd ones the accountant thinks for seconds.
        epsilon=st.sampled_from([0, 0.01, 0.3, 0.5, 1, 1.5, 2, 5]),
        delta=st.sampled_from([0, 1e-9, 1e-5, 0.01, 0.5]),
        low=NUMBERS,
        high=NUMBERS,
        view=st.just("u"),
        noise=st.sampled_from(["gaussian", "laplace", "laplace per coordinate"]),
        neighbours=st.sampled_from(["replace one", "add or remove one"]),
        min_sites=WHOLE,
        seed=WHOLE,
    ),
    "cluster": table(
        k=WHOLE,
        restarts=WHOLE,
        rounds=WHOLE,
        seed_group=WHOLE,
        min_group=WHOLE,
        local_groups=WHOLE,
        scale=st.sampled_from(["none", "standard", "robust", "auto"]),
        noise=st.none() | NOISE,
    ),
    "deep-cluster": table(
        k=WHOLE,
        restarts=WHOLE,
        rounds=WHOLE,
        local_steps=WHOLE,
        batch=WHOLE,
        seed_group=WHOLE,
        min_group=WHOLE,
        learning_rate=NUMBERS,
        start=st.sampled_from(["auto", "kmeans", "random"]),
    ),
    "federate": table(
        rounds=WHOLE,
        secure=FLAGS | table(threshold=WHOLE, largest=NUMBERS),
        batch=WHOLE,
        learning_rate=NUMBERS,
        participation=NUMBERS,
        local=table(dp=DP),
        site_noise=table(clip=NUMBERS, noise_multiplier=NUMBERS, sites=WHOLE),
        robust=ROBUST,
    ),
    "cooperate": table(
        alignment=st.sampled_from(["hash", "psi"]),
        min_overlap=WHOLE,
        encoder_training=TRAINING,
        defence=table(width=NUMBERS, pilot=WHOLE, epsilon=NUMBERS, bits=WHOLE),
    ),
    "private": table(features=WHOLE, folds=WHOLE, min_overlap=WHOLE, most_people=WHOLE),
}


def is_harmless(experiment: str, order: dict) -> bool:
    """Whether an order that was taken keeps to the default policy, by its own words alone."""
    if experiment == "mean":
        return order["epsilon"] <= 1
    if experiment == "cluster":
        noise = order["noise"]
        return noise["epsilon"] <= 1 and noise.get("seed") is None and order["scale"] == "none"
    if experiment == "private":
        return order.get("min_overlap", 20) >= 10
    return False  # updates and codes have no guarantee, and nobody has named them


def try_order(experiment: str, wanted: dict) -> bool:
    """Return whether the default policy takes an order; what it takes must be harmless."""
    federation = BY_VIEW if experiment in ("cooperate", "private") else BY_ROW
    try:
        with np.errstate(all="ignore"):  # the accountant's, of absurd noise
            schedule = schedule_of(RunOrder(new_run(), experiment, wanted), federation)
            refused = refusals(SitePolicy(), Request(schedule))
    except CofillError:
        return False
    assert all(sentence and "\n" not in sentence for sentence in refused)
    assert refused or is_harmless(experiment, wanted), (experiment, wanted)
    return not refused


QUICK = {"suppress_health_check": list(HealthCheck)}


@pytest.mark.parametrize("experiment", ORDERS)
@settings(max_examples=30, **QUICK)
@given(data=st.data())
def test_no_order_goes_under_the_default_policy(experiment, data):
    try_order(experiment, data.draw(ORDERS[experiment]))


def test_some_orders_are_taken():
    mean = {"epsilon": 0.5, "low": 0.0, "high": 1.0, "view": "u"}
    noisy = {"k": 2, "scale": "none", "noise": {"epsilon": 0.3, "clip": 1.0, "rounds": 3}}
    assert all(try_order(e, o) for e, o in [("mean", mean), ("cluster", noisy), ("private", {})])


@pytest.mark.full
@pytest.mark.parametrize("experiment", ORDERS)
@settings(max_examples=300, **QUICK)  # the accountant takes its time
@given(data=st.data())
def test_no_order_of_many_goes_under_the_default_policy(experiment, data):
    try_order(experiment, data.draw(ORDERS[experiment]))


# --- messages -------------------------------------------------------------------------------------

PEOPLE = _identities(("a", "b", "coordinator"))
ADDRESS = MessageAddress("run", 3, "a", "b")
CONTENT = encode_releases(
    [
        Update(sender="a", receiver="b", round=1, change=np.ones(5, np.float32), rows=30),
        RunFigures(sender="a", receiver="b", rows=30, figures={"r2": 0.5}),
    ]
)
MESSAGE = write_message(CONTENT, ADDRESS, PEOPLE["a"], limit=2**20)


def spoiled(content: bytes, rng: np.random.Generator) -> bytes:
    """Return content with bytes changed, cut out, doubled or put in."""
    spoilt, at = bytearray(content), int(rng.integers(len(content)))
    kind, length = rng.integers(4), int(rng.integers(1, 9))
    if kind == 0:
        spoilt[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del spoilt[at : at + length]
    elif kind == 2:
        spoilt[at:at] = spoilt[at : at + length]
    else:
        spoilt[at : at + length] = rng.bytes(length)
    return bytes(spoilt)


def try_messages(count: int) -> None:
    rng = np.random.default_rng(count)
    steps = [replace(ADDRESS, step=4), replace(ADDRESS, run="other"), replace(ADDRESS, sender="b")]
    for number in range(count):
        message = spoiled(MESSAGE, rng)
        # Replayed as it was, in another step, run or name; or changed, where it belongs.
        sent = (MESSAGE, steps[number % 3]) if number % 10 == 0 else (message, ADDRESS)
        if sent == (MESSAGE, ADDRESS):
            continue
        with pytest.raises(CofillError):
            read_message(*sent, PEOPLE["b"], limit=2**20)


def try_releases(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(count):
        try:
            releases = decode_releases(spoiled(CONTENT, rng), "a")
        except DataError:
            continue
        # Whoever seals may say anything; it is checked by type, size and sender.
        assert all(type(r).kind in ("update", "figures") for r in releases)


def test_spoilt_and_replayed_messages_are_refused():
    try_messages(150)
    try_releases(150)


@pytest.mark.full
def test_many_spoilt_and_replayed_messages_are_refused():
    try_messages(MANY)
    try_releases(MANY)


# --- files ----------------------------------------------------------------------------------------


def try_files(path, count: int) -> None:
    value = {"weights": np.arange(12.0), "settings": {"rounds": 3, "names": ("a", "b")}}
    save(path, value, format="cofill.example")
    whole, rng = path.read_bytes(), np.random.default_rng(count)
    for _ in range(count):
        path.write_bytes(spoiled(whole, rng))
        try:
            again = load(path, format="cofill.example")
        except StoreError:
            continue
        # Spaces of the header may change, and nothing that is read.
        assert json.dumps(again, default=lambda a: a.tolist()) == json.dumps(
            value, default=lambda a: a.tolist()
        )


def test_spoilt_models_and_checkpoints_are_refused(tmp_path):
    try_files(tmp_path / "model.safetensors", 150)


@pytest.mark.full
def test_many_spoilt_models_and_checkpoints_are_refused(tmp_path):
    try_files(tmp_path / "model.safetensors", MANY)
