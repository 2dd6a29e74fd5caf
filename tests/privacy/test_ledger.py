"""The chain of the ledger and its file; the budgets that the gate keeps."""

import json
from dataclasses import replace

import numpy as np
import pytest

from cofill.errors import SettingError, StoreError
from cofill.privacy import (
    BlindedIds,
    Box,
    Budget,
    ComposedEvent,
    Gate,
    GaussianEvent,
    GroupSums,
    LaplaceEvent,
    Ledger,
    MeanDefence,
    ModelWeights,
    NoisyMean,
    PublicKeys,
    SampledGaussianEvent,
    SiteNoise,
    Update,
    blind,
    epsilon,
)
from cofill.privacy._accounting import rough_epsilon

ROWS = np.random.default_rng(0).uniform(size=(200, 3))


def mean(sender="clinic", receiver="coordinator", eps=0.5) -> NoisyMean:
    return MeanDefence(Box(0.0, 1.0), eps, 0.0, "laplace").release(
        ROWS, sender=sender, receiver=receiver
    )


def ids(sender="clinic") -> BlindedIds:
    tokens = blind(np.arange(3), b"k")
    return BlindedIds(sender=sender, receiver="bank", tokens=tokens, purpose="present")


def update(event=None, **more) -> Update:
    change = np.random.default_rng().normal(size=4)
    return Update(
        sender="clinic", receiver="coordinator", round=1, change=change, rows=9, event=event, **more
    )


def some_ledger() -> Ledger:
    gate = Gate(Ledger())
    sampled = SampledGaussianEvent(5.0, rate=0.01, steps=10)
    for step, release in enumerate(
        (ids(), mean(), update(ComposedEvent((sampled, GaussianEvent(30.0)))), mean("bank"), ids())
    ):
        gate.pass_on(release, f"step {step}")
    return gate.ledger


# --- the chain --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 3, 5])
@pytest.mark.parametrize(
    "change",
    [
        {"step": "other"},
        {"kind": "codes"},
        {"sender": "x"},
        {"receiver": "x"},
        {"individuals": 7},
        {"bytes": 1},
        {"epsilon": 0.001},
        {"delta": 0.5},
        {"facts": {"purpose": "other"}},
        {"event": LaplaceEvent(1e6)},
        {"digest": "00"},
        {"chain": "00"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_entry_is_found(number, change):
    entries = list(some_ledger())
    assert Ledger(entries).verify() is None
    entries[number - 1] = replace(entries[number - 1], **change)
    assert Ledger(entries).verify() == number


def test_a_removed_or_moved_entry_is_found_and_a_cut_end_by_its_head():
    ledger = some_ledger()
    entries = list(ledger)
    assert Ledger(entries[:2] + entries[3:]).verify() == 3
    assert Ledger(entries[1:]).verify() == 1
    assert Ledger([entries[1], entries[0], *entries[2:]]).verify() == 1
    assert Ledger([*entries, entries[-1]]).verify() == 6
    assert Ledger(entries[:3]).verify() is None
    assert Ledger(entries[:3]).verify(ledger.head) == 4
    assert ledger.verify(ledger.head) is None
    assert Ledger().verify() is None
    assert Ledger().verify(ledger.head) == 1


def test_copies_go_on_with_the_same_chain():
    ledger = some_ledger()
    copy = Ledger(list(ledger))
    for each in (ledger, copy):
        Gate(each).pass_on(ids(), "more")
        assert each.verify() is None
    assert copy.head == ledger.head
    assert len({e.chain for e in ledger}) == len(ledger)


# --- the file ---------------------------------------------------------------------------------


def test_a_ledger_is_the_same_after_a_file_and_only_grows(tmp_path):
    ledger, path = some_ledger(), tmp_path / "ledger.jsonl"
    ledger.save(path)
    first = path.read_bytes()
    read = Ledger.load(path)
    assert list(read) == list(ledger)
    assert read.head == ledger.head
    Gate(read).pass_on(ids(), "more")
    read.save(path)
    read.save(path)
    assert path.read_bytes().startswith(first)
    assert len(path.read_text().splitlines()) == len(ledger) + 1
    assert Ledger.load(path).head == read.head


def test_an_empty_ledger_has_an_empty_file(tmp_path):
    Ledger().save(tmp_path / "ledger")
    assert len(Ledger.load(tmp_path / "ledger")) == 0


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda lines: [*lines[:-1], lines[-1][:-20]], "line 5: the last line is only half"),
        (lambda lines: [*lines[:-1], lines[-1][:-1]], "line 5: the last line is only half"),
        (lambda lines: [*lines[:1], *lines[2:]], "line 2: the entry was changed, or one before"),
        (lambda lines: [lines[1], *lines[1:]], "line 1: the entry was changed"),
        (lambda lines: [*lines[:3], lines[3].replace("0.5", "0.4"), lines[4]], "line 4: the entry"),
        (lambda lines: [lines[0], "{}\n", *lines[2:]], "line 2: this is no entry"),
        (lambda lines: [lines[0], "[]\n", *lines[2:]], "line 2: this is no entry"),
        (lambda lines: [lines[0], "\n", *lines[2:]], "line 2: this is no entry"),
        (lambda lines: [lines[0].replace('"step":', '"stop":'), *lines[1:]], "line 1: this is no"),
        (lambda lines: [lines[0], lines[1].replace("laplace", "magic"), *lines[2:]], "line 2"),
    ],
)
def test_a_damaged_file_is_reported_with_its_line_and_left_alone(tmp_path, damage, words):
    ledger, path = some_ledger(), tmp_path / "ledger.jsonl"
    ledger.save(path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(damage(lines)))
    damaged = path.read_bytes()
    for use in (Ledger.load, ledger.save):
        with pytest.raises(StoreError, match=words):
            use(path)
    assert path.read_bytes() == damaged


