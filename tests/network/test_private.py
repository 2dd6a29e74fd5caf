"""Completion on secret shares by the network's driver: both drivers' bits, results, refusals."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq

from cofill.network._order import RunOrder, new_run
from cofill.privacy import Ledger
from cofill.protocol import COORDINATOR, Federation, LocalData, Membership, run_protocol
from cofill.views import FilledTable

from .conftest import CANARY, run_in_process

SMALL = {"features": 12, "min_overlap": 10}


def private(here, *args, settings=None, **options):
    """Return a federation whose order is completion on secret shares."""
    federation = here(*args, **options)
    federation.order = RunOrder(new_run(), "private", {**SMALL, **(settings or {})})
    return federation


def repeatable(federation):
    """Let all secrets follow from the seed, so that even masks are the same words in each run."""
    schedule = federation.schedule()
    schedule = replace(schedule, protocol=replace(schedule.protocol, is_reproducible=True))
    federation.schedule = lambda: schedule
    return federation


def places_of(federation) -> dict:
    return {name: federation.place(name) for name in federation.federation.names}


def advance(office, places, *, stop: int) -> None:
    """Run up to a step."""
    while office.next < stop:
        for name in office.schedule.actors(office.next):
            if name == COORDINATOR:
                office.act()
            else:
                office.receive(name, places[name].act(office.next, office.messages_for(name)))
        office.advance()


def step_named(federation, name: str, occurrence: int = 0) -> int:
    """Return the number of a step by its name."""
    numbers = [k for k, step in enumerate(federation.schedule().steps) if step.name == name]
    return numbers[occurrence]


def completed(federation, site: str, view: str) -> np.ndarray:
    table = pq.read_table(federation.results(site) / f"{view}.parquet").sort_by("id")
    return np.stack([table.column(c).to_numpy() for c in table.column_names if c != "id"], axis=1)


def in_one_process(protocol, views):
    """Return each site's data and the federation after the in-process driver has run it."""
    data = {name: LocalData(name, {name: view}, views.ids) for name, view in views.items()}
    parties = {name: protocol.start_site(data[name])[name] for name in data}
    local = Federation(parties, coordinator=protocol.start_coordinator())
    run_protocol(protocol, [local])
    return data, local


# --- the same result --------------------------------------------------------------------------


def test_one_protocol_object_gives_the_same_bits_in_both_drivers(here):
    federation = repeatable(private(here))
    protocol = federation.schedule().protocol
    data, local = in_one_process(protocol, federation.views)
    office = federation.office()
    run_in_process(office, places_of(federation))
    for name in data:
        result = protocol.finish(local.sites[name], data[name])
        assert result.figures.figures.items() <= office.metrics[name].items()
        assert office.metrics[name]["reconstructed_rows"] > 10
        for stem, table in result.tables.items():
            written = pq.read_table(federation.results(name) / f"{stem}.parquet")
            table = table.to_arrow() if isinstance(table, FilledTable) else table
            assert written.sort_by("id").to_pydict() == table.sort_by("id").to_pydict()
    for name in (*data, COORDINATOR):
        sent = [e for e in local.ledger if e.sender == name]
        crossed = [e for e in Ledger.load(federation.ledger(name)) if e.kind != "figures"]
        assert [(e.kind, e.receiver, e.bytes, e.individuals) for e in crossed] == [
            (e.kind, e.receiver, e.bytes, e.individuals) for e in sent
        ]


def test_a_site_may_hold_two_views(here):
    federation = repeatable(private(here, sites={"one": ("a", "b"), "two": ("c",)}))
    office = federation.office()
    run_in_process(office, places_of(federation))
    members = Membership({name: (name,) for name in "abc"})
    three = replace(federation.schedule().protocol, computing=("a", "b"), members=members)
    data, local = in_one_process(three, federation.views)
    for site, name in (("one", "a"), ("one", "b"), ("two", "c")):
        table = three.finish(local.sites[name], data[name]).tables[name].to_arrow().sort_by("id")
        expected = np.stack([table.column(c).to_numpy() for c in table.column_names[1:]], axis=1)
        # Other sites compute, so that shares are cut off at other places: equal but for the
        # rounding of fixed-point numbers, a thousandth of a column's standard deviation.
        difference = np.abs(completed(federation, site, name) - expected)
        assert (difference.max(axis=0) < 2e-3 * expected.std(axis=0)).all()
    crossed = Ledger.load(federation.ledger("one"))
    assert {e.receiver for e in crossed} == {"c", COORDINATOR}


def test_a_sites_randomness_is_not_the_seeds(here):
    federation = private(here)
    secrets, landmarks = [], []
    for _ in range(2):
        federation.order = RunOrder(new_run(), "private", {**SMALL, "seed": 0})
        place = federation.place("a")
        secrets.append(place.parties["a"].secret)
        landmarks.append(place.parties["a"].seed)
    assert secrets[0] != secrets[1]
    assert landmarks[0] != landmarks[1]
    derived = replace(place.protocol, is_reproducible=True).start_site(place.data)["a"]
    assert derived.secret not in secrets
    assert derived.seed not in landmarks


def test_with_the_systems_randomness_cells_are_as_near_the_truth(here):
    federation = private(here)
    run_in_process(federation.office(), places_of(federation))
    repeated = repeatable(private_again(federation))
    run_in_process(repeated.office(), places_of(repeated))
    for name in federation.views:
        known = federation.views.ids
        lacks = ~np.isin(known, federation.views[name].ids)
        cells = completed(repeated, name, name)
        # Folds and features are drawn anew: not equal, and nearer than the noise in the cells.
        drawn = np.abs(completed(federation, name, name)[lacks] - cells[lacks])
        assert drawn.mean() < 0.2 * cells.std(axis=0).mean()
        assert abs(cells.mean() - CANARY) < 1000


def private_again(federation):
    """Return the same sites under a new order; results of the first stay."""
    return replace(
        federation, order=RunOrder(new_run(), "private", dict(federation.order.settings))
    )
