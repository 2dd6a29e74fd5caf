"""A site that cooperates: its view, what it has learned, and what its peers have sent it."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
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
from cofill.impute import JointGaussian
from cofill.nets import Fusion
from cofill.privacy import Codes, CodeSpec, blind, no_tokens, rows_of
from cofill.views import Scaler, View

Rows = Float[np.ndarray, "rows width"]
Report = Callable[[float], None]  # called with the share of a step that is done

# A view never changes, and hashing a million ids takes seconds: each view is blinded once.
_TOKENS: WeakKeyDictionary[View, dict[bytes, np.ndarray]] = WeakKeyDictionary()


@storable
@dataclass(frozen=True, eq=False)
class ViewEncoder:
    """A site's autoencoder; it awaits needs until a pilot has shown what its receivers need."""

    network: Any
    spec: CodeSpec
    awaits_needs: bool = False


@storable
@dataclass(frozen=True, eq=False)
class Link:
    """A model from one peer's codes to local cells: the paper's network, or a one-group fusion.

    ``out_of_fold`` predicts the rows it was learned from by models fitted without those rows.
    """

    spec: CodeSpec
    center: Float[np.ndarray, " width"]
    scale: Float[np.ndarray, " width"]
    network: Any = None
    fusion: Fusion | None = None
    out_of_fold: Float[np.ndarray, "rows cells"] | None = None

    def standardise(self, codes: Rows) -> Rows:
        """Return codes as the link was trained on them."""
        # The paper's links take codes as they are; skipping the arithmetic keeps them float32.
        if not self.center.any() and (self.scale == 1).all():
            return codes
        return (codes - self.center) / self.scale


@storable
@dataclass(frozen=True, eq=False)
class ViewModel:
    """What a site has learned to reconstruct its view from its peers' codes.

    Attributes
    ----------
    links
        A link per usable peer.
    statistics
        Of the links' outputs, from which masks for any pattern of peers are made; sources in the
        order of `links`. None when nothing can be reconstructed or only a fusion was learned.
    fusion, use_fusion
        One fusion over all codes, and whether it, not the masked links, predicts.
    residuals, link_residuals
        Of predictions for the site's linked rows by a model that had not seen them (in-sample for
        the paper's method without `mask_folds`, which has no others), and of each link alone. None
        when nothing can be reconstructed.
    own_cells
        Of the site's cells and predictions of them together, for people known in part; None where
        every row is complete.
    seen
        Tokens of the rows that the model was learned from.
    """

    links: Mapping[str, Link] = field(default_factory=dict)
    statistics: MaskStatistics | None = None
    fusion: Fusion | None = None
    use_fusion: bool = False
    residuals: Residuals | None = None
    link_residuals: Mapping[str, Residuals] = field(default_factory=dict)
    own_cells: JointGaussian | None = None
    seen: np.ndarray = field(default_factory=no_tokens)


@storable
@dataclass(frozen=True, eq=False)
class ReconstructedRows:
    """Encoded cells (numbers, probabilities of coded cells) of whom some peer sent a code."""

    tokens: np.ndarray
    expected: Rows


