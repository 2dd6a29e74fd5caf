"""The in-process driver: who gets what and when, what it refuses, what an error leaves behind."""

from dataclasses import dataclass

import numpy as np
import pytest

from cofill.errors import SettingError
from cofill.privacy import BlindedIds, Box, Budget, MeanDefence, Release
from cofill.protocol import Federation, Step, run_steps


def note(sender: str, receiver: str, purpose: str = "present") -> BlindedIds:
    return BlindedIds(
        sender=sender, receiver=receiver, tokens=np.array([b"t"], "S32"), purpose=purpose
    )


def federation(*names: str) -> Federation[str]:
    """Sites whose state is the text of what happened to them."""
    return Federation({name: name for name in names})


def sends(name: str, *letters: tuple[str, str]) -> Step[str]:
    """Return a step in which each site sends its letters (sender, receiver)."""

    def run(sites, inboxes, report_progress):
        return [
            (s, [note(a, b, f"{name} to {b}") for a, b in letters if a == s[:1]]) for s in sites
        ]

    return Step(name, run)


def logs(name: str) -> Step[str]:
    """Return a step in which each site writes down what is in its inbox."""

    def run(sites, inboxes, report_progress):
        return [
            (f"{s} {name}[{','.join(f'{r.sender}:{r.purpose}' for r in inbox)}]", [])
            for s, inbox in zip(sites, inboxes, strict=True)
        ]

    return Step(name, run)


def fails(sites, inboxes, report_progress):
    raise RuntimeError("broken")


def test_a_release_is_in_the_right_inbox_in_the_next_step_only():
    three = federation("a", "b", "c")
    run_steps([sends("go", ("a", "b"), ("a", "c"), ("c", "b")), logs("1"), logs("2")], [three])
    assert three.sites == {
        "a": "a 1[] 2[]",
        "b": "b 1[a:go to b,c:go to b] 2[]",
        "c": "c 1[a:go to c] 2[]",
    }


def test_the_first_step_finds_empty_inboxes_and_a_new_run_starts_anew():
    two = federation("a", "b")
    run_steps([sends("go", ("a", "b"))], [two])
    run_steps([logs("later")], [two])
    assert two.sites["b"] == "b later[]"


def test_every_release_is_in_the_ledger_in_order_with_its_step():
    three = federation("a", "b", "c")
    run_steps([sends("one", ("a", "b")), sends("two", ("b", "a"), ("c", "a"))], [three])
    run_steps([sends("three", ("a", "c"))], [three])
    assert [(e.step, e.sender, e.receiver, e.individuals, e.bytes) for e in three.ledger] == [
        ("one", "a", "b", 1, 32),
        ("two", "b", "a", 1, 32),
        ("two", "c", "a", 1, 32),
        ("three", "a", "c", 1, 32),
    ]


def test_several_federations_do_not_mix():
    # The same names in each, in another order, and one that has fewer sites.
    sizes = []

    def run(sites, inboxes, report_progress):
        sizes.append(len(sites))
        out = []
        for site in sites:
            mine, group = site.split("@")
            others = {"1": "abc", "2": "cab", "3": "ab"}[group]
            out.append((site, [note(mine, o, f"of {group}") for o in others if o != mine]))
        return out

    many = [
        Federation({n: f"{n}@{g}" for n in names})
        for g, names in (("1", "abc"), ("2", "cab"), ("3", "ab"))
    ]
    run_steps([Step("go", run), logs("got")], many)
    assert sizes == [8]  # all sites of all federations at once
    assert [list(f.sites) for f in many] == [list("abc"), list("cab"), list("ab")]
    for group, one in zip("123", many, strict=True):
        for name, state in one.sites.items():
            start, got = state.split(" got")
            assert start == f"{name}@{group}"
            senders = sorted(got.strip("[]").split(","))
            assert senders == sorted(f"{o}:of {group}" for o in one.sites if o != name)
        assert {(e.sender, e.receiver) for e in one.ledger} == {
            (a, b) for a in one.sites for b in one.sites if a != b
        }


def test_federations_together_end_as_each_alone():
    steps = [sends("go", ("a", "b"), ("b", "c")), logs("1"), sends("on", ("c", "a")), logs("2")]
    together, alone = [federation("a", "b", "c") for _ in range(2)], federation("a", "b", "c")
    run_steps(steps, together)
    run_steps(steps, [alone])
    for one in together:
        assert one.sites == alone.sites
        assert one.ledger.to_list() == alone.ledger.to_list()


def test_after_an_error_every_federation_is_as_it_was():
    two = [federation("a", "b"), federation("a", "b")]
    run_steps([sends("before", ("a", "b"))], two)
    sites, ledgers = [dict(f.sites) for f in two], [f.ledger.to_list() for f in two]
    with pytest.raises(RuntimeError, match="broken"):
        run_steps([sends("go", ("a", "b")), logs("1"), Step("bad", fails)], two)
    assert [f.sites for f in two] == sites
    assert [f.ledger.to_list() for f in two] == ledgers