def test_another_federations_file_is_not_written_to(tmp_path):
    path = tmp_path / "ledger.jsonl"
    some_ledger().save(path)
    for other in (some_ledger(), Ledger()):
        with pytest.raises(StoreError, match="another federation or more entries"):
            other.save(path)
    with pytest.raises(StoreError, match="must be a readable ledger"):
        Ledger.load(tmp_path / "nothing")


def test_numpy_figures_in_facts_are_kept_as_numbers(tmp_path):
    gate, path = Gate(Ledger()), tmp_path / "ledger"
    gate.pass_on(update(metrics={"loss": float(np.float32(0.1))}), "go")
    gate.ledger.write(replace(next(iter(gate.ledger)), facts={"loss": np.float32(0.25)}))
    gate.ledger.save(path)
    assert [e.facts["loss"] for e in Ledger.load(path)][1] == 0.25
    with pytest.raises(TypeError, match="plain figures"):
        gate.ledger.write(replace(next(iter(gate.ledger)), facts={"rows": np.ones(3)}))


def test_the_file_shows_no_value_of_a_mean():
    noisy = mean()
    gate = Gate(Ledger())
    gate.pass_on(noisy, "send")
    shown = json.dumps(gate.ledger.to_list())
    assert not any(str(value)[:10] in shown for value in (*noisy.mean, *ROWS.mean(axis=0)))


# --- what is written --------------------------------------------------------------------------


def test_a_release_is_written_with_its_cost_or_with_none():
    gate = Gate(Ledger(), {"clinic": Budget(9.0, 1e-6)})
    noisy = MeanDefence(Box(0.0, 1.0), 1.0).release(ROWS, sender="clinic", receiver="bank")
    for release in (noisy, ids(), update(), update(GaussianEvent(3.0), metrics={"loss": 0.1})):
        gate.pass_on(release, "send")
    costs = [(e.epsilon, e.delta) for e in gate.ledger]
    assert costs[0] == (epsilon(noisy.event, 1e-6), 1e-6)
    # Figures without noise beside the noised vector: no guarantee for the whole.
    assert costs[1:] == [(None, None)] * 3
    assert [e.event for e in gate.ledger][3] == GaussianEvent(3.0)


def test_without_a_budget_the_cost_is_written_at_a_usual_delta():
    gate = Gate(Ledger())
    gate.pass_on(mean(eps=0.5), "send")
    (entry,) = gate.ledger
    assert (entry.delta, round(entry.epsilon, 3)) == (1e-5, 0.5)
    assert gate.spent("clinic") == pytest.approx(0.5, abs=1e-3)
    assert gate.spent("clinic", delta=0) == pytest.approx(0.5)
    assert gate.spent("nobody") == 0.0


# --- budgets ----------------------------------------------------------------------------------


def test_a_budget_is_spent_to_its_end_and_not_beyond():
    gate = Gate(Ledger(), {"clinic": Budget(1.0, 0.0)})
    gate.pass_on(mean(eps=0.5), "one")
    gate.pass_on(mean(eps=0.5), "two")
    assert gate.spent("clinic") == pytest.approx(1.0)
    with pytest.raises(SettingError) as caught:
        gate.pass_on(mean(eps=0.01), "three")
    assert str(caught.value) == (
        "step 'three': noisy-mean from 'clinic' to 'coordinator' is refused, because it would "
        "bring what the site has spent to ε = 1.01 of 1 at δ = 0 (so far: 1 on 2 noisy-mean); "
        "release less, add more noise or raise the budget"
    )
    assert [e.step for e in gate.ledger] == ["one", "two"]
    # Other sites hold other people, and what costs nothing still passes.
    gate.pass_on(mean("bank", eps=5.0), "three")
    gate.pass_on(ids(), "three")


