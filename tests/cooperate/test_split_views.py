"""Views of which several sites hold rows: the cells of one site's run, and what each party sees."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cooperate.plain_computer import plain_targets
from tests.cooperate.test_private import N, people, recorded, small

from cofill.cooperate import PrivateProtocol
from cofill.cooperate._private_common import ShapeSums, model_arrays, rounded_scaler
from cofill.errors import DataError, SettingError
from cofill.privacy import (
    Columns,
    ColumnScales,
    CommonFeatures,
    MaskedVector,
    SelectedCells,
    encode_releases,
)
from cofill.protocol import COORDINATOR, Federation, LocalData, Membership, Survey, run_protocol
from cofill.views import Feature, Kind, MultiView, View

HALVES = {"lab": {"north": np.arange(0, N, 2), "south": np.arange(1, N, 2)}}


@pytest.fixture(scope="module")
def split():
    views = people().hide({"lab": np.arange(N) % 15 == 0})
    model = small(sites=HALVES).fit(views)
    return model, views, model._ask(views)


def federation(tables, **settings):
    """Sites with views by site, shared ones at several, as they would be on machines."""
    site_views = {site: tuple(views) for site, views in tables.items()}
    every = [view for views in site_views.values() for view in views]
    members = Membership(site_views, tuple(v for v in dict.fromkeys(every) if every.count(v) > 1))
    settings = {"features": 12, "min_overlap": 10, **settings}
    protocol = PrivateProtocol.from_settings(settings, members)
    sites = {}
    asked = np.unique(np.concatenate([v.ids for held in tables.values() for v in held.values()]))
    for site, views in tables.items():
        sites |= protocol.start_site(LocalData(site, views, people=asked))
    return protocol, Federation(sites, coordinator=protocol.start_coordinator())


def tables(views=None, *, twice=()):
    """The lab's rows at two sites, of which ``twice`` are at both."""
    views = views or people()
    lab = views["lab"]
    south = np.isin(lab.ids, [*HALVES["lab"]["south"], *twice])
    north = ~south | np.isin(lab.ids, twice)
    return {
        "north": {"lab": lab.take(north)},
        "south": {"lab": lab.take(south)},
        "ward": {"ward": views["ward"]},
        "shop": {"shop": views["shop"]},
    }


# --- the cells of one site's run ------------------------------------------------------------------


def test_cells_are_those_of_a_run_where_the_view_lies_at_one_site(split):
    model, _, asked = split
    expected = plain_targets(model, asked)
    assert {"lab@north", "ward", "shop"} <= set(expected)
    for name, targets in expected.items():
        np.testing.assert_allclose(asked[name].predicted.targets, targets, atol=1e-3)


def test_features_do_not_depend_on_who_holds_which_rows():
    views = people()
    first = small(sites=HALVES).fit(views)
    few = {"lab": {"north": np.arange(5), "south": np.arange(5, N)}}
    second = small(sites=few).fit(views)
    for name in ("lab@north", "lab@south"):
        for key, array in model_arrays(first.sites_[name].fitted).items():
            np.testing.assert_array_equal(array, model_arrays(second.sites_[name].fitted)[key])


def test_a_view_at_two_sites_tells_of_others_and_is_told_of(split):
    model, views, _ = split
    r2 = {(v, f): r for v, f, r in model.reconstructability_.itertuples(index=False)}
    assert len(r2) == 6
    assert r2["lab", "lab_0"] > 0.9
    assert r2["ward", "ward_0"] > 0.9
    truth, done = people().aligned("lab"), model.complete(views)
    hidden = np.arange(N) % 15 == 0
    assert np.mean((done.cells["lab"][hidden] - truth[hidden]) ** 2) < 0.15
    np.testing.assert_array_equal(done.cells["lab"][~hidden], truth[~hidden])


def test_both_sites_fill_holes_in_their_own_rows():
    views = people()
    cells = views["lab"].cells.copy()
    cells[[3, 4, 7, 8], 0] = np.nan
    views = MultiView(
        [views["lab"].with_rows(views["lab"].ids, cells), views["ward"], views["shop"]]
    )
    model = small(sites=HALVES).fit(views)
    done = model.complete(views).cells["lab"][[3, 4, 7, 8], 0]
    assert np.abs(done - people().aligned("lab")[[3, 4, 7, 8], 0]).max() < 1.0


def test_categories_and_gaps_are_agreed_on():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 2))
    group = np.digitize(x[:, 0], [-0.4, 0.4]).astype(float)[:, None]
    group[::9] = np.nan
    kind = Feature("group", Kind.CATEGORICAL, ("low", "mid", "high"))
    mixed = View("b", np.arange(40, 200), np.hstack([group, x[:, 1:]])[40:], [kind, Feature("x")])
    views = MultiView([View("a", np.arange(200), x), mixed])
    halves = {"b": {"p": np.arange(40, 120), "q": np.arange(120, 200)}}
    done = small(sites=halves).fit_complete(views)
    known = ~np.isnan(group[:40, 0])
    assert (done.cells["b"][:40, 0] == group[:40, 0])[known].mean() > 0.8


