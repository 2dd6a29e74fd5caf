"""An audit of updates and trained networks before anything is sent, from rows and settings."""

import math
import time
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from cofill.attack import (
    LocalRound,
    MatchingSettings,
    as_matrix,
    attack_shadows,
    check_varied,
    invert_updates,
    simulate_update,
    train_shadows,
)
from cofill.audit._audit import Audit
from cofill.audit._bound import bound_of_leak
from cofill.audit._release import AuditedRelease, Claim
from cofill.errors import DataError, SettingError
from cofill.nets import (
    Autoencoder,
    DPSettings,
    TrainSettings,
    recipe,
    require_above_zero,
    require_at_least,
    require_in,
)
from cofill.privacy import SiteNoise, epsilon, guarantee, noise_for, training_event


@dataclass(frozen=True)
class UpdateAuditSettings:
    """What would be trained, and how it is attacked.

    Parameters
    ----------
    widths
        Of the autoencoder behind its input.
    training
        As the network would be trained, without noise.
    epsilon, delta, clip
        The guarantee of the defended variants, and the norm that updates and gradients are clipped
        to.
    rows, steps, sites, trials
        Of a round of training: rows and steps of a site, sites that are summed securely; and how
        many rounds are attacked.
    networks, attacked
        Trained for the membership attack, and of them attacked.
    most_people
        Of more rows so many, drawn at random, are used.
    membership, inversion, matching
        Whether to run either attack, and how rows are searched for.
    seed
        Start of all randomness.
    """

    widths: tuple[int, ...] = (32, 16)
    training: TrainSettings = field(
        default_factory=lambda: TrainSettings(epochs=200, learning_rate=3e-3)
    )
    epsilon: float | int = 1.0
    delta: float | int = 1e-5
    clip: float | int = 1.0
    rows: int = 4
    steps: int = 5
    sites: int = 3
    trials: int = 20
    networks: int = 32
    attacked: int = 8
    most_people: int = 500
    matching: MatchingSettings = field(
        default_factory=lambda: MatchingSettings(starts=4, steps=800)
    )
    membership: bool = True
    inversion: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        require_above_zero(self, "epsilon", "clip")
        require_in(self, "(0, 1)", "delta")
        if not self.widths or any(width < 1 for width in self.widths):
            raise SettingError(f"widths must be one or more of at least 1, got {self.widths}")
        require_at_least(self, rows=1, steps=1, sites=2, trials=2)
        if not (self.membership or self.inversion):
            raise SettingError("membership and inversion must not both be left out")


