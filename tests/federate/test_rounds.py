"""Rounds: what a federation computes, who takes part, what is written down."""

from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from cofill.errors import DataError, SettingError
from cofill.federate import (
    CompletionNet,
    FedAvg,
    LocalSettings,
    LocalWork,
    RoundSettings,
    Rows,
    Shape,
    plan_batches,
    train_sites,
)
from cofill.federate._learner import Batch, initial_weights
from cofill.nets import round_up

THREE = CompletionNet(Shape(("a", "b", "c"), (2, 3, 2)), width=6, blocks=0)
TWO = CompletionNet(Shape(("a", "b"), (2, 2)), width=4, blocks=1)


def rows(learner, n, seed=0, share=0.7) -> Rows:
    """Rows of which some modalities are missing."""
    rng = np.random.default_rng(seed)
    shape = learner.shape
    present = rng.random((n, shape.count)) < share
    present[np.arange(n), rng.integers(shape.count, size=n)] = True
    known = present[:, shape.owner] & (rng.random((n, shape.size)) < 0.9)
    cells = np.where(known, rng.normal(size=(n, shape.size)), 0).astype(np.float32)
    return Rows(cells, known, present)


def ends(made) -> np.ndarray:
    return made.coordinator.weights


def test_sites_as_a_batch_and_one_after_another_give_the_same():
    phase, settings = THREE.phases[-1], LocalSettings(batch=4, learning_rate=0.01)
    start = initial_weights(THREE, jax.random.key(0))
    work = []
    for k in range(3):
        table = rows(THREE, 9 + 5 * k, seed=k)
        plan = plan_batches(table, phase, settings, 2, [k])
        work.append(LocalWork(start, None, table, plan, jax.random.key(k)))
    batch = train_sites(THREE, phase, settings, work)
    for site, trained in zip(work, batch, strict=True):
        (alone,) = train_sites(THREE, phase, settings, [site])
        assert np.abs(trained.weights - start).max() > 1e-2
        np.testing.assert_allclose(trained.weights, alone.weights, rtol=1e-5, atol=1e-6)


