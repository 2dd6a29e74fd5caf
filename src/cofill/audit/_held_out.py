"""People held out of views: what systems learn from, what they are asked, what a judge knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool

from cofill.views import Kind, MultiView, Scaler


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """A split of people into those who are learned from and those whose rows are asked.

    Parameters
    ----------
    seed
        Of the systems.
    train
        What systems are fitted on.
    tests
        Per view, the people whose row is asked; the view itself is empty in them.
    truth
        Per view, the true rows of those people.
    """

    seed: int
    train: MultiView
    tests: Mapping[str, MultiView]
    truth: Mapping[str, np.ndarray]

    @cached_property
    def scalers(self) -> dict[str, tuple[list[int], Scaler | None]]:
        """Per view its numeric columns and their scaler, fitted on training rows."""
        by_view: dict[str, tuple[list[int], Scaler | None]] = {}
        for v in self.tests:
            view = self.train[v]
            numeric = [k for k, f in enumerate(view.features) if f.kind is Kind.NUMERIC]
            names = [view.feature_names[k] for k in numeric]
            by_view[v] = (numeric, Scaler.fit(view.select(names)) if names else None)
        return by_view

    def standardised(self, name: str, cells: np.ndarray) -> np.ndarray:
        """Return the numeric cells of a view in standardised units."""
        numeric, scaler = self.scalers[name]
        return scaler.encode(cells[:, numeric].astype(np.float64)) if scaler else cells[:, []]


def hold_out(views: MultiView, test: Bool[np.ndarray, " individuals"], seed: int) -> HeldOut:
    """Hold people out of complete views.

    Examples
    --------
    >>> views = MultiView.from_arrays({"a": np.eye(4), "b": np.ones((4, 2))})
    >>> held = hold_out(views, np.arange(4) == 3, seed=0)
    >>> held.train.n_individuals, held.truth["a"].shape, len(held.tests["a"]["a"])
    (3, (1, 4), 0)
    """
    asked = views.take(test)
    everyone = np.ones(asked.n_individuals, dtype=bool)
    return HeldOut(
        seed,
        views.take(~test),
        {v: asked.hide({v: everyone}) for v in views},
        {v: asked[v].cells for v in views},
    )
