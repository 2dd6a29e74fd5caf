"""What may leave a site: declared releases, the gate and ledger, mechanisms, accounting, sums."""

from cofill.privacy._accounting import Method, epsilon, noise_for, resolve_relation
from cofill.privacy._bounds import Ball, Bounds, Box
from cofill.privacy._checks import (
    require_delta,
    require_one_of,
    require_positive,
    require_whole,
)
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
from cofill.privacy._mechanisms import MeanDefence, MeanNoise, NoisyMean
from cofill.privacy._noise import NoiseKind, draw_noise, noise_generator, noise_step
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
from cofill.privacy._sealing import (
    MessageAddress,
    open_message,
    seal_message,
    sealing_public_key,
    signing_public_key,
)
from cofill.privacy._secure_coordinator import (
    deliver_shares,
    make_rosters,
    name_survivors,
    unmask_sum,
)
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
    advertise_keys,
    mask_vector,
    reveal_shares,
    share_secrets,
)
from cofill.privacy._sent import SentLog, SentStep
from cofill.privacy._sgd import sgd_event, training_event
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
    "MeanNoise",
    "Member",
    "MessageAddress",
    "Method",
    "ModelWeights",
    "Needs",
    "Neighbours",
    "NoiseKind",
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
    "advertise_keys",
    "blind",
    "checked",
    "clip_norm",
    "compose",
    "decode_releases",
    "deliver_shares",
    "digest_of",
    "draw_noise",
    "encode_releases",
    "epsilon",
    "guarantee",
    "in_order",
    "make_rosters",
    "mask_vector",
    "name_survivors",
    "no_tokens",
    "noise_for",
    "noise_generator",
    "noise_step",
    "open_message",
    "release_types",
    "require_delta",
    "require_one_of",
    "require_positive",
    "require_whole",
    "resolve_relation",
    "reveal_shares",
    "rows_of",
    "seal_message",
    "sealing_public_key",
    "sgd_event",
    "share_secrets",
    "signing_public_key",
    "training_event",
    "union",
    "unmask_sum",
]
