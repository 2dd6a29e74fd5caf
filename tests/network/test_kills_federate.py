"""Whatever is killed at a random moment of a run in rounds, nothing is lost."""

import pytest

from .kill_series import Series

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    with Series.start("federate", tmp_path_factory.mktemp("kills")) as series:
        yield series


@pytest.mark.parametrize("seed", range(20))
def test_a_kill_at_a_random_moment_loses_nothing(series, seed):
    series.run_trial(seed)  # raises where something was lost, left behind or sent twice
