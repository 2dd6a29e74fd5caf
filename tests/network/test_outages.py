"""A cut line, a black hole and a stopped site cost nothing but time, in every protocol."""

import pytest

from . import hooks
from .outages import LONGEST_STALL_S, ORDERS, SECONDS, relayed_federation, run_trial

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning:nvflare", "ignore::pytest.PytestUnhandledThreadExceptionWarning"
    ),
]


@pytest.fixture(scope="module")
def relayed(tmp_path_factory):
    base = tmp_path_factory.mktemp("outages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        hooks.install(patch, base / "hook", hooks.SEEDED)
        with relayed_federation(base) as parts:
            yield parts


@pytest.mark.parametrize("fault", SECONDS)
@pytest.mark.parametrize("experiment", ORDERS)
def test_an_outage_costs_nothing_but_time(relayed, experiment, fault):
    trial = run_trial(*relayed, experiment, fault)
    assert (trial.state, trial.why) == ("finished", "")
    assert trial.notes == ()
    assert trial.stall < LONGEST_STALL_S
    assert trial.results == {"a", "b", "c"}
