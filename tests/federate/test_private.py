"""DP-SGD inside a site: what its updates cost, what they must not carry, where noise comes from."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.errors import SettingError
from cofill.federate import (
    VIGAN,
    CompletionNet,
    Design,
    FedAvg,
    LocalSettings,
    RoundSettings,
    Shape,
)
from cofill.federate._local import plan_batches
from cofill.nets import DPSettings
from cofill.privacy import Budget, SiteNoise, epsilon, sgd_event
from cofill.protocol import run_steps

QUIET = DPSettings(clip_norm=0.5, noise_multiplier=1e-5)
LOUD = DPSettings(clip_norm=0.5, noise_multiplier=2.0)


def private(toy, dp, **more) -> LocalSettings:
    return replace(toy.plain, dp=dp, **more)


def updates(toy, made):
    seen = []
    run_steps(toy.tampered(lambda out: seen.extend(out) or out), [made])
    return {update.sender: update for update in seen}


def test_gradients_are_clipped_row_by_row(toy):
    # A batch as large as the site draws every row in every step, so that nothing is left to chance.
    rows = {"a": toy.springs([[3.0, 4.0], [0.3, 0.0]])}
    made = toy.federation(rows, local=private(toy, QUIET))
    change = updates(toy, made)["a"].change
    # Gradients −(3, 4) and −(0.3, 0): the first is cut to a norm of 0.5, the mean is of two rows.
    np.testing.assert_allclose(change, 0.5 * np.array([0.3 + 0.3, 0.4]) / 2, atol=1e-5)


def test_an_update_carries_the_event_of_its_steps_and_no_figures(toy):
    held = {"a": toy.springs(np.ones((40, 2))), "b": toy.springs(np.ones((5, 2)))}
    made = toy.federation(held, local=private(toy, LOUD, batch=10, epochs=3))
    sent = updates(toy, made)
    assert sent["a"].event.parts() == (sgd_event(2.0, rate=0.25, steps=12, rows=40),)
    assert sent["b"].event.parts() == (sgd_event(2.0, rate=1.0, steps=3, rows=5),)
    assert sent["a"].metrics == {}
    assert sent["a"].uncovered == ()
    entry = next(e for e in made.ledger if e.sender == "a")
    assert entry.epsilon == pytest.approx(epsilon(sent["a"].event, 1e-5))
    assert made.coordinator.curve[0] == {"round": 1, "sites": 2}


def test_without_noise_there_is_clipping_and_no_guarantee(toy):
    made = toy.federation(local=private(toy, DPSettings(clip_norm=0.5, noise_multiplier=0.0)))
    assert all(update.event is None for update in updates(toy, made).values())


def test_a_step_that_draws_nobody_has_its_noise_all_the_same(toy):
    local = private(toy, LOUD, batch=1)
    site = toy.federation({"a": toy.springs(np.zeros((3, 2)))}, local=local).sites["a"]
    phase = site.learner.phases[-1]
    for secret in range(99):  # one in which every step of the round draws an empty sample
        quiet = replace(site, secret=secret)
        drawn = plan_batches(quiet.rows, phase, local, 1, quiet.stream(1, 0))
        if drawn.steps == 3 and (drawn.positions["complete"] < 0).all():
            break
    else:
        pytest.fail("no empty samples")
    made = toy.federation({"a": site.rows}, local=local)
    made.sites["a"] = quiet
    assert np.abs(updates(toy, made)["a"].change).min() > 1e-3


def test_noise_is_of_the_size_that_the_event_says(toy):
    # All rows at the optimum: what moves is noise, of 2.0 · 0.5 over four rows, times 0.5 a step.
    held = {f"s{k}": toy.springs(np.zeros((4, 2))) for k in range(100)}
    made = toy.federation(held, local=private(toy, LOUD, batch=4))
    moved = np.stack([update.change for update in updates(toy, made).values()])
    assert np.std(moved) == pytest.approx(0.5 * 1.0 / 4, rel=0.25)
    # Every site draws its own; of a grid's few hundred values two sites may share one.
    assert len(np.unique(moved, axis=0)) == len(moved)


def test_noise_does_not_follow_from_the_seed_that_everybody_knows(toy):
    changes = []
    for _ in range(2):
        made = toy.federation(local=private(toy, LOUD), seed=5)
        changes.append(updates(toy, made)["s0"].change)
    assert (changes[0] != changes[1]).all()
    plain = [updates(toy, toy.federation(seed=5))["s0"].change for _ in range(2)]
    np.testing.assert_array_equal(*plain)


def test_a_budget_is_kept_by_the_gate(toy):
    held = {"a": toy.springs(np.ones((40, 2))), "b": toy.springs(np.ones((40, 2)))}
    local = private(toy, LOUD, batch=40)
    event = sgd_event(2.0, rate=1.0, steps=1, rows=40)
    enough = epsilon([event, event], 1e-5, neighbours="replace one", unit="record")
    budgets = {"b": Budget(enough * 1.01, only_guaranteed=True)}
    made = toy.federation(held, local=local, rounds=5, budgets=budgets)
    with pytest.raises(SettingError, match=r"step 'train': update from 'b' .* is refused"):
        toy.run_rounds([made])
    assert made.coordinator.round == 3  # two rounds were within it


def test_private_sites_in_a_secure_sum_keep_their_events(toy):
    made = toy.federation(local=private(toy, LOUD, batch=8), secure=True, rounds=1)
    toy.run_rounds([made])
    masked = [e for e in made.ledger if e.kind == "masked-vector"]
    assert len(masked) == 4
    for entry in masked:
        rows = len(made.sites[entry.sender].rows)
        assert entry.event.parts() == (sgd_event(2.0, rate=1.0, steps=1, rows=rows),)
    assert made.coordinator.curve[0] == {"round": 1, "sites": 4}


def test_what_cannot_be_private_is_said_before_training(toy):
    def make_learner(model, network=None, **settings):
        design = Design(
            model, network or {}, private(toy, LOUD), RoundSettings(**settings), FedAvg()
        )
        return design.make_learner(shape)

    shape = Shape(("x", "y"), (2, 2))
    for model, network in ((CompletionNet, {"width": 2, "blocks": 0, "cycle": 1.0}), (VIGAN, {})):
        with pytest.raises(
            SettingError, match="dp must be None for a phase that draws from several"
        ):
            make_learner(model, network)
    make_learner(VIGAN, pretrain={"autoencoder": 1, "cycle": 0})
    noise = SiteNoise(clip=1.0, noise_multiplier=1.0, sites=1)
    with pytest.raises(SettingError, match=r"dp of a site's training and site_noise .* choose one"):
        make_learner(toy.Spring, site_noise=noise)
