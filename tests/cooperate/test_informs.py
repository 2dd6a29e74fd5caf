"""Which columns of an owner may inform whom: what they leave out of their rows, and check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.cooperate.plain_computer import plain_targets
from tests.cooperate.test_private import N, federation, people, recorded, small

from cofill.errors import DataError, SettingError
from cofill.privacy import MaskedRows, SlotPlan
from cofill.protocol import Step, run_protocol
from cofill.views import MultiView, View


def r2_of(model):
    return {(v, f): r for v, f, r in model.reconstructability_.itertuples(index=False)}


@pytest.fixture(scope="module")
def restricted():
    views = people()
    model = small(informs={"lab": {"ward": ["lab_0"], "shop": ["lab_1"]}}).fit(views)
    return model, views


def test_columns_inform_those_they_may_and_nobody_else(restricted):
    free, bound = r2_of(small().fit(people())), r2_of(restricted[0])
    # The ward's first column is the sum of the lab's two, of which the shop tells the second.
    assert bound["ward", "ward_1"] > 0.7  # a square of the first
    only_second = small(informs={"lab": {"ward": ["lab_1"]}}).fit(people())
    assert r2_of(only_second)["ward", "ward_1"] < free["ward", "ward_1"] - 0.1
    assert r2_of(only_second)["shop", "shop_1"] > 0.8


def test_cells_do_not_depend_on_a_column_that_may_not_inform():
    rng = np.random.default_rng(0)
    views = people()
    cells = views["lab"].cells.copy()
    cells[:, 0] = rng.permutation(cells[:, 0])
    others = MultiView([views["lab"].with_rows(views["lab"].ids, cells), *list(views.values())[1:]])
    informs = {"lab": {"ward": ["lab_1"], "shop": []}}
    first, second = (small(informs=informs).fit_complete(v) for v in (views, others))
    for name in ("ward", "shop"):
        np.testing.assert_allclose(first.cells[name], second.cells[name], atol=1e-3)


def test_cells_are_those_of_a_trusted_machine(restricted):
    model, views = restricted
    asked = model._ask(views)
    for name, targets in plain_targets(model, asked).items():
        np.testing.assert_allclose(asked[name].predicted.targets, targets, atol=1e-3)


def test_a_view_that_informs_nobody_hands_in_zeros_and_is_completed():
    informs = {"lab": {"ward": [], "shop": []}}
    views = people().hide({"lab": np.arange(N) < 10})
    model = small(informs=informs).fit(views)
    site = model.sites_["lab"]
    zeros = site.fitted.inputs(
        site.view, np.arange(len(site.view)), site.placed.plan, _Plain, asking=True
    )
    assert not any(table.any() for table in zeros.values())
    assert r2_of(model)["lab", "lab_1"] > 0.8
    assert not np.isnan(model.complete(views).cells["lab"]).any()


class _Plain:
    encode = staticmethod(lambda values, bits: values)


def test_an_owner_hands_no_row_in_for_a_plan_that_leaves_its_word_out():
    protocol, parties = federation(people())
    for name, site in parties.sites.items():
        if name == "lab":
            parties.sites[name] = replace(site, informs={"lab": {"ward": ["lab_0"]}})

    def widened(release):
        if not isinstance(release, SlotPlan):
            return release
        groups = {v: tuple((*g[:2], 7) for g in groups) for v, groups in release.groups.items()}
        return replace(release, groups=groups)

    def altered(step):
        def act(sites, inboxes, report):
            results = step.run(sites, inboxes, report)
            return [(site, [widened(r) for r in outbox]) for site, outbox in results]

        return Step(step.name, act, step.at)

    class Altered(type(protocol)):
        steps = tuple(map(altered, protocol.steps))

    with pytest.raises(DataError, match="does not keep to what view 'lab' may inform"):
        run_protocol(Altered(members=protocol.members), [parties])


def test_masked_rows_have_features_of_each_audience_apart():
    protocol, parties = federation(people())
    parties.sites["lab"] = replace(parties.sites["lab"], informs={"lab": {"ward": ["lab_0"]}})
    seen = recorded(protocol, parties, until=protocol.learning.stop)
    (rows,) = (r for r in seen["ward"] if isinstance(r, MaskedRows) and r.sender == "lab")
    groups = parties.sites["lab"].fitted.group_sizes
    assert [audience for *_, audience in groups] == [0b010, 0b100]
    assert rows.words["lab/feature/0"].shape[1] == sum(width for width, *_ in groups)


@pytest.mark.parametrize(
    ("informs", "words"),
    [
        ({"labb": {"ward": ["lab_0"]}}, "must name views that there are, got 'labb'"),
        ({"lab": {"bank": ["lab_0"]}}, "must name other views of the run, got 'bank'"),
        ({"lab": {"ward": ["age"]}}, "must name columns that it has, got 'age'"),
    ],
)
def test_unknown_names_are_refused(informs, words):
    with pytest.raises(SettingError, match=words):
        small(informs=informs).fit(people())


def test_a_split_view_cannot_say_whom_it_informs():
    halves = {"lab": {"north": np.arange(0, N, 2), "south": np.arange(1, N, 2)}}
    with pytest.raises(SettingError, match="several sites hold view 'lab'"):
        small(sites=halves, informs={"lab": {"ward": []}}).fit(people())


def test_two_views_keep_to_it_too():
    x = np.random.default_rng(0).normal(size=(90, 2))
    b = View("b", np.arange(10, 90), 2 * x[10:, :1])
    views = MultiView([View("a", np.arange(90), x, ["p", "q"]), b])
    told = small(informs={"a": {"b": ["p"]}}).fit(views)
    untold = small(informs={"a": {"b": ["q"]}}).fit(views)
    assert r2_of(told)["b", "b_0"] > 0.9
    assert r2_of(untold)["b", "b_0"] < 0.2
