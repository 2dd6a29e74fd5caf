"""A thousand sites, a cohort of fifty: memory does not grow with the rounds."""

import gc
import tracemalloc

import numpy as np
import pytest

from cofill.federate import (
    CompletionNet,
    LocalSettings,
    RoundSettings,
    Rows,
    Shape,
)

# An entry of the ledger, which must grow: about a hundred a round.
ENTRY = 4_000


@pytest.mark.full
def test_a_thousand_sites_run_in_bounded_memory(toy):
    rng = np.random.default_rng(0)
    shape = Shape(("a", "b"), (8, 8))
    held = {}
    for k in range(1000):
        n = int(rng.integers(4, 12))
        cells = rng.normal(size=(n, 16)).astype(np.float32)
        held[f"site_{k:04d}"] = Rows(cells, np.ones((n, 16), bool), np.ones((n, 2), bool))
    learner = CompletionNet(shape, width=64, blocks=2)
    made = toy.encoded(
        held,
        learner,
        local=LocalSettings(batch=8, moments="reset"),
        settings=RoundSettings(rounds=40, participation=0.05, secure=False),
    )
    taken = []

    def after(number):
        gc.collect()
        taken.append((tracemalloc.get_traced_memory()[0], len(made.ledger)))

    toy.run_rounds([made], until=5)  # what is compiled and kept once
    tracemalloc.start()
    toy.run_rounds([made], after=after)
    tracemalloc.stop()
    (first, before), (last, entries) = taken[4], taken[-1]
    weights = made.coordinator.weights.nbytes
    assert weights > 50_000
    # Had every site that was ever invited kept moments, that would be hundreds of models.
    grown = last - first - ENTRY * (entries - before)
    assert grown < 10 * weights
    assert all(site.moments is None and site.update is None for site in made.sites.values())
    assert [entry["sites"] for entry in made.coordinator.curve] == [50] * 40
    assert len({e.sender for e in made.ledger}) > 500
