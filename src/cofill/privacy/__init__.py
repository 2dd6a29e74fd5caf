"""What may leave a site: declared releases, the gate and ledger, mechanisms, accounting, sums."""

from cofill.privacy._accounting import Method, epsilon, noise_for
from cofill.privacy._bounds import Ball, Bounds, Box
from cofill.privacy._clip import SiteNoise, clip_norm
from cofill.privacy._events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    Neighbours,
    SampledGaussianEvent,
    Unit,
    compose,
)
from cofill.privacy._fixed_point import FixedPoint
from cofill.privacy._gate import Budget, Gate
from cofill.privacy._guarantee import Guarantee, guarantee
from cofill.privacy._ledger import Ledger, LedgerEntry
from cofill.privacy._mechanisms import (
    MeanDefence,
    NoisyMean,
    gaussian,
    laplace,
    laplace_per_coordinate,
)
from cofill.privacy._release import (
    BlindedIds,
    BlindingPart,
    Codes,
    CodeSpec,
    Columns,
    EncryptedIds,
    Needs,
    Release,
)
from cofill.privacy._sealing import identity_of
from cofill.privacy._secure_releases import (
    MaskedVector,
    PublicKeys,
    RevealedShares,
    Roster,
    SealedShares,
    Survivors,
)
from cofill.privacy._secure_sum import (
    Member,
    advertise,
    call_roll,
    deliver,
    mask,
    reveal,
    share,
    tell_survivors,
    unmask,
)
from cofill.privacy._sgd import sgd_event, shuffled_event, training_event
from cofill.privacy._tokens import blind, in_order, no_tokens, rows_of, union
from cofill.privacy._updates import ColumnSummary, Figures, GroupSums, Model, Update

__all__ = [
    "Ball",
    "BlindedIds",
    "BlindingPart",
    "Bounds",
    "Box",
    "Budget",
    "CodeSpec",
    "Codes",
    "ColumnSummary",
    "Columns",
    "ComposedEvent",
    "EncryptedIds",
    "Event",
    "Figures",
    "FixedPoint",
    "Gate",
    "GaussianEvent",
    "GroupSums",
    "Guarantee",
    "LaplaceEvent",
    "Ledger",
    "LedgerEntry",
    "MaskedVector",
    "MeanDefence",
    "Member",
    "Method",
    "Model",
    "Needs",
    "Neighbours",
    "NoisyMean",
    "PublicKeys",
    "Release",
    "RevealedShares",
    "Roster",
    "SampledGaussianEvent",
    "SealedShares",
    "SiteNoise",
    "Survivors",
    "Unit",
    "Update",
    "advertise",
    "blind",
    "call_roll",
    "clip_norm",
    "compose",
    "deliver",
    "epsilon",
    "gaussian",
    "guarantee",
    "identity_of",
    "in_order",
    "laplace",
    "laplace_per_coordinate",
    "mask",
    "no_tokens",
    "noise_for",
    "reveal",
    "rows_of",
    "sgd_event",
    "share",
    "shuffled_event",
    "tell_survivors",
    "training_event",
    "union",
    "unmask",
]