@storable
@dataclass(frozen=True, eq=False)
class PsiState:
    """A site's key of the private set intersection, and per peer the tokens both can name."""

    key: bytes = field(repr=False)
    common: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class CooperativeSite:
    """One party of the protocol. A value: steps return changed copies.

    It holds one view, and of its peers only what they sent: blinded ids and codes.

    Attributes
    ----------
    secret
        Blinds ids; at first the site's own part of it, after the agreement the common one.
    people
        Ids that the site may name although its view has no row of them, or None.
    psi
        State of the private set intersection; None where ids are aligned by hashes alone.
    sent_tokens, trained
        By peer, whose codes it has already, and by kind, how many networks were trained.
    encoder_key
        Starts the first weights of the encoder and never leaves the site; empty where they may
        follow from the seed, which everybody knows.
    noise_key, noisy_codes
        Starts the noise on codes and never leaves the site; and every noisy code drawn so far,
        which is sent again when it is asked for again.
    """

    name: str
    view: View
    settings: CooperativeSettings
    seed: int
    secret: bytes = field(repr=False)
    peers: tuple[str, ...] = ()
    people: np.ndarray | None = None
    psi: PsiState | None = None
    scaler: Scaler | None = None
    typical: Float[np.ndarray, " features"] | None = None
    encoder: ViewEncoder | None = None
    model: ViewModel = field(default_factory=ViewModel)
    peer_tokens: Mapping[str, np.ndarray] = field(default_factory=dict)
    peer_codes: Mapping[str, Codes] = field(default_factory=dict)
    sent_tokens: Mapping[str, np.ndarray] = field(default_factory=dict)
    reconstructed: ReconstructedRows | None = None
    notes: tuple[str, ...] = ()
    is_refining: bool = False
    trained: Mapping[str, int] = field(default_factory=dict)
    encoder_key: bytes = field(default=b"", repr=False)
    noise_key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    noisy_codes: Codes | None = None

    @property
    def tokens(self) -> np.ndarray:
        """Blinded ids of the view's rows, in the view's order."""
        by_secret = _TOKENS.setdefault(self.view, {})
        if self.secret not in by_secret:
            by_secret[self.secret] = blind(self.view.ids, self.secret)
        return by_secret[self.secret]

    @property
    def fitted_scaler(self) -> Scaler:
        """The scaler, or a `DataError` before the first step."""
        if self.scaler is None:
            raise DataError(f"site {self.name!r} has not been fitted; fit it first")
        return self.scaler

    @property
    def fitted_encoder(self) -> ViewEncoder:
        """The encoder, or a `DataError` before it was trained."""
        if self.encoder is None:
            raise DataError(f"site {self.name!r} has no encoder; fit it first")
        return self.encoder

    def encoded(self, rows: Int[np.ndarray, " rows"] | None = None) -> Rows:
        """Return the view's rows, or those at some positions, as networks see them; NaN unknown."""
        return self.fitted_scaler.encode_view(self.view, rows=rows)[0]

    def with_(self, **changes: Any) -> CooperativeSite:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def count_trained(self, **counts: int) -> CooperativeSite:
        """Return a copy that has trained so many more networks of some kinds."""
        sums = {kind: self.trained.get(kind, 0) + count for kind, count in counts.items()}
        return replace(self, trained={**self.trained, **sums})


def named_seed(seed: int, *names: str) -> int:
    """Return a seed for one purpose, the same whoever else takes part and in whatever order."""
    words = "\n".join(names).encode()
    return int(np.random.SeedSequence([seed, *words]).generate_state(1)[0] >> 1)


def gather_codes(
    codes: Codes | None, link: Link, tokens: np.ndarray
) -> tuple[Rows, Bool[np.ndarray, " rows"]]:
    """Return standardised codes for tokens, zero where the peer sent none, and which it sent."""
    if codes is None:
        return np.zeros((len(tokens), link.spec.width)), np.zeros(len(tokens), bool)
    positions = rows_of(codes.tokens, tokens)
    is_sent = positions >= 0
    sent = link.standardise(codes.codes[positions[is_sent]])
    rows = np.zeros((len(tokens), link.spec.width), sent.dtype)
    rows[is_sent] = sent
    return rows, is_sent


def fit_in_groups(
    items: Sequence[Any],
    key: Callable[[Any], Hashable],
    fit: Callable[[list[Any], Any, Report], Sequence[Any]],
    report_progress: Report,
) -> list[Any]:
    """Return what `fit` makes of each item; items with equal keys are fitted in one call.

    Networks with equal settings train as one program, which makes sites and repeats cheap.
    """
    groups: dict[Any, list[int]] = {}
    for position, item in enumerate(items):
        groups.setdefault(key(item), []).append(position)
    results: list[Any] = [None] * len(items)
    for number, (group_key, positions) in enumerate(groups.items()):

        def report_share(share: float, before: int = number) -> None:
            report_progress((before + share) / len(groups))

        fitted = fit([items[position] for position in positions], group_key, report_share)
        for position, result in zip(positions, fitted, strict=True):
            results[position] = result
    return results
