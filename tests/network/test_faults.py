"""A fault in every step of every protocol costs nothing but time."""

import pytest

from .fault_series import FAULTS, MAKERS, check_series, run_series

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:nvflare")


@pytest.fixture(scope="module")
def ends() -> dict:
    """How runs end that nothing has happened to, by experiment."""
    return {}


@pytest.mark.parametrize(
    ("experiment", "fault"),
    [
        *(("mean", fault) for fault in FAULTS),
        ("federate-secure", "kill"),
        ("cluster", "kill"),
        *(
            pytest.param(experiment, fault, marks=pytest.mark.full)
            for experiment in MAKERS
            for fault in FAULTS
            if experiment != "mean"
        ),
    ],
)
def test_a_fault_in_every_step_changes_no_result_and_no_ledger(ends, experiment, fault):
    if experiment not in ends:
        ends[experiment], _ = run_series(experiment, None, 0)
    series, again = check_series(experiment, fault, 17, ends[experiment])
    # Answers and tables are the sites': the coordinator's own step has neither.
    assert len(series.trials) >= (2 if fault in ("lost answer", "source gone") else 3)
    assert again == 0


def test_a_series_sees_what_is_lost(ends, monkeypatch):
    """A party that forgot what it had done would end otherwise."""
    end, _ = run_series("mean", None, 0)
    monkeypatch.setattr("cofill.protocol.RunFolder.read_attempt", lambda folder: None)
    listed = [check_series("mean", "kill", seed, end)[1] for seed in range(4)]
    assert sum(listed) > 0
