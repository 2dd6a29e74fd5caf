"""Strategies against numbers worked out by hand, and where they differ."""

from importlib.metadata import EntryPoint

import numpy as np
import pytest

from cofill.errors import SettingError
from cofill.federate import (
    LEARNERS,
    STRATEGIES,
    CompletionNet,
    FedAdam,
    FedAvg,
    FederatedProtocol,
    FedProx,
    FedYogi,
    Scaffold,
    make_strategy,
)
from cofill.protocol import Membership

ZERO = np.zeros(2, np.float32)


def test_fedavg_weighs_by_rows_or_not(toy):
    # One plain step of 0.5 from 0 takes half the way to a site's mean: 1 of two rows, 3 of one.
    rows = {"a": toy.springs([[2.0, 0.0], [2.0, 4.0]]), "b": toy.springs([[6.0, 6.0]])}
    for by_rows, expected in ((True, [5 / 3, 5 / 3]), (False, [2.0, 2.0])):
        made = toy.federation(rows, rounds=1, strategy=FedAvg(by_rows=by_rows))
        toy.run_rounds([made])
        np.testing.assert_allclose(made.coordinator.weights, expected, rtol=1e-6)


@pytest.mark.parametrize("name", STRATEGIES.names)
def test_no_change_moves_nothing_at_first(name):
    strategy = make_strategy(name)
    state = strategy.init(ZERO + 1)
    _, weights = strategy.apply(state, ZERO + 1, {"change": ZERO, "control": ZERO}, 1.0)
    np.testing.assert_array_equal(weights, ZERO + 1)


def test_fedprox_without_a_pull_is_fedavg_and_with_one_stays_nearer(toy):
    ends = {}
    for mu in (None, 0.0, 1.0):
        strategy = FedAvg() if mu is None else FedProx(proximal=mu)
        local = toy.plain.__class__(**{**vars(toy.plain), "epochs": 3})
        made = toy.federation(rounds=1, strategy=strategy, local=local)
        toy.run_rounds([made])
        ends[mu] = made.coordinator.weights
    np.testing.assert_array_equal(ends[None], ends[0.0])
    assert (np.abs(ends[1.0]) < np.abs(ends[0.0])).all()


def test_fedprox_step_by_hand(toy):
    # Step 1 from 0: 0.5 · (x − 0). Step 2: gradient (w − x) + μ w.
    rows = {"a": toy.springs([[4.0, -2.0]])}
    local = toy.plain.__class__(**{**vars(toy.plain), "epochs": 2})
    made = toy.federation(rows, rounds=1, strategy=FedProx(proximal=0.5), local=local)
    toy.run_rounds([made])
    x = np.array([4.0, -2.0])
    first = 0.5 * x
    second = first - 0.5 * ((first - x) + 0.5 * first)
    np.testing.assert_allclose(made.coordinator.weights, second, rtol=1e-6)


@pytest.mark.parametrize("kind", [FedAdam, FedYogi])
def test_adaptive_steps_by_hand(kind):
    strategy = kind(learning_rate=0.1, first=0.9, second=0.99, tau=0.01)
    w = np.array([1.0, 1.0])
    changes = [np.array([0.5, -0.001]), np.array([-0.2, 0.3])]
    m = np.zeros(2)
    v = np.full(2, 1e-4)
    state = strategy.init(w)
    expected = w
    for change in changes:
        m = 0.9 * m + 0.1 * change
        if kind is FedAdam:
            v = 0.99 * v + 0.01 * change**2
        else:
            v = v - 0.01 * change**2 * np.sign(v - change**2)
        expected = expected + 0.1 * m / (np.sqrt(v) + 0.01)
        state, w = strategy.apply(state, w, {"change": change}, 1.0)
        np.testing.assert_allclose(w, expected, rtol=1e-12)
        np.testing.assert_allclose(state["v"], v, rtol=1e-12)
    # The very first step, in digits: 0.1 · 0.05 / (√(0.99e-4 + 0.0025) + 0.01) for FedAdam.
    if kind is FedAdam:
        one = strategy.apply(strategy.init(ZERO + 1), np.ones(2), {"change": changes[0]}, 1.0)[1]
        assert one[0] == pytest.approx(1 + 0.005 / (0.0509804 + 0.01), rel=1e-6)