def test_the_first_release_can_be_too_much():
    gate = Gate(Ledger(), {"clinic": Budget(1.0, 1e-5)})
    with pytest.raises(SettingError, match=r"so far: nothing"):
        gate.pass_on(mean(eps=1.5), "one")
    gaussian_ = GaussianEvent(10.0)
    with pytest.raises(SettingError, match="ε = inf of 1 at δ = 0"):
        Gate(Ledger(), {"clinic": Budget(1.0, 0.0)}).pass_on(update(gaussian_), "one")


def test_releases_of_many_kinds_compose():
    event = SampledGaussianEvent(4.0, rate=0.05, steps=20)
    sums = GroupSums(
        sender="clinic",
        receiver="coordinator",
        round=0,
        sums=np.ones((2, 3)),
        counts=np.ones(2),
        event=GaussianEvent(8.0, neighbours="add or remove one"),
    )
    gate = Gate(Ledger(), {"clinic": Budget(5.0, 1e-5)})
    for release in (update(event), sums, mean(eps=0.3), update(event)):
        gate.pass_on(release, "go")
    events = [event, event, sums.event, LaplaceEvent(1 / 0.3)]
    expected = epsilon(events, 1e-5, neighbours="replace one")
    assert gate.spent("clinic") == pytest.approx(expected, rel=1e-6)


def test_the_tight_accountant_has_the_last_word():
    event = SampledGaussianEvent(4.0, rate=0.05, steps=100)
    tight = epsilon(event, 1e-5)
    fast = rough_epsilon([event], 1e-5, neighbours="add or remove one", unit="record")
    assert tight < fast
    for limit, passes in ((fast * 1.01, True), ((tight + fast) / 2, True), (tight * 0.99, False)):
        gate = Gate(Ledger(), {"clinic": Budget(limit, 1e-5, neighbours="add or remove one")})
        if passes:
            gate.pass_on(update(event), "go")
        else:
            with pytest.raises(SettingError, match="is refused"):
                gate.pass_on(update(event), "go")
        assert len(gate.ledger) == passes


def test_the_very_same_values_cost_once():
    gate = Gate(Ledger(), {"clinic": Budget(0.6, 0.0)})
    noisy = mean(eps=0.5)
    gate.pass_on(noisy, "send")
    gate.pass_on(replace(noisy, receiver="bank"), "send")
    assert gate.spent("clinic") == pytest.approx(0.5)
    with pytest.raises(SettingError, match="is refused"):
        gate.pass_on(replace(noisy, mean=noisy.mean + 1e-12), "send")


def test_a_budget_goes_on_after_a_file(tmp_path):
    gate = Gate(Ledger(), {"clinic": Budget(1.0, 0.0)})
    gate.pass_on(mean(eps=0.8), "send")
    gate.ledger.save(tmp_path / "ledger")
    later = Gate(Ledger.load(tmp_path / "ledger"), gate.budgets)
    assert later.spent("clinic") == pytest.approx(0.8)
    with pytest.raises(SettingError, match="is refused"):
        later.pass_on(mean(eps=0.3), "send")


@pytest.mark.parametrize(
    ("release", "words"),
    [
        (ids(), "it has no guarantee"),
        (update(), "it has no guarantee"),
        (update(GaussianEvent(50.0), metrics={"loss": 0.1}), "its figures loss have no guarantee"),
    ],
)
def test_a_site_can_send_only_what_carries_a_guarantee(release, words):
    gate = Gate(Ledger(), {"clinic": Budget(1.0, only_guaranteed=True)})
    with pytest.raises(SettingError, match=words):
        gate.pass_on(release, "send")
    assert len(gate.ledger) == 0
    gate.pass_on(update(GaussianEvent(50.0)), "send")
    # Keys are made from nobody's records, and other sites have made other choices.
    keys = PublicKeys(sender="clinic", receiver="c", round=0, seal_key=b"a", mask_key=b"b")
    gate.pass_on(keys, "send")
    gate.pass_on(ids("bank"), "send")
    weights = ModelWeights(sender="coordinator", receiver="clinic", round=0, weights=np.ones(2))
    gate.pass_on(weights, "send")


def test_what_a_budget_hides_must_be_what_the_noise_hides():
    gate = Gate(Ledger(), {"clinic": Budget(9.0, neighbours="add or remove one")})
    with pytest.raises(SettingError, match="neighbours must be 'replace one'"):
        gate.pass_on(mean(), "send")
    assert len(gate.ledger) == 0
    gate = Gate(Ledger(), {"clinic": Budget(9.0, unit="site")})
    with pytest.raises(SettingError, match="unit must be 'record'"):
        gate.pass_on(mean(), "send")
    gate.pass_on(update(SiteNoise(1.0, 4.0, sites=3).event()), "send")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": float("nan")}, "epsilon must be"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must be"),
        ({"epsilon": 1.0, "delta": -1e-5}, "delta must be"),
    ],
)
def test_wrong_budgets_are_named(settings, words):
    with pytest.raises(SettingError, match=words):
        Budget(**settings)
