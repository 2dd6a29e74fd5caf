"""Completion on secret shares: the ideal's cells, and what each party sees on the way."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from tests.cooperate.plain_computer import (
    plain_targets,
)

from cofill.codec import decode, encode
from cofill.cooperate import PrivateCompletion, PrivateProtocol, _private_coordinator
from cofill.cooperate._private_learner import (
    GRAM_BITS,
    ROTATION_BITS,
    variants,
)
from cofill.cooperate._private_site import PrivateSettings
from cofill.errors import DataError, SettingError
from cofill.privacy import OpenedShares, SelectedCells, encode_releases
from cofill.protocol import COORDINATOR, Federation, LocalData, Membership, Step, run_protocol
from cofill.shares import (
    AGREED,
    _engine,
    from_triangle,
    from_words,
    points_of,
    spectrum_of,
    split_points,
)
from cofill.views import Feature, Kind, MultiView, View

N = 120
CANARY = 1234.5678


def people(seed=0, scale=1.0):
    """Three views of related columns: everybody, all but the first ten, all but the last ten."""
    rng = np.random.default_rng(seed)
    trait = rng.normal(size=(N, 2))
    noise = 0.1 * rng.normal(size=(N, 6))
    arrays = {
        "lab": np.column_stack([trait[:, 0] + noise[:, 0], trait[:, 1] + noise[:, 1]]),
        "ward": np.column_stack([trait.sum(axis=1) + noise[:, 2], trait[:, 0] ** 2 + noise[:, 3]]),
        "shop": np.column_stack([trait[:, 0] * trait[:, 1], trait[:, 1] + noise[:, 4]]),
    }
    order = np.arange(N)
    return MultiView.from_arrays(
        {name: scale * cells for name, cells in arrays.items()},
        presence={"ward": order >= 10, "shop": order < N - 10},
    )


def small(**settings):
    return PrivateCompletion(**{"features": 12, "min_overlap": 10, **settings})


@pytest.fixture(scope="module")
def fitted():
    views = people()
    model = small()
    return model.fit(views), views, model._ask(views)


def federation(views, **settings):
    """A federation whose secrets come from the operating system, and everything that is sent."""
    members = Membership({name: (name,) for name in views})
    settings = {"features": 12, "min_overlap": 10, **settings}
    protocol = PrivateProtocol.from_settings(settings, members)
    sites = {}
    for name, view in views.items():
        sites |= protocol.start_site(LocalData(name, {name: view}, people=views.ids))
    return protocol, Federation(sites, coordinator=protocol.start_coordinator())


def recorded(protocol, federation, until=None):
    """Run a protocol and return every release it sent, by receiver."""
    seen = defaultdict(list)

    def record(step):
        def act(parties, inboxes, report):
            results = step.run(parties, inboxes, report)
            for _, outbox in results:
                for release in outbox:
                    seen[release.receiver].append(release)
            return results

        return Step(step.name, act, step.at)

    class Recorded(PrivateProtocol):
        steps = tuple(map(record, protocol.steps))

    run_protocol(Recorded(members=protocol.members), [federation], until=until)
    return seen


# --- the cells of the ideal -----------------------------------------------------------------------


def test_cells_on_shares_are_those_of_a_trusted_machine(fitted):
    model, _, asked = fitted
    expected = plain_targets(model, asked)
    # Targets have variance one: the tolerance is in standard deviations.
    for name, targets in expected.items():
        np.testing.assert_allclose(asked[name].predicted.targets, targets, atol=1e-4)
    assert sum(map(len, expected.values())) == 20


def test_nonlinear_and_joint_dependence_is_found(fitted):
    model, views, _ = fitted
    r2 = {(v, f): r for v, f, r in model.reconstructability_.itertuples(index=False)}
    assert r2["ward", "ward_0"] > 0.9  # a sum of two columns of the lab
    assert r2["ward", "ward_1"] > 0.8  # a square
    done = model.complete(views)
    assert not np.isnan(done.cells["ward"]).any()


def test_machines_whose_eigenvectors_differ_in_sign_compute_the_same(fitted, monkeypatch):
    model, views, _ = fitted
    expected = model.complete(views)
    signs = np.random.default_rng(0)

    def other_library(matrix):
        values, vectors = spectrum_of(matrix)
        return values, vectors * signs.choice([-1.0, 1.0], len(values))

    monkeypatch.setattr(_engine, "spectrum_of", other_library)
    done = small().fit_complete(views)
    for name in views:
        np.testing.assert_allclose(done.cells[name], expected.cells[name], atol=1e-3)


def test_a_row_s_own_cells_come_first():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(N, 2))
    mine = np.column_stack([x[:, 1], x[:, 1] + 0.05 * rng.normal(size=N)])
    truth = mine[:15, 1].copy()
    mine[:15, 1] = np.nan  # nobody else knows anything of it; the column beside it does
    views = MultiView.from_arrays({"a": x[:, :1], "b": mine})
    done = small(on_unreconstructable="fill").fit_complete(views)
    assert np.abs(done.cells["b"][:15, 1] - truth).mean() < 0.2


def test_what_others_leave_of_a_known_cell_tells_of_the_unknown_one_beside_it():
    # Two columns share a part that no other site knows: only the known one of them tells it.
    rng = np.random.default_rng(0)
    common, own = rng.normal(size=(2, 300))
    cells = np.column_stack([common + own, common + own + 0.1 * rng.normal(size=300)])
    truth = cells[:, 1].copy()
    hidden = np.arange(300) % 5 == 0
    cells[hidden, 1] = np.nan
    views = MultiView.from_arrays({"a": cells, "b": np.column_stack([common, -common])})
    done = small().fit_complete(views).cells["a"][hidden, 1]
    error = np.mean((done - truth[hidden]) ** 2)
    # Own cells alone leave 0.01 and the others' 1.0: putting both together must not lose that.
    assert error < 0.05


def test_draws_differ_in_gaps_only_and_are_as_wide_as_the_errors():
    views = people()
    model = small().fit(views)
    draws = model.draw(views, 20, key=1)
    cells = np.stack([done.cells["ward"] for done in draws])
    gaps = np.isnan(views.aligned("ward"))
    assert (np.ptp(cells, axis=0)[~gaps] == 0).all()
    assert (cells.std(axis=0)[gaps] > 0).all()
    truth = people().aligned("lab")[:10].sum(axis=1)  # what the first column is about
    spread = cells[:, :10, 0].std(axis=0).mean()
    error = np.sqrt(np.mean((cells[:, :10, 0].mean(axis=0) - truth) ** 2))
    assert 0.3 < spread / error < 3


def test_categories_come_back_as_categories():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 2))
    group = np.digitize(x[:, 0], [-0.4, 0.4]).astype(float)[:, None]
    kind = Feature("group", Kind.CATEGORICAL, ("low", "mid", "high"))
    views = MultiView(
        [View("a", np.arange(200), x), View("b", np.arange(40, 200), group[40:], [kind])]
    )
    done = small().fit_complete(views)
    assert (done.cells["b"][:40, 0] == group[:40, 0]).mean() > 0.8


def test_intervals_hold_about_as_many_true_values_as_they_say():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(600, 1))
    y = x + 0.5 * rng.normal(size=(600, 1))
    known = np.arange(600) >= 200
    views = MultiView.from_arrays({"a": x, "b": y}, presence={"b": known})
    done = small(interval=0.9).fit_complete(views)
    inside = (done.lower["b"][:200] <= y[:200]) & (y[:200] <= done.upper["b"][:200])
    assert 0.8 < inside.mean() < 0.97


def test_a_person_whom_one_other_view_knows_is_completed_from_that_one():
    views = people()
    rows = np.vstack([views["ward"].cells, [[0.0, 0.0]]])
    ward = View("ward", np.append(views["ward"].ids, 999), rows)
    both = MultiView([views["lab"], ward, views["shop"]])
    done = small().fit_complete(both)
    at = np.searchsorted(both.ids, 999)
    assert not np.isnan(done.cells["lab"][at]).any()  # the ward alone tells of them


def test_a_run_goes_on_from_stored_states():
    views = people()
    protocol = replace(federation(views)[0], is_reproducible=True)
    starts = [
        Federation(
            {
                name: party
                for name, view in views.items()
                for party in protocol.start_site(LocalData(name, {name: view}, views.ids)).values()
            },
            coordinator=protocol.start_coordinator(),
        )
        for _ in range(2)
    ]
    run_protocol(protocol, [starts[0]])
    for stop in (6, 12, 30):
        run_protocol(protocol, [starts[1]], until=stop)
        for name, party in starts[1].sites.items():
            state = decode(encode(protocol.state_of(party), format="t"), format="t")
            data = LocalData(name, {name: views[name]}, views.ids)
            starts[1].sites[name] = protocol.restore_party(name, state, data)
        state = protocol.state_of(starts[1].coordinator)
        state = decode(encode(state, format="t"), format="t")
        starts[1].coordinator = protocol.restore_party(COORDINATOR, state, None)
    run_protocol(protocol, [starts[1]])
    for name in views:
        first, second = (s.sites[name].predicted for s in starts)
        assert (first is None) == (second is None)
        if first is not None:
            np.testing.assert_array_equal(first.targets, second.targets)


# --- what each party sees -------------------------------------------------------------------------


def test_no_party_sees_a_cell_or_an_id_and_all_words_are_uniform():
    views = people()
    cells = views["lab"].cells.copy()
    cells[5] = CANARY
    views = MultiView([View("lab", views["lab"].ids, cells), views["ward"], views["shop"]])
    protocol, parties = federation(views)
    seen = recorded(protocol, parties)
    assert set(seen) == {*views, COORDINATOR}
    for releases in seen.values():
        content = encode_releases(releases)
        # Two cells beside each other: four bytes alone turn up among millions of random words.
        for dtype in ("<f8", ">f8", "<f4"):
            assert np.full(2, CANARY, dtype).tobytes() not in content
        for dtype in ("<f8", ">f8"):
            assert np.array(CANARY, dtype).tobytes() not in content
        assert str(CANARY).encode() not in content
        for release in releases:
            for label, words in getattr(release, "words", {}).items():
                # A spectrum follows from what both computing sites have opened before.
                if words.size > 500 and not label.endswith(AGREED):
                    assert kstest(words.ravel() / 2.0**64, "uniform").pvalue > 1e-6


def test_nobody_can_test_a_guessed_id():
    views = people()
    protocol, parties = federation(views)
    seen = recorded(protocol, parties, until=5)
    guesses = set(split_points(points_of(views.ids)))
    lists = {
        party: [split_points(r.points) for r in releases if hasattr(r, "points")]
        for party, releases in seen.items()
    }
    assert sum(map(len, lists.values())) == 9  # each list visits every other site and then leaves
    for party, received in lists.items():
        for points in received:
            assert not guesses & set(points)
        if party != COORDINATOR:  # it must not be able to match two others' lists either
            first, second = map(set, received)
            assert not first & second
    tokens = list(map(set, lists[COORDINATOR]))
    assert len(tokens[0] & tokens[1]) == N - 10 or len(tokens[0] & tokens[1]) == N - 20


def test_a_receiver_is_not_told_which_views_know_a_person():
    rng = np.random.default_rng(0)
    views = people().hide({"shop": rng.random(N) < 0.3})
    protocol, parties = federation(views)
    for name, releases in recorded(protocol, parties).items():
        cells = [r for r in releases if isinstance(r, SelectedCells)]
        assert all(set(r.words) <= {name} for r in cells)
    # The people of whom the ward is told have other views in common or not: one list for all.
    assert len(parties.coordinator.known.patterns) > 3


def test_runs_on_different_data_cannot_be_told_apart():
    words, labels = [], []
    for label, views in enumerate((people(1), people(2, scale=100.0))):
        protocol, parties = federation(views)
        for release in recorded(protocol, parties, until=protocol.learning.stop)["lab"]:
            for matrix in getattr(release, "words", {}).values():
                some = np.ascontiguousarray(matrix.ravel()[:40])
                if len(some) == 40:
                    words.append(np.unpackbits(some.view(np.uint8)).reshape(40, 64).mean(axis=0))
                    labels.append(label)
    words, labels = np.array(words), np.array(labels)
    half = np.arange(len(words)) % 2 == 0
    guesser = LogisticRegression(max_iter=200).fit(words[half], labels[half])
    auc = roc_auc_score(labels[~half], guesser.decision_function(words[~half]))
    assert abs(auc - 0.5) < 5 * np.sqrt(1 / (6 * (~half).sum() / 2))


def test_computing_sites_open_spectra_and_nothing_else_of_a_covariance():
    views = people()
    spectra = []
    for _ in range(2):
        protocol, parties = federation(views)
        seen = recorded(protocol, parties, until=protocol.learning.stop)
        shares = defaultdict(list)
        for party in protocol.computing_parties:
            for release in seen[party]:
                if isinstance(release, OpenedShares):
                    for label, words in release.words.items():
                        shares[release.round, label].append(words)
        matrices = [
            from_words(sum(pair), GRAM_BITS + ROTATION_BITS)
            for (number, label), pair in shares.items()
            if label == "ward/0/0" and len(pair) == 2
        ]
        rotated = from_triangle(*matrices)
        size = len(rotated)
        (agreed,) = (pair for (_, label), pair in shares.items() if label == f"ward/0/0{AGREED}")
        values, vectors = spectrum_of(rotated)
        words = sum(agreed)
        np.testing.assert_array_equal(words[:size].view(float), values)
        told = words[size:].view(np.int32)[: size**2].reshape(size, size)
        np.testing.assert_allclose(told * 2.0**-31, vectors, atol=2.0**-31)
        spectra.append((np.linalg.eigvalsh(rotated), rotated))
    # The common order is another in each run, and with it the people of a fold: spectra are alike,
    # not equal. Without rotation the two matrices would be alike too, with a correlation near one.
    (first, rotated), (second, other) = spectra
    np.testing.assert_allclose(np.log(first[-3:]), np.log(second[-3:]), atol=1.0)
    above = np.triu_indices(len(rotated), 1)
    assert abs(np.corrcoef(rotated[above], other[above])[0, 1]) < 6 / np.sqrt(len(above[0]))


# --- refusals -------------------------------------------------------------------------------------


def test_views_without_shared_people_are_refused():
    apart = MultiView(
        [View("a", np.arange(50), np.ones((50, 1))), View("b", np.arange(50, 99), np.ones((49, 1)))]
    )
    with pytest.raises(DataError, match="no two views share at least 20 people"):
        PrivateCompletion().fit(apart)


def test_a_receiver_with_as_many_columns_as_shared_people_is_refused():
    rng = np.random.default_rng(0)
    views = MultiView(
        [
            View("a", np.arange(90), rng.normal(size=(90, 2))),
            View("b", np.arange(70, 160), rng.normal(size=(90, 25))),
        ]
    )
    with pytest.raises(DataError, match="25 target columns for 20 people"):
        PrivateCompletion(features=8).fit(views)


def test_the_coordinator_and_one_site_twice_cannot_compute():
    members = Membership({"x": ("a", "b"), "y": ("c",)})
    assert PrivateProtocol(members=members).computing_parties == ("a", "c")
    with pytest.raises(SettingError, match="cannot be a computing site"):
        PrivateProtocol(members=members, computing=("a", COORDINATOR))
    with pytest.raises(SettingError, match="two views of different sites"):
        PrivateProtocol(members=members, computing=("a", "b"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: replace(r, words={k: w[:-1] for k, w in r.words.items()}), "of other shapes"),
        (lambda r: replace(r, round=r.round + 1), "needs the shares of round"),
    ],
)
def test_shares_of_a_wrong_shape_or_round_are_refused(change, words):
    protocol, parties = federation(people())
    start = next(k for k, step in enumerate(protocol.steps) if step.name == "learn")
    run_protocol(protocol, [parties], until=start + 1)
    parties.inboxes["lab"] = [change(r) for r in parties.inboxes["lab"]]
    with pytest.raises(DataError, match=words):
        run_protocol(protocol, [parties])


def test_rows_of_a_wrong_shape_are_refused():
    protocol, parties = federation(people())
    start = next(k for k, step in enumerate(protocol.steps) if step.name == "learn")
    run_protocol(protocol, [parties], until=start)
    (release,) = (r for r in parties.inboxes["lab"] if r.sender == "shop")
    short = {label: matrix[:-1] for label, matrix in release.words.items()}
    parties.inboxes["lab"].remove(release)
    parties.inboxes["lab"].append(replace(release, words=short))
    with pytest.raises(DataError, match="of 'shop' must have the shape"):
        run_protocol(protocol, [parties])


# --- cost -----------------------------------------------------------------------------------------


def test_a_run_loads_neither_networks_nor_estimators():
    program = (
        "import sys; from cofill.protocol import PROTOCOLS; PROTOCOLS.load('private'); "
        "print({'jax', 'sklearn', 'pandas', 'scipy.stats'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"set()\n"


def test_at_most_so_many_people_are_learned_from_and_the_others_are_completed(fitted):
    _, views, _ = fitted
    model = small(most_people=100).fit(views)
    plan = model.federation_.coordinator.known
    assert plan.slots == 100 == plan.people.sum()
    for site in model.sites_.values():
        slots = site.placed.slots
        assert (slots == -1).sum() + len(np.unique(slots[slots >= 0])) == len(slots)
        assert slots.max() < 100
    done = model.complete(views)
    assert not any(np.isnan(cells).any() for cells in done.cells.values())


def test_people_asked_about_in_parts_get_the_cells_of_one_request(fitted, monkeypatch):
    model, views, _ = fitted
    expected = model.complete(views)
    monkeypatch.setattr(_private_coordinator, "_FRAME", 2_000_000)  # and words are dealt in frames
    parts = small(most_asked=50)
    done = parts.fit_complete(views)
    dealt = [e.bytes for e in parts.ledger_ if e.kind == "dealt-words"]
    assert len(dealt) > 6
    assert max(dealt) < 2_100_000
    assert len([e for e in parts.ledger_ if e.kind == "padded-cells"]) == 2 * 3
    for name in views:
        np.testing.assert_allclose(done.cells[name], expected.cells[name], atol=1e-3)


def test_many_views_try_fewer_regressions_each_and_give_the_cells_of_a_trusted_machine():
    rng = np.random.default_rng(3)
    trait = rng.normal(size=(N, 2))
    views = MultiView.from_arrays(
        {f"v{k}": trait + 0.1 * rng.normal(size=(N, 2)) for k in range(5)},
        presence={"v0": np.arange(N) >= 10},
    )
    model = small(rounds=1).fit(views)
    known = model.federation_.coordinator.known
    assert variants(known) == (True,)  # of fewer views, products are left out and taken in
    assert any(len(block) == 2 for block in known.blocks)
    assert len(known.penalties) == 5
    asked = model._ask(views)
    for name, targets in plain_targets(model, asked).items():
        np.testing.assert_allclose(asked[name].predicted.targets, targets, atol=1e-4)
    r2 = {(v, f): r for v, f, r in model.reconstructability_.itertuples(index=False)}
    assert min(r2.values()) > 0.9


def test_many_views_have_fewer_features_each_so_that_memory_does_not_grow():
    numbers = {views: PrivateSettings().features_of(views) for views in (2, 3, 4, 5, 6, 10)}
    assert numbers[2] == numbers[3] == numbers[4] == 200
    work = [views * (views * features) ** 2 for views, features in numbers.items() if views > 3]
    assert max(work) == work[0]
    assert PrivateSettings(features=150).features_of(10) == 150  # what is asked for stays
