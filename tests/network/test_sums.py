"""Tables learned from sums, over the network's driver: the model and cells of one process."""

import numpy as np
import pytest

from cofill.federate import FederatedCompletion
from cofill.privacy import Gate, Ledger
from cofill.protocol import COORDINATOR

from .conftest import row_sites
from .test_by_row import drive, require_equal

SUMS = {"rounds": 14, "secure": True, "seed": 5}  # nothing about training: tables from sums


@pytest.fixture(scope="module")
def summed() -> FederatedCompletion:
    held = row_sites(n=180)
    return FederatedCompletion(rounds=14, secure=True, seed=5).fit_sites(held)


@pytest.mark.parametrize("stops", [(), (30, 75)])
def test_sums_make_the_very_model_that_one_process_makes(rows_here, summed, stops):
    held = row_sites(n=180)
    federation = rows_here("federate", SUMS, held)
    for stop in stops:
        drive(federation, stop=stop)
    office = drive(federation)  # taken up from what is on disk
    assert summed.learner_.name == office.runner.parties[COORDINATOR].learner.name == "sums"
    np.testing.assert_array_equal(office.runner.parties[COORDINATOR].weights, summed.weights_)
    own = [site.correction for site in summed.federation_.sites.values()]
    assert all(correction is not None for correction in own)  # fifty people weigh their own trees
    require_equal(federation, held, summed)
    kinds = {e.kind for e in Ledger.load(federation.ledger("a"))}
    assert "masked-vector" in kinds
    assert "update" not in kinds


@pytest.mark.parametrize("stop", [12, 16])
def test_a_site_pays_once_for_the_noisy_sums_of_a_run_that_is_taken_up(rows_here, stop):
    federation = rows_here("federate", {"epsilon": 2.0, "secure": True}, row_sites(n=180))
    assert drive(federation, stop=stop).next == stop
    office = drive(federation)
    assert office.runner.parties[COORDINATOR].learner.name == "noisy sums"
    ledger = Ledger.load(federation.ledger("a"))
    paid = [entry for entry in ledger if entry.event is not None]
    assert [entry.kind for entry in paid] == ["masked-vector"]
    assert Gate(ledger).spent_by_site()["a"] == pytest.approx(2.0, rel=1e-3)
