"""Fixed point on shares against plain numbers where rounding is felt most: the least penalty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.cooperate.plain_computer import plain_targets

from cofill.cooperate import PrivateCompletion
from cofill.views import drop_rows, load


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_the_least_penalty_gives_the_cells_of_plain_arithmetic(seed):
    views = drop_rows(load("wdbc").views, 0.3, key=seed)[0]
    model = PrivateCompletion(seed=seed).fit(views)
    federation = model.federation_
    for variant in (0, 1):
        choices = {
            view: np.stack([np.full(chosen.shape[1], variant), np.zeros(chosen.shape[1], int)])
            for view, chosen in federation.coordinator.choices.items()
        }
        federation.coordinator = replace(federation.coordinator, choices=choices)
        for name, site in federation.sites.items():
            if site.number is not None:
                federation.sites[name] = replace(site, choices=choices)
        asked = model._ask(views)
        for name, expected in plain_targets(model, asked).items():
            np.testing.assert_allclose(asked[name].predicted.targets, expected, rtol=0, atol=1e-3)
