"""A site that cooperates: its view, what it has learned, and what others have sent it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Bool, Float, Int

from cofill.codec import storable
from cofill.cooperate._masks import MaskStatistics
from cofill.cooperate._residuals import Residuals
from cofill.cooperate._settings import CooperativeSettings
from cofill.errors import DataError
from cofill.nets import Fusion
from cofill.privacy import Codes, CodeSpec, blind, no_tokens, rows_of
from cofill.views import Scaler, View

__all__ = ["Answer", "CooperativeSite", "Encoder", "Link", "Model"]

# A view never changes, and hashing a million ids takes seconds: each view is blinded once.
_TOKENS: WeakKeyDictionary[View, dict[bytes, np.ndarray]] = WeakKeyDictionary()


@storable
@dataclass(frozen=True, eq=False)
class Encoder:
    """A site's autoencoder, and what others need to know of its codes.

    ``awaits_needs`` while a pilot has not yet told which directions of the code others need.
    """

    network: Any
    spec: CodeSpec
    awaits_needs: bool = False


@storable
@dataclass(frozen=True, eq=False)
class Link:
    """What makes local cells of one peer's codes: the paper's network, or a one-group fusion.

    ``out_of_fold`` are guesses for the rows it was learned from by others that had not seen them.
    """

    spec: CodeSpec
    center: Float[np.ndarray, " width"]
    scale: Float[np.ndarray, " width"]
    network: Any = None
    fusion: Fusion | None = None
    out_of_fold: Float[np.ndarray, "rows cells"] | None = None

    def scaled(self, codes: Float[np.ndarray, "rows width"]) -> Float[np.ndarray, "rows width"]:
        """Return codes as the link's learner saw them."""
        if not self.center.any() and (self.scale == 1).all():
            return codes
        return (codes - self.center) / self.scale


@storable
@dataclass(frozen=True, eq=False)
class Model:
    """What a site has learned to reconstruct its view from its peers' codes.

    Attributes
    ----------
    links
        A link per usable peer.
    statistics
        Of the links' guesses, from which masks for any pattern are made; sources in the links'
        order. None when nothing can be reconstructed or only a fusion was learned.
    fusion
        One fusion over all codes, or None.
    use_fusion
        Whether the fusion, not the masked links, predicts.
    residuals
        Of predictions for the site's linked rows by a model that had not seen them (in-sample for
        the paper's method without `mask_folds`, which has no others). None when nothing can be
        reconstructed.
    seen
        Tokens of the rows that the model was learned from.
    """

    links: Mapping[str, Link] = field(default_factory=dict)
    statistics: MaskStatistics | None = None
    fusion: Fusion | None = None
    use_fusion: bool = False
    residuals: Residuals | None = None
    link_residuals: Mapping[str, Residuals] = field(default_factory=dict)
    seen: np.ndarray = field(default_factory=no_tokens)


@storable
@dataclass(frozen=True, eq=False)
class Answer:
    """What a site has reconstructed: a row for everyone of whom some peer sent a code.

    Attributes
    ----------
    tokens
        The individuals.
    expected
        Encoded cells: numbers, and probabilities of coded cells.
    """

    tokens: np.ndarray
    expected: Float[np.ndarray, "rows width"]


@dataclass(frozen=True, eq=False)
class CooperativeSite:
    """One party of the protocol. A value: steps return changed copies.

    It holds one view, and of the others only what they sent: blinded ids and codes. ``noise_key``
    starts the noise on its codes and never leaves it; ``noised`` is every noisy code it has drawn,
    which it sends again when asked again.
    """

    name: str
    view: View
    settings: CooperativeSettings
    seed: int
    secret: bytes
    others: tuple[str, ...] = ()
    scaler: Scaler | None = None
    typical: Float[np.ndarray, " features"] | None = None
    encoder: Encoder | None = None
    model: Model = field(default_factory=Model)
    peer_tokens: Mapping[str, np.ndarray] = field(default_factory=dict)
    peer_codes: Mapping[str, Codes] = field(default_factory=dict)
    sent: Mapping[str, np.ndarray] = field(default_factory=dict)
    answer: Answer | None = None
    notes: tuple[str, ...] = ()
    refines: bool = False
    trained: Mapping[str, int] = field(default_factory=dict)
    noise_key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    noised: Codes | None = None

    @property
    def tokens(self) -> np.ndarray:
        """Blinded ids of the view's rows, in the view's order."""
        known = _TOKENS.setdefault(self.view, {})
        if self.secret not in known:
            known[self.secret] = blind(self.view.ids, self.secret)
        return known[self.secret]

    @property
    def fitted_scaler(self) -> Scaler:
        """The scaler, or a `DataError` before the first step."""
        if self.scaler is None:
            raise DataError(f"site {self.name!r} has not been fitted; fit it first")
        return self.scaler

    def encoded(
        self, rows: Int[np.ndarray, " rows"] | None = None
    ) -> Float[np.ndarray, "rows width"]:
        """Return the view's rows as the networks see them, NaN where a cell is not known.

        With `rows`, positions in the view, only these.
        """
        return self.fitted_scaler.encode_view(self.view, rows=rows)[0]

    def with_(self, **changes: Any) -> CooperativeSite:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def counted(self, **more: int) -> CooperativeSite:
        """Return a copy that remembers having trained more networks of some kinds."""
        counts = {k: self.trained.get(k, 0) + n for k, n in more.items()}
        return replace(self, trained={**self.trained, **counts})


def named_seed(seed: int, *names: str) -> int:
    """Return a seed for one purpose, the same whoever else takes part and in whatever order."""
    words = "\n".join(names).encode()
    return int(np.random.SeedSequence([seed, *words]).generate_state(1)[0] >> 1)


def gathered(
    codes: Codes | None, link: Link, wanted: np.ndarray
) -> tuple[Float[np.ndarray, "rows width"], Bool[np.ndarray, " rows"]]:
    """Return scaled codes for tokens, zero where the peer sent none, and which it sent."""
    if codes is None:
        return np.zeros((len(wanted), link.spec.width)), np.zeros(len(wanted), bool)
    at = rows_of(codes.tokens, wanted)
    there = at >= 0
    if there.all():
        return link.scaled(codes.codes[at]), there
    known = link.scaled(codes.codes[at[there]])
    out = np.zeros((len(wanted), link.spec.width), known.dtype)
    out[there] = known
    return out, there