def test_one_site_with_all_rows_is_plain_training(toy):
    held = rows(TWO, 12, share=0.8)
    made = toy.encoded(
        {"all": held},
        TWO,
        local=LocalSettings(batch=64, learning_rate=0.05),
        settings=RoundSettings(rounds=5, secure=False),
    )
    toy.run_rounds([made])
    # By hand: one step an epoch over all rows with several modalities, Adam, a cosine.
    own = held.positions("several")
    batch = Batch(
        *(jnp.asarray(a[own], jnp.float32) for a in (held.cells, held.known, held.present)),
        jnp.ones(len(own)),
    )
    params = TWO.init(jax.random.key(0))
    adam = optax.scale_by_adam()
    state = adam.init(params)
    descent = jax.jit(
        jax.grad(
            lambda p: TWO.loss("rounds", p, {"several": batch}, jax.random.key(0)), has_aux=True
        )
    )
    for k in range(5):
        slope, _ = descent(params)
        move, state = adam.update(slope, state)
        rate = 0.05 * 0.5 * (1 + np.cos(np.pi * k / 5))
        params = jax.tree.map(lambda p, m, r=rate: p - r * m, params, move)
    np.testing.assert_allclose(ends(made), ravel_pytree(params)[0], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_the_order_of_sites_does_not_matter(toy, participation):
    held = toy.sites(6)
    turned = {name: held[name] for name in reversed(held)}
    one, other = (toy.federation(h, rounds=4, participation=participation) for h in (held, turned))
    toy.run_rounds([one])
    toy.run_rounds([other])
    np.testing.assert_array_equal(ends(one), ends(other))
    assert one.coordinator.invited == other.coordinator.invited


def test_the_order_of_rows_does_not_matter_where_batches_take_them_all(toy):
    held = toy.sites(3)
    order = np.random.default_rng(1).permutation(4)
    mixed = {
        n: Rows(*(a[order[order < len(r)]] for a in vars(r).values())) for n, r in held.items()
    }
    one, other = toy.federation(held), toy.federation(mixed)
    toy.run_rounds([one])
    toy.run_rounds([other])
    np.testing.assert_allclose(ends(one), ends(other), rtol=1e-6)


def test_who_takes_part_is_drawn_by_the_seed_and_the_absent_are_named(toy):
    def run(seed):
        made = toy.federation(
            toy.sites(8), rounds=6, participation=0.5, dropout=0.4, seed=seed, min_sites=1
        )
        toy.run_rounds([made])
        sent = [(e.sender, e.receiver) for e in made.ledger]
        return made, sent

    (one, sent), (again, same), (_, differs) = run(0), run(0), run(1)
    np.testing.assert_array_equal(ends(one), ends(again))
    assert sent == same
    assert sent != differs
    letters = Counter(receiver for sender, receiver in sent if sender == "coordinator")
    assert sum(letters.values()) == 6 * 4
    assert len(letters) > 4  # not always the same
    answered = Counter(sender for sender, _ in sent if sender != "coordinator")
    assert sum(answered.values()) < 24
    assert [entry["sites"] for entry in one.coordinator.curve] != [4] * 6
    silent = {name for name in letters if answered[name] < letters[name]}
    named = {
        name for name in letters if any(f"{name!r} did not" in n for n in one.coordinator.notes)
    }
    assert named == silent


def test_too_few_answers_end_the_round_and_nothing_is_lost(toy):
    made = toy.federation(toy.sites(3), rounds=8, min_sites=3, dropout=0.3)
    with pytest.raises(
        DataError, match=r"of 3 sites gave a sound answer, and min_sites is 3; .*'s"
    ):
        toy.run_rounds([made])
    done = made.coordinator.round - 1
    assert len(made.coordinator.curve) == done
    assert sum(e.kind == "update" for e in made.ledger) == 3 * done
    assert np.isfinite(ends(made)).all()


def test_a_cohort_is_never_smaller_than_min_sites(toy):
    made = toy.federation(toy.sites(6), rounds=1, participation=0.01, min_sites=4)
    toy.run_rounds([made])
    assert len(made.coordinator.invited) == 4
    with pytest.raises(
        SettingError, match="min_sites must be at most the number of sites, 2, got 3"
    ):
        toy.federation(toy.sites(2), min_sites=3)


def test_a_site_with_nothing_to_teach_is_named_and_the_others_go_on(toy):
    held = toy.sites(2)
    alone = held["s0"]
    one = Rows(alone.cells, alone.known, alone.present & [True, False])
    made, without = toy.federation({**held, "single": one}), toy.federation(held)
    toy.run_rounds([made])
    toy.run_rounds([without])
    np.testing.assert_array_equal(ends(made), ends(without))
    assert made.coordinator.notes == (
        "round 1: site 'single' has no individual that this model can learn from; left out",
    )


@pytest.mark.parametrize("secure", [False, True])
def test_nobody_with_several_modalities_is_said_in_the_first_round(toy, secure):
    rows = toy.sites(1)["s0"]
    single = Rows(rows.cells, rows.known, rows.present & [True, False])
    made = toy.federation(dict.fromkeys("abc", single), secure=secure)
    with pytest.raises(DataError, match="no site has an individual with more than one modality"):
        toy.run_rounds([made])


def test_a_site_weighs_as_many_rows_as_it_was_trained_on(toy):
    few = toy.springs([[3.0, 3.0]] * 9)
    present = few.present.copy()
    present[1:, 1] = False  # eight individuals that teach nothing
    held = {"few": Rows(few.cells, few.known, present), "one": toy.springs([[0.0, 0.0]])}
    made = toy.federation(held, rounds=1, strategy=FedAvg())
    toy.run_rounds([made])
    np.testing.assert_allclose(ends(made), [0.75, 0.75])
    assert [e.individuals for e in made.ledger if e.kind == "update"] == [1, 1]


def test_what_a_run_sends_is_models_and_updates_and_all_of_it_is_in_the_ledger(toy):
    made = toy.federation(toy.sites(3), rounds=4)
    toy.run_rounds([made])
    assert Counter((e.step, e.kind) for e in made.ledger) == {
        ("invite", "model"): 12,
        ("train", "update"): 12,
    }
    assert made.ledger.verify() is None
    for entry in made.ledger:
        assert entry.epsilon is None  # nothing here is protected, and nothing says so
        if entry.kind == "update":
            assert set(entry.facts) == {"round", "size", "loss", "twice"}
            assert entry.individuals == len(made.sites[entry.sender].rows)
            assert entry.bytes == 2 * 4 + 2 * 8


def test_curves_are_means_by_rows(toy):
    rows = {"a": toy.springs([[2.0, 0.0]] * 3), "b": toy.springs([[0.0, 4.0]])}
    made = toy.federation(rows, rounds=1)
    toy.run_rounds([made])
    (entry,) = made.coordinator.curve
    assert entry == pytest.approx({"round": 1, "sites": 2, "loss": 3.5, "twice": 7.0})


def test_federations_of_other_settings_run_as_one_as_each_alone(toy):
    slow = replace(toy.plain, learning_rate=0.1)
    together = [toy.federation(), toy.federation(local=slow), toy.federation(seed=3)]
    alone = [toy.federation(), toy.federation(local=slow), toy.federation(seed=3)]
    toy.run_rounds(together)
    for one, other in zip(together, alone, strict=True):
        toy.run_rounds([other])
        np.testing.assert_allclose(ends(one), ends(other), rtol=1e-6)
    assert np.abs(ends(together[0]) - ends(together[1])).max() > 0.1


def test_a_federation_that_is_behind_catches_up(toy):
    done = toy.federation(rounds=3)
    toy.run_rounds([done])
    ahead, behind = toy.federation(rounds=3), toy.federation(rounds=3)
    toy.run_rounds([ahead], until=2)
    ended = []
    toy.run_rounds([ahead, behind], after=ended.append)
    assert ended == [1, 2, 3]
    for one in (ahead, behind):
        np.testing.assert_array_equal(ends(one), ends(done))
        assert len(one.coordinator.curve) == 3


def test_moments_stay_at_a_site_only_where_they_are_kept(toy):
    for moments in ("keep", "reset"):
        local = LocalSettings(batch=8, moments=moments)
        made = toy.federation(rounds=2, local=local)
        toy.run_rounds([made])
        kept = [site.moments is not None for site in made.sites.values()]
        assert kept == [moments == "keep"] * 4


def test_a_site_that_diverged_is_named_and_is_back_in_the_next_round(toy):
    held = toy.sites(3)
    good = toy.federation(held, rounds=2, local=LocalSettings(batch=8))
    bad = {**held, "bad": toy.springs([[1e10, 1e10]], h=1e35)}
    made = toy.federation(bad, rounds=2, local=LocalSettings(batch=8))
    toy.run_rounds([good])
    toy.run_rounds([made])
    np.testing.assert_array_equal(ends(made), ends(good))
    assert made.sites["bad"].moments is None
    (note,) = made.coordinator.notes
    assert note == "round 1: site 'bad' sent a change with 2 numbers not finite; left out"
    assert all(np.isfinite(v) for e in made.coordinator.curve for v in e.values())


def test_settings_are_checked_hashable_and_the_callers_dictionary_stays_theirs():
    own = {"autoencoder": 1}
    settings = RoundSettings(pretrain=own)
    own["autoencoder"] = 7
    assert settings.pretrain == {"autoencoder": 1}
    assert len({settings, RoundSettings(pretrain={"autoencoder": 1})}) == 1
    for wrong, words in (
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"participation": 0.0}, "participation must be in"),
        ({"dropout": 1.0}, "dropout must be in"),
        ({"pretrain": {"cycle": -1}}, "pretrain must hold epochs of at least 0"),
    ):
        with pytest.raises(SettingError, match=words):
            RoundSettings(**wrong)


def test_sizes_are_rounded_to_few_and_near_ones():
    counts = range(1, 5000)
    assert all(n <= round_up(n) <= 1.125 * n for n in counts)
    assert len({round_up(n) for n in counts}) < 90
