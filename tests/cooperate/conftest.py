"""Short compilations, networks that train in no time, and views of which each can be predicted."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from cofill.cooperate import CooperativeReconstruction
from cofill.nets import FusionSettings, TrainSettings
from cofill.views import MultiView, drop_rows


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="session")
def quick() -> Callable[..., CooperativeReconstruction]:
    """Return a maker of estimators: ridge regression on codes of briefly trained encoders.

    An encoder as wide as its view loses little even untrained, so linear relations stay visible.
    """

    def make(**changes: Any) -> CooperativeReconstruction:
        settings: dict[str, Any] = {
            "fusion": FusionSettings(hidden=(), folds=3),
            "encoder_training": TrainSettings(epochs=30, learning_rate=1e-2),
            "link_training": TrainSettings(epochs=5),
        }
        return CooperativeReconstruction(**{**settings, **changes})

    return make


@pytest.fixture(scope="session")
def related() -> Callable[..., MultiView]:
    """Return a maker of views, three columns each, that are linear maps of common factors."""

    def make(
        n: int = 200, names: str = "abc", *, factors: int = 2, noise: float = 0.1, seed: int = 0
    ) -> MultiView:
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(n, factors))
        views = {}
        for name in names:
            # The same view whatever other views there are.
            generator = np.random.default_rng([seed, ord(name)])
            mixing = generator.normal(size=(factors, 3))
            views[name] = z @ mixing + noise * generator.normal(size=(n, 3))
        return MultiView.from_arrays(views)

    return make


@pytest.fixture(scope="module")
def truth(related):
    return related()


@pytest.fixture(scope="module")
def holed(truth):
    return drop_rows(truth, 0.2, key=1)[0]


@pytest.fixture(scope="module")
def fits(quick, holed):
    """One fit per method, read by many tests."""
    return {m: quick(method=m).fit(holed) for m in ("masked", "fused", "auto")}


@pytest.fixture
def masked(fits):
    return fits["masked"]
