"""A view that two sites hold, of different people, by the network's driver."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.audit import audit_run
from cofill.errors import DataError
from cofill.network._policy import SitePolicy
from cofill.network._policy_check import Request, refusals
from cofill.privacy import Ledger
from cofill.views import to_table, write_table

from .conftest import CANARY, marked_views, run_in_process
from .test_audit import run_and_gather
from .test_private import completed, places_of, private

SITES = {"north": ("a",), "south": ("a",), "fund": ("b", "c")}


@pytest.fixture
def federation(here):
    return private(here, sites=SITES)


def test_two_sites_of_one_view_complete_their_people_and_an_audit_sees_nothing(
    federation, tmp_path
):
    folder = run_and_gather(federation, tmp_path / "federation")
    views = marked_views()
    for site in ("north", "south"):
        assert {path.name for path in federation.results(site).iterdir()} == {
            "a.parquet",
            "a_origin.parquet",
            "a_notes.txt",
        }
        cells = completed(federation, site, "a")
        assert len(cells) == views.n_individuals
        lacks = ~np.isin(views.ids, views["a"].ids)
        assert np.abs(cells[lacks].mean(axis=0) - CANARY).max() < 2000
    # Whom neither has, both are told of alike.
    alike = [completed(federation, site, "a")[lacks] for site in ("north", "south")]
    np.testing.assert_allclose(*alike)
    sent = {e.kind for e in Ledger.load(federation.ledger("south"))}
    assert {"columns", "masked-vector", "masked-rows"} <= sent
    audit = audit_run(folder.path)
    masked = {r.sender: r.individual for r in audit.releases if r.kind == "masked-rows"}
    assert masked == dict.fromkeys(("a@north", "a@south", "b", "c"), "none seen")


def test_a_run_goes_on_from_the_survey(federation):
    office = federation.office()
    for _ in range(9):  # every step in new objects, as after a crash
        number = office.next
        places = places_of(federation)
        for name in office.schedule.actors(number):
            if name == "coordinator":
                office.act()
            else:
                office.receive(name, places[name].act(number, office.messages_for(name)))
        office.advance()
        office = federation.office()
    run_in_process(office, places_of(federation))
    assert office.metrics["a@north"]["reconstructed_rows"] > 10


def test_other_columns_at_one_of_the_sites_end_the_run_in_one_sentence(federation):
    part = marked_views()["a"].select(["a_0", "a_1"])
    write_table(to_table(part), federation.base / "south" / "a.parquet")
    with pytest.raises(DataError, match="'a' has other columns"):
        run_in_process(federation.office(), places_of(federation))


def test_a_default_policy_asks_for_a_word_on_sums_over_two_sites(federation):
    request = Request(federation.schedule(), "me@here.org")
    order = replace(federation.order, settings={"features": 6, "min_overlap": 20})
    schedule = replace(
        request.schedule,
        order=order,
        protocol=order.make_protocol(federation.federation.membership),
    )
    sentences = " ".join(refusals(SitePolicy(), replace(request, schedule=schedule)))
    assert "[without_guarantee.masked-vector]" in sentences
    assert "a sum over 2 sites could be opened" in sentences