def test_scaffold_moves_its_control_by_the_share_that_answered():
    strategy = Scaffold(learning_rate=0.5)
    mean = {"change": np.array([2.0, -4.0]), "control": np.array([1.0, 3.0])}
    state, w = strategy.apply({"control": np.array([1.0, 1.0])}, np.zeros(2), mean, 0.25)
    assert w.tolist() == [1.0, -2.0]
    assert state["control"].tolist() == [1.25, 1.75]


def test_scaffold_reaches_the_optimum_where_fedavg_drifts(toy):
    # Stiff and soft sites, many local steps: the mean of local optima is not the common optimum.
    rows = {"stiff": toy.springs([[4.0, 4.0]], h=1.5), "soft": toy.springs([[0.0, -4.0]], h=0.1)}
    best = np.array([(1.5 * 4) / 1.6, (1.5 * 4 - 0.1 * 4) / 1.6])
    local = toy.plain.__class__(**{**vars(toy.plain), "epochs": 10})
    far = {}
    for strategy in (FedAvg(), Scaffold()):
        made = toy.federation(rows, rounds=60, strategy=strategy, local=local)
        toy.run_rounds([made])
        far[strategy.name] = np.abs(made.coordinator.weights - best).max()
    assert far["fedavg"] > 0.5
    assert far["scaffold"] < 1e-3


@pytest.mark.parametrize("decay", [False, True])
def test_a_sites_control_is_its_mean_gradient_whatever_the_step_sizes(toy, decay):
    # Stiffness 0 in x's place keeps gradients constant: h (w − x) with tiny steps is about −h x.
    rows = {"a": toy.springs([[3.0, -1.0]], h=1e-4), "b": toy.springs([[1.0, 1.0]], h=1e-4)}
    local = toy.plain.__class__(**{**vars(toy.plain), "epochs": 3, "decay": decay})
    made = toy.federation(rows, rounds=2, strategy=Scaffold(), local=local)
    toy.run_rounds([made])
    np.testing.assert_allclose(made.sites["a"].control, [-3e-4, 1e-4], rtol=1e-3)
    np.testing.assert_allclose(made.coordinator.state["control"], [-2e-4, 0], rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"optimizer": "adam"}, "plain steps"),
        ({"moments": "keep"}, "plain steps"),
        ({"momentum": 0.9}, "momentum 0, got 'sgd', 'reset' and 0.9"),
    ],
)
def test_scaffold_refuses_steps_whose_gradients_it_could_not_tell(toy, change, words):
    local = toy.plain.__class__(**{**vars(toy.plain), **change})
    with pytest.raises(SettingError, match=words):
        toy.federation(strategy=Scaffold(), local=local)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FedProx(proximal=-1), "proximal must be at least 0, got -1"),
        (lambda: FedAdam(tau=0), "tau must be above 0, got 0"),
        (lambda: FedYogi(second=1.0), "second must be in"),
        (
            lambda: make_strategy("fedsomething"),
            "there is no strategy 'fedsomething'; did you mean|there is",
        ),
    ],
)
def test_bad_settings(make, words):
    with pytest.raises(SettingError, match=words):
        make()


def test_strategies_and_models_of_installed_packages_are_named_in_orders(monkeypatch):
    for registry, target in ((STRATEGIES, "FedAvg"), (LEARNERS, "CompletionNet")):
        point = EntryPoint("theirs", f"cofill.federate:{target}", registry.group)
        monkeypatch.setitem(registry._plugins, "theirs", point)
    settings = {"model": "theirs", "strategy": {"name": "theirs", "by_rows": False}}
    members = Membership({"a": ("x",), "b": ("x",), "c": ("x",)}, ("x",))
    design = FederatedProtocol.from_settings(settings, members).design
    assert design.strategy == FedAvg(by_rows=False)
    assert design.model is CompletionNet