def test_an_interrupt_leaves_everything_as_it_was():
    two = federation("a", "b")

    def stop(what, share):
        if what == "1":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_steps([sends("go", ("a", "b")), logs("1")], [two], progress=stop)
    assert two.sites == {"a": "a", "b": "b"}
    assert len(two.ledger) == 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows(Release):
    """It has no kind, so it is not registered."""


@pytest.mark.parametrize(
    ("release", "words"),
    [
        (note("b", "c"), "'a' may not send as 'b'"),
        (note("a", "nobody"), "no other site 'nobody'"),
        (note("a", "a"), "no other site 'a'"),
        (Rows(sender="a", receiver="b"), "Rows is no declared type of release"),
    ],
)
def test_a_release_that_may_not_go_stops_the_run(release, words):
    three = federation("a", "b", "c")

    def run(sites, inboxes, report_progress):
        return [(s + " changed", [release] if s == "a" else []) for s in sites]

    with pytest.raises(SettingError, match=words) as caught:
        run_steps([Step("leak", run)], [three])
    assert "leak" in str(caught.value)
    assert three.sites == {"a": "a", "b": "b", "c": "c"}
    assert len(three.ledger) == 0


def test_a_site_of_another_federation_cannot_be_reached():
    def run(sites, inboxes, report_progress):
        return [(s, [note("a", "z")] if s == "a" else []) for s in sites]

    with pytest.raises(SettingError, match="no other site 'z'"):
        run_steps([Step("go", run)], [federation("a", "b"), federation("y", "z")])


def test_a_step_must_answer_for_every_site():
    step = Step("short", lambda sites, inboxes, report_progress: [(s, []) for s in sites[:1]])
    with pytest.raises(ValueError, match="zip"):
        run_steps([step], [federation("a", "b")])


def test_progress_names_the_steps_and_only_grows():
    told = []

    def half(sites, inboxes, report_progress):
        report_progress(0.5)
        return [(s, []) for s in sites]

    run_steps(
        [Step("one", half), Step("two", half)],
        [federation("a")],
        progress=lambda what, share: told.append((what, share)),
    )
    assert told == [("one", 0.0), ("one", 0.25), ("two", 0.5), ("two", 0.75)]


def test_no_steps_change_nothing():
    one = federation("a")
    run_steps([], [one])
    assert one.sites == {"a": "a"}


def test_a_coordinator_acts_in_its_own_steps_on_all_that_came_since():
    three = Federation({n: n for n in "abc"}, coordinator="k")
    collected = logs("sum")

    def answer(parties, inboxes, report_progress):
        return [
            (p, [note("coordinator", r.sender, "answer") for r in inbox if r.sender != "c"])
            for p, inbox in zip(parties, inboxes, strict=True)
        ]

    up = sends("up", *((n, "coordinator") for n in "abc"))
    again = [up, logs("1"), Step("sum", collected.run, at="coordinator")]
    run_steps(again, [three])
    assert three.coordinator == "k sum[a:up to coordinator,b:up to coordinator,c:up to coordinator]"
    assert three.sites == {n: f"{n} 1[]" for n in "abc"}
    run_steps([up, Step("answer", answer, at="coordinator"), logs("2")], [three])
    assert three.sites["a"].endswith("2[coordinator:answer]")
    assert three.sites["c"].endswith("2[]")  # a site that was not chosen gets no mail
    assert [(e.sender, e.receiver) for e in three.ledger][-2:] == [
        ("coordinator", "a"),
        ("coordinator", "b"),
    ]


def test_no_site_can_pass_for_the_coordinator():
    with pytest.raises(SettingError, match="no site may be called 'coordinator'"):
        federation("a", "coordinator")


def test_without_a_coordinator_nothing_can_be_sent_to_it():
    with pytest.raises(SettingError, match="no other site 'coordinator'"):
        run_steps([sends("up", ("a", "coordinator"))], [federation("a", "b")])


def test_a_release_beyond_a_budget_stops_the_run_and_spends_nothing():
    defence = MeanDefence(Box(0.0, 1.0), 1.0)
    rows = np.random.default_rng(0).uniform(size=(50, 2))

    def run(sites, inboxes, report_progress):
        return [
            (s, [defence.release(rows, sender="a", receiver="b")] if s == "a" else [])
            for s in sites
        ]

    two = Federation({"a": "a", "b": "b"}, budgets={"a": Budget(1.2)})
    run_steps([Step("mean", run)], [two])
    assert two.ledger.to_list()[0]["epsilon"] == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(SettingError, match=r"'a' to 'b' is refused.* of 1.2"):
        run_steps([Step("mean", run)], [two])
    assert len(two.ledger) == 1
    with pytest.raises(SettingError, match="no site 'z'"):
        Federation({"a": "a"}, budgets={"z": Budget(1.0)})