def test_one_person_at_two_sites_of_a_view_is_two_people_and_nobody_is_told():
    twice = (20, 21, 22)
    protocol, parties = federation(tables(twice=twice))
    seen = recorded(protocol, parties)
    plan = parties.coordinator.known
    assert plan.slots == N + len(twice)
    everyone = plan.count((0, 1, 2))
    assert everyone == N - 20  # as often as they are in all three views, not once more
    for name in ("lab@north", "lab@south"):
        site = parties.sites[name]
        # A row left out would have told its site that the other has it too.
        assert (site.placed.slots >= 0).all()
        cells = [r for r in seen[name] if isinstance(r, SelectedCells)]
        # Each asks about everybody whose row it lacks.
        assert all(len(r.ids) == N - len(site.view) for r in cells)


# --- what each party sees -------------------------------------------------------------------------


def test_the_coordinator_sees_sums_of_sites_and_a_site_sees_coarse_figures_only():
    protocol, parties = federation(tables())
    seen = recorded(protocol, parties)
    lab = people()["lab"]
    columns = Columns(sender="x", receiver="", features={"lab": lab.features})
    survey = Survey(columns, {})
    code = survey.code(2)
    vectors = [r for r in seen[COORDINATOR] if isinstance(r, MaskedVector) and r.round == 0]
    assert [r.sender for r in vectors] == ["lab@north", "lab@south"]
    whole = survey.pool(code.decode(vectors[0].words + vectors[1].words))["lab"]
    np.testing.assert_allclose(whole[1], lab.cells.mean(axis=0))
    for vector in vectors:  # alone it is uniform: an exact sum has 16 bits in every word but flags
        numbers = vector.words[: code.numbers * code.digits]
        assert (numbers >> np.uint64(60)).std() > 3
    for name in ("lab@north", "lab@south"):
        assert not [r for r in seen[name] if isinstance(r, MaskedVector)]
        (scales,) = (r.columns["lab"] for r in seen[name] if isinstance(r, ColumnScales))
        steps = scales[0] / (scales[1] / 16)
        np.testing.assert_allclose(steps, np.rint(steps))
        assert np.abs(scales[0] - whole[1]).max() > 1e-6
        (common,) = (r.arrays for r in seen[name] if isinstance(r, CommonFeatures))
        drawn = common["landmarks"][:, :2]
        rows = parties.sites[name].agreed_scaler.encode(lab.cells)
        nearest = np.abs(drawn[:, None] - rows).max(axis=2).min()
        assert nearest > 1e-9  # nobody's row is a landmark
    for receiver in ("ward", "shop"):
        kinds = {r.kind for r in seen[receiver]}
        assert not kinds & {"columns", "column-scales", "common-features", "masked-vector"}


def test_no_party_sees_a_cell_of_a_split_view():
    canary = 1234.5678
    views = people()
    cells = views["lab"].cells.copy()
    cells[5] = canary
    views = MultiView(
        [views["lab"].with_rows(views["lab"].ids, cells), views["ward"], views["shop"]]
    )
    protocol, parties = federation(tables(views))
    for releases in recorded(protocol, parties).values():
        content = encode_releases(releases)
        for dtype in ("<f8", ">f8"):
            assert np.array(canary, dtype).tobytes() not in content


# --- refusals -------------------------------------------------------------------------------------


def test_other_columns_at_the_second_site_are_refused():
    held = tables()
    held["south"] = {"lab": held["south"]["lab"].select(["lab_0"])}
    protocol, parties = federation(held)
    with pytest.raises(DataError, match="'lab' has other columns"):
        run_protocol(protocol, [parties])


def test_a_split_view_with_few_people_for_its_columns_is_refused():
    lab = people()["lab"].take(np.arange(4))
    sums = ShapeSums(rounded_scaler(lab.features, np.tile([[4], [0.0], [1.0], [-9], [9]], 2)))
    with pytest.raises(DataError, match="more than twice as many people"):
        sums.read("lab", sums.numbers(lab))


def test_rows_at_no_site_or_at_two_are_refused():
    with pytest.raises(DataError, match="got none for 60 of 120"):
        small(sites={"lab": {"north": HALVES["lab"]["north"], "south": []}}).fit(people())
    with pytest.raises(DataError, match="got 60 at two"):
        small(sites={"lab": {"north": np.arange(N), "south": HALVES["lab"]["south"]}}).fit(people())


def test_one_view_only_is_no_split_by_view():
    with pytest.raises(SettingError, match="one view only"):
        PrivateProtocol(members=Membership({"a": ("x",), "b": ("x",)}, ("x",)))
