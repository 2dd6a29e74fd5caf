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
    Release,
    checked,
    decode_releases,
    digest_of,
    encode_releases,
    release_types,
)
from cofill.privacy._row_releases import (
    ColumnScales,
    ColumnSummary,
    GroupCentres,
    GroupSums,
    ModelWeights,
    RunFigures,
    Update,
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
from cofill.privacy._sent import SentLog, SentStep
from cofill.privacy._sgd import sgd_event, shuffled_event, training_event
from cofill.privacy._tokens import blind, in_order, no_tokens, rows_of, union
from cofill.privacy._view_releases import (
    BlindedIds,
    BlindingPart,
    Codes,
    CodeSpec,
    Columns,
    EncryptedIds,
    Needs,
)

__all__ = [
    "Ball",
    "BlindedIds",
    "BlindingPart",
    "Bounds",
    "Box",
    "Budget",
    "CodeSpec",
    "Codes",
    "ColumnScales",
    "ColumnSummary",
    "Columns",
    "ComposedEvent",
    "EncryptedIds",
    "Event",
    "FixedPoint",
    "Gate",
    "GaussianEvent",
    "GroupCentres",
    "GroupSums",
    "Guarantee",
    "LaplaceEvent",
    "Ledger",
    "LedgerEntry",
    "MaskedVector",
    "MeanDefence",
    "Member",
    "Method",
    "ModelWeights",
    "Needs",
    "Neighbours",
    "NoisyMean",
    "PublicKeys",
    "Release",
    "RevealedShares",
    "Roster",
    "RunFigures",
    "SampledGaussianEvent",
    "SealedShares",
    "SentLog",
    "SentStep",
    "SiteNoise",
    "Survivors",
    "Unit",
    "Update",
    "advertise",
    "blind",
    "call_roll",
    "checked",
    "clip_norm",
    "compose",
    "decode_releases",
    "deliver",
    "digest_of",
    "encode_releases",
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
    "release_types",
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
