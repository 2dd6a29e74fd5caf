"""A cut line, a black hole, a stopped site or database cost time only, in every protocol."""

import pytest

from . import hooks
from .outages import CASES, breakable_federation, require_whole, run_trial

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning:nvflare", "ignore::pytest.PytestUnhandledThreadExceptionWarning"
    ),
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory, postgres):
    base = tmp_path_factory.mktemp("outages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        hooks.install(patch, base / "hook", hooks.SEEDED)
        with breakable_federation(base, postgres) as parts:
            yield parts


@pytest.mark.parametrize(("experiment", "fault"), CASES)
def test_an_outage_costs_nothing_but_time(broken, experiment, fault):
    require_whole(run_trial(broken, experiment, fault), frozenset("abc"))
