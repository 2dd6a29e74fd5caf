"""A hostile site wants to set or stop the result of all: impossible claims are named."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.means import MeanProtocol
from cofill.privacy import NoisyMean
from cofill.protocol import Membership

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
