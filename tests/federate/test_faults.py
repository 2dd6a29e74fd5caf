"""What sites may send that is wrong: refused, named, and the round goes on with the others."""

import re
from dataclasses import replace

import numpy as np
import pytest

from cofill.errors import DataError
from cofill.federate import Scaffold
from cofill.privacy import RunFigures, Update
from cofill.protocol import run_steps


def with_change(change):
    return lambda update: [replace(update, change=change(update.change))]


def of_s1(change):
    """Return what the sites send with the second site's update changed."""

    def tamper(outbox):
        return [n for r in outbox for n in (change(r) if r.sender == "s1" else [r])]

    return tamper


FAULTS = {
    "nan": (with_change(lambda c: c * np.nan), "sent a change with 2 numbers not finite"),
    "inf": (with_change(lambda c: c + np.float32([np.inf, 0])), "with 1 numbers not finite"),
    "wrong shape": (with_change(lambda c: np.zeros(3, np.float32)), r"of shape \(3,\) for \(2,\)"),
    "wrong axes": (with_change(lambda c: c[:, None]), r"of shape \(2, 1\) for \(2,\)"),
    "wrong type": (with_change(lambda c: c.astype(np.int64)), "type int64, not of real numbers"),
    "wrong round": (lambda u: [replace(u, round=7)], "answered another round"),
    "rows below 0": (lambda u: [replace(u, rows=-5)], "says that it has -5 individuals"),
    "no rows": (lambda u: [replace(u, rows=0)], "has no individual that this model"),
    "nothing": (lambda u: [], "did not answer"),
    "something else": (
        lambda u: [RunFigures(sender=u.sender, receiver=u.receiver, rows=1, figures={})],
        "sent figures where update was due",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_answer_is_named_and_left_out(toy, name):
    change, words = FAULTS[name]
    held = toy.sites(3)
    made = toy.federation(held)
    run_steps(toy.tampered(of_s1(change)), [made])
    without = toy.federation({n: r for n, r in held.items() if n != "s1"})
    run_steps(toy.tampered(list), [without])
    np.testing.assert_array_equal(made.coordinator.weights, without.coordinator.weights)
    (note,) = made.coordinator.notes
    assert note.startswith("round 1: site 's1' ")
    assert re.search(words, note)
    assert made.coordinator.round == 2
    assert made.coordinator.curve[0]["sites"] == 2


def test_a_second_answer_does_not_count(toy):
    made, plain = toy.federation(), toy.federation()
    twice = of_s1(lambda u: [u, replace(u, change=u.change + 100)])
    run_steps(toy.tampered(twice), [made])
    run_steps(toy.tampered(list), [plain])
    np.testing.assert_array_equal(made.coordinator.weights, plain.coordinator.weights)
    assert made.coordinator.notes == ("round 1: site 's1' answered twice; the first answer counts",)


def test_an_uninvited_answer_does_not_count(toy):
    def run(tamper):
        made = toy.federation(toy.sites(4), participation=0.5)
        run_steps(toy.tampered(tamper), [made])
        return made

    plain = run(list)
    invited = plain.coordinator.invited
    absent = next(n for n in plain.sites if n not in invited)
    base = toy.tampered(list)

    def loud(sites, inboxes, report_progress):
        made = base[1].run(sites, inboxes, report_progress)
        shout = Update(
            sender=absent,
            receiver="coordinator",
            round=1,
            change=np.full(2, 9, np.float32),
            rows=99,
        )
        return [(s, [shout] if s.name == absent else out) for s, out in made]

    made = toy.federation(toy.sites(4), participation=0.5)
    run_steps([base[0], replace(base[1], run=loud), base[2]], [made])
    np.testing.assert_array_equal(made.coordinator.weights, plain.coordinator.weights)
    assert made.coordinator.notes == (f"round 1: site {absent!r} was not invited; left out",)


def test_figures_that_are_no_numbers_do_not_reach_the_curve(toy):
    made = toy.federation()
    odd = of_s1(lambda u: [replace(u, metrics={"loss": float("nan")})])
    run_steps(toy.tampered(odd), [made])
    assert set(made.coordinator.curve[0]) == {"round", "sites", "loss", "twice"}
    assert all(np.isfinite(v) for v in made.coordinator.curve[0].values())


def test_a_missing_control_is_named(toy):
    made = toy.federation(strategy=Scaffold())
    run_steps(toy.tampered(of_s1(lambda u: [replace(u, extras={})])), [made])
    assert made.coordinator.notes == ("round 1: site 's1' sent no control; left out",)


def test_all_answers_bad_ends_the_run_and_the_federation_is_as_it_was(toy):
    made = toy.federation(rounds=3)
    before, party = made.sites["s0"], made.coordinator
    with pytest.raises(DataError, match=r"0 of 4 sites gave a sound answer.*'s0' sent a change"):
        run_steps(
            toy.tampered(lambda out: [replace(u, change=u.change * np.nan) for u in out]), [made]
        )
    assert made.coordinator is party
    assert made.sites["s0"] is before
    assert len(made.ledger) == 0
    toy.run_rounds([made])
    assert made.coordinator.round == 4


def test_finite_answers_that_make_no_finite_model_are_refused(toy):
    made = toy.federation(strategy=Scaffold(learning_rate=1e39))
    weights = made.coordinator.weights
    with pytest.raises(DataError, match=r"round 1: .* the mean model is not finite"):
        run_steps(toy.tampered(list), [made])
    np.testing.assert_array_equal(made.coordinator.weights, weights)


def test_notes_say_the_same_of_a_site_once(toy):
    made = toy.federation(rounds=3)
    for _ in range(3):
        run_steps(toy.tampered(of_s1(lambda u: [])), [made])
    assert made.coordinator.notes == ("round 1: site 's1' did not answer; left out",)
