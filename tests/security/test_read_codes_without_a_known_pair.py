"""A receiver of codes wants the rows: an untrained encoder, whose weights it knows."""

from dataclasses import replace

import numpy as np
import pytest
from tests.network.conftest import OPEN
from tests.network.test_place import until

from cofill.errors import SettingError
from cofill.network._order import RunOrder, new_run
from cofill.network._policy import TrainingBounds
from cofill.privacy import Codes
from cofill.protocol import LocalData
from cofill.views import MultiView, View

# As good as no training: the encoder stays what it was at first.
UNTRAINED = {"encoder_training": {"epochs": 5, "learning_rate": 1e-12}, "seed": 5}
UNTRAINED["alignment"] = "hash"  # as tokens come does not matter here


def known_network(schedule, view: View):
    """Return the encoder that follows from the order alone, by training on rows of one's own."""
    protocol = replace(schedule.protocol, is_reproducible=True)
    rng = np.random.default_rng(1)
    own_rows = View(view.name, view.ids, rng.normal(size=view.cells.shape), view.features)
    parties = protocol.start_site(LocalData("a", {"a": own_rows}))
    ((site, _),) = schedule.steps[2].run(list(parties.values()), [()], print)
    return site.fitted_encoder.network.encoder


def rows_read(federation) -> np.ndarray:
    """Return what the order alone makes of the codes that site a has sent, before their scaling."""
    office, places = until(federation, 5)
    (codes,) = (
        release
        for step in places["a"].folder.sent
        for release in step.releases
        if isinstance(release, Codes) and release.receiver == "b"
    )
    view = federation.views["a"]
    encoder = known_network(office.schedule, view)
    (weights,), (biases,) = encoder.weights, encoder.biases
    guesses = (np.arctanh(codes.codes) - np.asarray(biases)) @ np.linalg.pinv(np.asarray(weights)).T
    by_token = dict(zip(codes.tokens.tolist(), guesses, strict=True))
    tokens = places["a"].parties["a"].tokens
    unseen = np.full(view.cells.shape[1], np.nan)
    return np.stack([by_token.get(token, unseen) for token in tokens.tolist()])


def likeness(federation, guesses: np.ndarray) -> float:
    """Return how much of the rows' variance the guesses explain, at best."""
    cells = federation.views["a"].cells
    seen = ~np.isnan(guesses).any(axis=1)
    pairs = zip(guesses[seen].T, cells[seen].T, strict=True)
    return float(np.mean([np.corrcoef(guess, cell)[0, 1] ** 2 for guess, cell in pairs]))


def unlike_columns() -> MultiView:
    """Return views of columns that have nothing in common, so that no mixture of them passes."""
    rng = np.random.default_rng(0)
    ids = [f"p{k}" for k in range(60)]
    return MultiView.from_arrays({name: rng.normal(size=(60, 8)) for name in "abc"}, ids=ids)


@pytest.mark.parametrize("is_reproducible", [True, False])
def test_first_weights_are_the_sites_own(here, is_reproducible):
    federation = here(unlike_columns())
    federation.order = RunOrder(new_run(), "cooperate", UNTRAINED)
    federation.is_reproducible = is_reproducible
    explained = likeness(federation, rows_read(federation))
    # Weights that follow from the order give every row away, which shows that the attack works.
    assert explained > 0.999 if is_reproducible else explained < 0.5


def test_a_training_that_leaves_the_weights_alone_is_refused(here):
    federation = here()
    federation.order = RunOrder(new_run(), "cooperate", UNTRAINED)
    with pytest.raises(SettingError, match=r"learning_rate must be from 1e-05 to 0\.1"):
        federation.place("a", policy=replace(OPEN, training=TrainingBounds()))
