"""Audits of defences before codes are sent: who chooses, who is reported on, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.attack import DecoderSettings, invert_codes
from cofill.audit import TrialSettings, ViewAuditSettings, audit_views
from cofill.audit._code_trial import CodeRelease, align_codes, attack_codes, weigh_defences
from cofill.audit._view_trial import DefenceFigures, Trial, split_people
from cofill.audit._views import choose, limits
from cofill.cooperate import CodeDefence, CooperativeReconstruction
from cofill.errors import DataError, SettingError
from cofill.nets import FusionSettings, TrainSettings
from cofill.views import MultiView, Scaler

RNG = np.random.default_rng(0)
COMMON = RNG.normal(size=(120, 2))
CANARY = 773_142.4242
LINEAR = DecoderSettings(folds=2, repeats=1, draws=100, fusion=FusionSettings(hidden=()))
TRIAL = TrialSettings(encoders=TrainSettings(epochs=20), attack=LINEAR)
QUICK = ViewAuditSettings(
    widths=(0.5,), epsilons=(30.0,), bits=(), prices=(1.0,), pilot=20, trial=TRIAL
)


def views_of(people=120, names=("lab", "ward")):
    own = np.random.default_rng(1).normal(size=(len(names), 120, 2))
    return MultiView.from_arrays(
        {n: np.hstack([COMMON, own[k]])[:people] for k, n in enumerate(names)}
    )


@pytest.fixture(scope="module")
def audit():
    rows = {name: view.cells.copy() for name, view in views_of().items()}
    rows["lab"][7, 0] = CANARY / 1e5  # far out, not so far that nobody else matters
    return audit_views(MultiView.from_arrays(rows), settings=QUICK)


def test_every_view_is_attacked_and_every_defence_has_itscurve_of(audit):
    assert [(r.kind, r.sender, r.receiver) for r in audit.releases] == [
        ("codes", "lab", "ward"),
        ("codes", "ward", "lab"),
    ]
    assert audit.verdict == "near-total"
    assert [c.name for c in audit.curves] == ["narrower codes", "noise", "only what is needed"]
    for curve in audit.curves:
        without, cost = curve.without
        assert cost == 0
        assert curve.leak[0] < without - 0.1
        assert curve.low[0] <= curve.leak[0] <= curve.high[0]
        assert curve.leak[0] <= curve.worst[0]
        assert curve.goal == (0.2, 25.0)
    noise = audit.curves[1]
    assert noise.utility[0] > 25  # so much noise is no use


def test_a_pilots_people_count_as_without_a_defence(audit):
    needs = audit.curves[2]
    outside = float(needs.notes[1].rsplit(" ", 1)[1])
    share = 20 / 96
    assert needs.leak[0] == pytest.approx(
        share * needs.without[0] + (1 - share) * outside, abs=6e-3
    )


def test_the_record_says_what_is_advised_and_who_chose_it(audit):
    choice = audit.to_dict()["choice"]
    assert choice["advised"] in ("codes of 50 %", "needs at a price of 1", "no defence")
    assert set(choice["best"]) >= {"name", "defence", "leak", "growth"}
    assert not choice["reached"]
    page = audit.to_html()
    for words in ("of them 60 were held out", "not reached by any of the 3 settings"):
        assert words in page
    for text in (page, audit.to_json(), str(audit.table())):
        assert "7.7314" not in text


def test_what_completes_a_row_bounds_what_can_be_hidden(audit):
    choice = audit.to_dict()["choice"]
    # Half of a row is common to both views, and the error may grow by a quarter.
    assert 0 < choice["inferred_at_growth"] < 0.5
    assert limits(0.3, None, QUICK) == []  # 1 − 1.25 × 0.7 is below the goal of 0.2
    told, linear = limits(0.9, 0.5, QUICK)
    assert "at a growth of the error of 25 % R² 0.88" in told
    assert "R² 0.50" in linear


# --- who chooses ----------------------------------------------------------------------------------


def test_nobody_both_chooses_and_is_reported_on():
    turns, chooses = split_people(views_of(), QUICK)
    assert sum(chooses.values()) == len(chooses) / 2 == 60
    assert [held.train.n_individuals for held in turns] == [96] * 5  # few people: all take turns
    asked = np.concatenate([held.tests["lab"].ids for held in turns])
    assert sorted(asked) == sorted(chooses)
    assert all(len(test["lab"]) + len(test["ward"]) == 24 for test in turns[0].tests.values())
    trial = Trial(turns, chooses, 20, QUICK)
    assert [half.size for half in trial.asked] == [60, 60]
    ids = turns[0].train.ids[::-1]
    first, second = trial.halves(ids)
    assert {chooses[one] for one in ids[first].tolist()} == {True}
    assert {chooses[one] for one in ids[second].tolist()} == {False}
    assert sorted([*first, *second]) == list(range(96))


def test_codes_rows_and_ids_are_of_the_same_people():
    site = CooperativeReconstruction().start(views_of()).sites["lab"]
    site = replace(site, scaler=Scaler.fit(site.view))
    told = align_codes(site, site.tokens, site.view.cells)
    at = site.view.positions(told.ids)
    assert not np.array_equal(at, np.arange(120))  # the order of tokens is another
    np.testing.assert_array_equal(told.codes, site.view.cells[at])
    np.testing.assert_array_equal(told.rows, site.encoded()[at])


def test_a_pilots_people_are_in_neither_half(monkeypatch):
    trial = Trial(*split_people(views_of(), QUICK), 20, QUICK)
    ids, given = trial.turns[0].train.ids, {}
    monkeypatch.setattr(
        "cofill.audit._view_trial.attack_codes",
        lambda told, settings, **rest: given.update(rest) or [],
    )
    trial._attack(CodeRelease(np.zeros((96, 1)), np.zeros((96, 1)), ids), 4)
    first, second = given["parts"]
    assert sorted([*first, *second]) == list(range(76))
    assert {trial.chooses[one] for one in ids[20:][first].tolist()} == {True}
    assert given["skip"] == 20


def test_many_people_take_one_turn():
    rows = RNG.normal(size=(1000, 1))
    turns, _ = split_people(MultiView.from_arrays({"a": rows, "b": rows}), QUICK)
    assert [held.train.n_individuals for held in turns] == [800]


def found(leak, growth):
    return DefenceFigures(
        leak=leak, interval=(leak, leak), worst_leak=leak, worst_view="lab",
        leak_outside_pilot=leak, growth=growth, growth_interval=(growth, growth), inferred=0.0,
    )  # fmt: skip


DEFENCES = {"a": CodeDefence(bits=1), "b": CodeDefence(width=0.5)}


def chosen(first, second):
    here, there = (
        {"no defence": found(0.9, 0.0), "a": found(*one[0]), "b": found(*one[1])}
        for one in (first, second)
    )
    return choose(here, there, DEFENCES, QUICK)


def test_the_first_half_chooses_and_the_second_is_told():
    choice, change, conclusion = chosen(
        first=((0.5, 0.2), (0.6, 0.1)), second=((0.7, 0.3), (0.1, 0.1))
    )
    assert (choice["advised"], choice["defence"]) == ("a", {"bits": 1})
    assert (choice["leak"], choice["growth"]) == (0.7, 0.3)
    assert """--set 'defence={"bits": 1}'""" in change
    assert "above the 25 % that was allowed" in change
    assert "not reached by any of the 2 settings tried" in conclusion


def test_a_goal_counts_only_where_it_is_confirmed():
    good, bad = (0.1, 0.1), (0.3, 0.1)
    choice, change, conclusion = chosen(first=(good, bad), second=(good, bad))
    assert choice["reached"]
    assert "can be had, by a" in conclusion
    assert "above" not in change
    choice, _, conclusion = chosen(first=(good, bad), second=(bad, good))
    assert not choice["reached"]
    assert "only among the people who chose" in conclusion


def test_no_defence_is_advised_where_all_cost_too_much():
    choice, change, _ = chosen(first=((0.1, 0.9), (0.2, 0.3)), second=((0.1, 0.1), (0.1, 0.1)))
    assert (choice["advised"], choice["defence"]) == ("no defence", {})
    assert change.startswith("No defence tried here leaks less")
    assert choice["best"]["name"] == "b"


def test_a_frontier_is_of_those_whom_nobody_beats():
    points = {"none": (0.9, 0.0), "a": (0.5, 0.1), "b": (0.5, 0.2), "c": (0.1, 0.6)}
    assert weigh_defences(points, 0.2, 0.25).frontier == ("c", "a", "none")


# --- attacks --------------------------------------------------------------------------------------


def test_parts_are_judged_apart_by_decoders_of_all():
    rows = RNG.normal(size=(60, 3))
    codes = rows.copy()
    codes[:30] = RNG.normal(size=(30, 3))  # of the first half codes tell nothing
    whole = invert_codes(codes, rows, pairs=("all",), settings=LINEAR)
    same = invert_codes(codes, rows, pairs=("all",), parts=[np.arange(60)], settings=LINEAR)
    assert [a.to_dict() for a in whole] == [b.to_dict() for b in same]
    first, _, second, _ = invert_codes(
        codes, rows, pairs=("all",), parts=[np.arange(30), np.arange(30, 60)], settings=LINEAR
    )
    assert first.sizes["people"] == second.sizes["people"] == 30
    assert first.attack < 0.1
    assert second.attack > first.attack + 0.2


def test_codes_that_are_the_same_for_everybody_leak_nothing():
    told = CodeRelease(np.ones((50, 2)), RNG.normal(size=(50, 3)), np.arange(50))
    halves = attack_codes(told, LINEAR, parts=[np.arange(25), np.arange(25, 50)])
    assert [(half.r2, half.unique) for half in halves] == [(0.0, 0.0)] * 2


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("views", "message"),
    [
        (views_of(names=("lab",)), "at least 2 views, got 1"),
        (views_of(people=99), "at least 100 people .* got 99 of 99"),
        (
            views_of().hide({"ward": np.arange(120) < 60, "lab": np.arange(120) >= 60}),
            "at least 100 people .* got 0 of 120",
        ),
        (MultiView.from_arrays({"a": COMMON, "b": COMMON * 0}), "'b' must differ between people"),
    ],
)
def test_views_that_cannot_be_audited_are_refused(views, message):
    with pytest.raises(DataError, match=message):
        audit_views(views, settings=QUICK)


@pytest.mark.parametrize("pilot", [19, 57])
def test_a_pilot_must_be_large_enough_and_leave_people_to_attack(pilot):
    with pytest.raises(SettingError, match="pilot must be from 20 to 56 of the 96 people"):
        audit_views(views_of(), settings=replace(QUICK, pilot=pilot))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"growth": 0.0}, "growth must be"),
        ({"growth": float("nan")}, "growth must be"),
        ({"most_leak": 1.0}, "most_leak must be"),
        ({"share": 0.9}, "share must be"),
        ({"most_people": 10}, "most_people must be"),
        ({"widths": (), "epsilons": (), "bits": (), "prices": ()}, "at least one strength"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        ViewAuditSettings(**settings)
