"""A hostile site wants to set or stop the result of all: impossible claims are named."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.cluster._kmeans_settings import KMeansSettings
from cofill.cluster._parties import ClusterCoordinator, received_sums
from cofill.cluster._rows import ColumnKinds
from cofill.errors import DataError, SettingError
from cofill.federate import FederatedProtocol, Shape
from cofill.federate._parties import Coordinator, make_coordinator
from cofill.federate._rounds import round_steps
from cofill.means import MeanProtocol
from cofill.privacy import Columns, ColumnSummary, GroupSums, MaskedVector, NoisyMean, Update
from cofill.privacy._checks import is_count, is_figures
from cofill.protocol import COORDINATOR, LocalData, Membership
from cofill.views import Feature, View

SETTINGS = {"epsilon": 1.0, "low": 0.0, "high": 1.0, "view": "u"}


@pytest.fixture
def honest() -> list[NoisyMean]:
    protocol = MeanProtocol.from_settings(SETTINGS, members())
    rows = np.random.default_rng(0).uniform(size=(80, 3))
    return [
        protocol.defence.release(rows, sender=name, receiver="coordinator") for name in "abcdef"
    ]


def members() -> Membership:
    return Membership(dict.fromkeys("abcdef", ("u",)), ("u",))


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ({"mean": np.full(3, 1e300)}, "further outside the bounds than its noise"),
        ({"mean": np.full(3, 5.0)}, "further outside the bounds than its noise"),
        ({"rows": 10**400}, "claims a number of rows that nobody has"),
        ({"rows": 10**18}, "claims a number of rows that nobody has"),
        ({"mean": np.full(3, 9.0), "scale": np.full(3, 1e9)}, "further outside the bounds"),
    ],
)
def test_an_impossible_mean_is_left_out_and_named(honest, claim, words):
    protocol = MeanProtocol.from_settings(SETTINGS, members())
    claimed = [*honest[:5], replace(honest[5], **claim)]
    step = protocol.steps[1]
    ((coordinator, _),) = step.run([protocol.start_coordinator()], [tuple(claimed)], print)
    result = protocol.summarise(coordinator)
    assert set(result["sites"]) == set("abcde")
    assert [words in note and "site 'f'" in note for note in result["notes"]] == [True]
    assert (np.abs(np.array(result["mean"]) - 0.5) < 0.3).all()


def test_honest_means_are_taken(honest):
    protocol = MeanProtocol.from_settings(SETTINGS, members())
    ((coordinator, _),) = protocol.steps[1].run(
        [protocol.start_coordinator()], [tuple(honest)], print
    )
    assert len(coordinator.means) == 6
    assert coordinator.notes == ()


# --- rounds ---------------------------------------------------------------------------------------

SITES = "abcdefghij"


def coordinator_of(size: int = 4, **settings) -> Coordinator:
    """Return a coordinator in its first round, with a model of a few weights."""
    members = Membership(dict.fromkeys(SITES, ("u",)), ("u",))
    protocol = FederatedProtocol.from_settings({"secure": False, **settings}, members)
    shape = Shape(("u",), (2,), None, bounded=False)
    coordinator = make_coordinator(
        tuple(SITES), protocol.design.make_learner(shape), protocol.design
    )
    return replace(coordinator, weights=np.zeros(size, np.float32), invited=tuple(SITES))


def updates_of(claims: dict[str, dict]) -> list[Update]:
    """Return honest updates near one, and what hostile sites claim."""
    rng = np.random.default_rng(0)
    honest = {"round": 1, "receiver": COORDINATOR, "rows": 50}
    return [
        Update(
            **{"sender": name, "change": rng.normal(1, 0.1, 4).astype(np.float32), **honest}
            | claims.get(name, {})
        )
        for name in SITES
    ]


def aggregate(coordinator: Coordinator, updates: list[Update]) -> Coordinator:
    step = round_steps()[-1]
    ((after, _),) = step.run([coordinator], [tuple(updates)], print)
    return after


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ({"change": np.full(4, 1e300)}, "more than 1e+06, which no training makes"),
        ({"change": np.full(4, 1e38, np.float32)}, "more than 1e+06, which no training makes"),
        ({"rows": 10**400}, "claims more than 10,000,000,000 individuals"),
        ({"rows": 2**52}, "claims more than 10,000,000,000 individuals"),
    ],
)
def test_an_impossible_update_is_left_out_and_named(claim, words):
    after = aggregate(coordinator_of(), updates_of({"f": claim}))
    assert [words in note and "site 'f'" in note for note in after.notes] == [True]
    assert (np.abs(after.weights - 1) < 0.2).all()


def test_a_claim_of_more_rows_than_agreed_is_left_out_and_named():
    coordinator = coordinator_of(robust={"rule": "mean", "most_rows": 100})
    after = aggregate(coordinator, updates_of({"f": {"rows": 101, "change": np.full(4, 9.0)}}))
    assert after.notes == ("round 1: site 'f' claims more than 100 individuals; left out",)


POISON = {"change": np.full(4, -1e5, np.float32), "rows": 10**9}
ROBUST = [{}, {"rule": "trimmed", "trim": 0.3}, {"rule": "median", "norm": 5.0}]


@pytest.mark.parametrize("poisoned", ["f", "dfh"])
@pytest.mark.parametrize("robust", ROBUST)
def test_hostile_sites_do_not_set_a_robust_mean(robust, poisoned):
    claims = dict.fromkeys(poisoned, POISON)
    after = aggregate(coordinator_of(robust=robust), updates_of(claims))
    assert (np.abs(after.weights - 1) < 0.3).all()
    # The attack itself: the plain mean is theirs.
    assert (aggregate(coordinator_of(), updates_of(claims)).weights < -1e4).all()


def test_a_bound_on_norms_limits_what_one_site_moves():
    coordinator = coordinator_of(
        robust={"rule": "mean", "norm": 3.0}, strategy={"name": "fedavg", "by_rows": False}
    )
    after = aggregate(coordinator, updates_of({"f": POISON}))
    assert np.linalg.norm(after.weights - 1) < 2 * 3.0 / 10 + 0.3


@pytest.mark.parametrize("rule", ["median", "trimmed"])
def test_a_rule_that_needs_every_update_is_refused_under_secure_sums(rule):
    with pytest.raises(SettingError, match=f"a robust {rule} needs every site's own update, which"):
        coordinator_of(secure=True, robust={"rule": rule})
    coordinator_of(secure=True, robust={"rule": "mean", "norm": 1.0})


# --- secure sums ----------------------------------------------------------------------------------


def falsify(messages, change):
    """Return what a site sends, its masked vector changed."""
    return [change(m) if isinstance(m, MaskedVector) else m for m in messages]


def random_words(vector: MaskedVector) -> MaskedVector:
    words = np.random.default_rng(1).integers(0, 2**64, len(vector.words), np.uint64)
    return replace(vector, words=words)


def run_secure(change, stage: int, **settings) -> None:
    """Run a federation of three in one process, in which site c falsifies its words of a sum."""
    rows = {
        name: {"u": View("u", np.arange(12), cells[:, :2]), "v": View("v", np.arange(12), cells)}
        for name, cells in own_rows().items()
    }
    members = Membership(dict.fromkeys(rows, ("u", "v")), ("u", "v"))
    chosen = {"rounds": 1, "batch": 8, "network": {"width": 4, "blocks": 1}, **settings}
    protocol = FederatedProtocol.from_settings(chosen, members)
    parties = {}
    for name, views in rows.items():
        parties |= protocol.start_site(LocalData(name, views))
    parties[COORDINATOR] = protocol.start_coordinator()
    mail: list = []
    masks = 0
    for step in protocol.steps:
        names = [COORDINATOR] if step.at == "coordinator" else list(rows)
        inboxes = [tuple(m for m in mail if m.receiver == name) for name in names]
        results = step.run([parties[name] for name in names], inboxes, lambda _: None)
        mail = []
        masks += step.name == "mask"
        for name, (party, outbox) in zip(names, results, strict=True):
            parties[name] = party
            hostile = name == "c" and step.name == "mask" and masks == stage
            mail += falsify(outbox, change) if hostile else outbox


def own_rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {name: rng.uniform(0, 1, size=(12, 3)) for name in "abc"}


def more_rows(vector: MaskedVector) -> MaskedVector:
    return replace(vector, rows=vector.rows + 100)


def one_large(vector: MaskedVector) -> MaskedVector:
    words = vector.words.copy()
    words[:3] += np.uint64(2**58)
    return replace(vector, words=words)


@pytest.mark.parametrize(
    ("change", "stage", "words"),
    [
        (random_words, 1, "survey: no secure sum: the sum holds numbers"),
        (random_words, 2, "round 1: no secure sum: the sum holds numbers"),
        (more_rows, 2, "round 1: the sum does not weigh what its sites say"),
        (one_large, 2, "round 1: the sum is longer than the norm of 5"),
    ],
)
def test_false_words_end_the_round_and_name_the_sites_of_the_sum(change, stage, words):
    with pytest.raises(DataError, match=words) as caught:
        run_secure(change, stage, robust={"rule": "mean", "norm": 5.0})
    assert "'a', 'b', 'c'" in str(caught.value)


def test_a_mean_outside_declared_bounds_is_refused_in_a_secure_survey():
    def shifted(vector: MaskedVector) -> MaskedVector:
        words = vector.words.copy()
        # The digits of the first column's sum, above the point of its unit of 2^-256.
        words[32 + 16 : 32 + 18] += np.uint64(60)
        return replace(vector, words=words)

    with pytest.raises(DataError, match="survey: the sums of columns are of no rows that 'a', 'b'"):
        run_secure(shifted, 1, bounds={"u": [0.0, 1.0]})
    run_secure(lambda vector: vector, 1, bounds={"u": [0.0, 1.0]})


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({0: 1e18}, "more cells than individuals"),
        ({1: 7.0}, "a mean outside of the declared bounds"),
        ({1: 1e300}, "a mean outside of the declared bounds"),
    ],
)
def test_an_impossible_summary_of_columns_is_refused_and_named(figures, words):
    members = Membership(dict.fromkeys("abc", ("u",)), ("u",))
    settings = {"secure": False, "bounds": {"u": [0.0, 1.0]}}
    protocol = FederatedProtocol.from_settings(settings, members)
    columns = Columns(
        sender=COORDINATOR, receiver="", features={"u": (Feature("x"), Feature("y"))}, shapes={}
    )
    coordinator = replace(protocol.start_coordinator(), columns=columns)
    honest = np.array([[20.0, 20], [0.5, 0.5], [1, 1], [0, 0], [0, 0]])
    inbox = []
    for name in "abc":
        claimed = honest.copy()
        for row, value in (figures if name == "b" else {}).items():
            claimed[row] = value
        inbox.append(
            ColumnSummary(sender=name, receiver=COORDINATOR, columns={"u": claimed}, rows=20)
        )
    with pytest.raises(DataError, match=words) as caught:
        protocol.steps[3].run([coordinator], [tuple(inbox)], print)
    assert "site 'b'" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"counts": np.array([-5.0, 9.0])}, "of fewer than no individuals"),
        ({"counts": np.array([1e18, 9.0])}, "of more individuals than there are"),
        ({"sums": np.full((2, 3), 1e300)}, "or of larger cells than tables have"),
    ],
)
def test_impossible_sums_of_groups_are_refused_and_named(change, words):
    settings = KMeansSettings(k=2)
    kinds = ColumnKinds(("x", "y", "z"), (True, True, True))
    coordinator = ClusterCoordinator(("a", "b"), kinds, settings, "none", 0)
    honest = GroupSums(
        sender="a",
        receiver=COORDINATOR,
        round=0,
        sums=np.ones((2, 3)),
        counts=np.array([4.0, 9.0]),
    )
    inbox = (honest, replace(honest, sender="b", **change))
    with pytest.raises(DataError, match=f"sums from 'b' are .*{words}"):
        received_sums(coordinator, inbox, (2, 3))


def test_a_number_that_fits_no_float_is_refused_with_the_message():
    assert not is_count(10**400)
    assert not is_figures({"loss": 10**400})