def audit_update(rows: Any, *, settings: UpdateAuditSettings | None = None) -> Audit:
    """Say what updates of these rows, and a network trained on them, would give away.

    Parameters
    ----------
    rows
        Training rows, one a person; each column is scaled to a deviation of 1 first.
    settings
        Network, training, guarantee and attacks.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(60, 4))
    >>> quick = UpdateAuditSettings(widths=(3,), membership=False, trials=4, rows=1, steps=1,
    ...                             matching=MatchingSettings(starts=1, steps=20))
    >>> audit = audit_update(rows, settings=quick)
    >>> audit.releases[0].individual, audit.releases[-1].individual
    ('near-total', 'none seen')
    """
    settings = settings or UpdateAuditSettings()
    started = time.perf_counter()
    matrix = as_matrix("rows", rows, least=20)
    check_varied("rows", matrix)
    if len(matrix) > settings.most_people:
        rng = np.random.default_rng([settings.seed, 0x0DA7])
        matrix = matrix[np.sort(rng.choice(len(matrix), settings.most_people, replace=False))]
    deviation = matrix.std(axis=0)
    scaled = (matrix - matrix.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    releases: list[AuditedRelease] = []
    if settings.inversion:
        releases += inverted(scaled, settings)
    if settings.membership:
        releases += members(scaled, settings)
    return Audit(
        title="Updates and trained networks, before they are sent",
        releases=tuple(releases),
        settings={"audit": "update", **vars(settings), "people": len(scaled)},
        duration_s=time.perf_counter() - started,
    )


def inverted(
    rows: Float[np.ndarray, "people features"], settings: UpdateAuditSettings
) -> list[AuditedRelease]:
    """Return inverted updates: of one row, of a round, summed over sites, of one row noised."""
    rng = np.random.default_rng([settings.seed, 0x1F5])
    turn = rng.permutation(len(rows))
    half = len(rows) // 2
    site_rows, public = rows[turn[:half]], rows[turn[half:]]
    network = Autoencoder(
        (rows.shape[1], *settings.widths), key=jax.random.key(settings.seed), activation="tanh"
    )
    single = LocalRound(learning_rate=0.1)
    several = LocalRound(steps=settings.steps, learning_rate=0.1)
    noise = SiteNoise(settings.clip, noise_for(settings.epsilon, settings.delta), 1)
    promised = guarantee(
        noise.event(), settings.delta, "Gaussian noise on the clipped update of a site"
    )
    total = f"the sum of {settings.sites} sites' rounds"
    parts: list[tuple[str, str, LocalRound, int, int, bool]] = [
        ("update", "one step on one row", single, 1, 1, False),
        ("update", "a round", several, 1, settings.rows, False),
        ("masked-vector", total, several, settings.sites, settings.rows, False),
        ("update", "one step on one row, clipped and noised", single, 1, 1, True),
    ]
    for _, _, _, sites, count, _ in parts:
        if sites * count > half:
            raise DataError(
                f"rows must be at least {2 * sites * count} for {sites} sites of {count} rows, "
                f"got {len(rows)}"
            )
    releases = []
    for kind, what, local, sites, count, noised in parts:
        orders = [rng.permutation(half)[: sites * count] for _ in range(settings.trials)]
        truth = site_rows[np.stack(orders)].reshape(settings.trials, sites, count, -1)
        changes = np.stack([simulate_update(network, site_trials, local) for site_trials in truth])
        if noised:
            changes = np.stack([noise.protect(np.asarray(c, np.float64), rng=rng) for c in changes])
        leaks = invert_updates(
            network, changes, truth, local=local, public=public, settings=settings.matching
        )
        releases.append(
            AuditedRelease(
                kind=kind,
                sender="site",
                receiver="coordinator",
                what=f"a weight change by {what}",
                individuals=sites * count,
                bytes=4 * changes.shape[1],
                leaks=leaks,
                claim=Claim.of(promised) if noised else None,
                notes=(str(promised),) if noised else (),
            )
        )
    return releases


def members(
    rows: Float[np.ndarray, "people features"], settings: UpdateAuditSettings
) -> list[AuditedRelease]:
    """Return a network trained without and with differential privacy, attacked for members."""
    network = recipe(Autoencoder, (rows.shape[1], *settings.widths), activation="tanh")
    trained = len(rows) // 2  # each shadow network learns from half of the people
    releases = []
    for private in (False, True):
        training = settings.training if not private else private_training(settings, trained)
        key = jax.random.key(settings.seed)
        shadows = train_shadows(rows, network, training, count=settings.networks, key=key)
        leaks = attack_shadows(shadows, attacked=settings.attacked, rates=(0.01,))
        # Of the steps that were taken: a network that started again has cost more than was planned.
        event = training_event(training, trained, shadows.steps)
        claim = None
        if event is not None:
            cost = epsilon(event, settings.delta, neighbours="add or remove one")
            claim = Claim(epsilon=cost, delta=settings.delta, neighbours="add or remove one")
        bounds = (bound_of_leak(leak, delta=settings.delta) for leak in leaks)
        releases.append(
            AuditedRelease(
                kind="model",
                sender="site",
                receiver="whoever has the network",
                what="a network trained " + ("with noised steps" if private else "without noise"),
                individuals=trained,
                leaks=leaks,
                claim=claim,
                proof=next((bound for bound in bounds if bound is not None), None),
                notes=("people count as independent in the proof, which training makes nearly so",),
            )
        )
    return releases


def private_training(settings: UpdateAuditSettings, rows: int) -> TrainSettings:
    """Return the training with noise for the settings' ε.

    Examples
    --------
    >>> private_training(UpdateAuditSettings(), 100).dp.clip_norm
    1.0
    """
    training = settings.training
    batch = min(training.batch_size or rows, rows)
    steps = training.epochs * math.ceil(rows / batch)
    multiplier = noise_for(
        settings.epsilon, settings.delta, rate=batch / rows, steps=steps, rows=rows
    )
    return replace(training, dp=DPSettings(float(settings.clip), multiplier))
