"""An audit of the mean of a class before it is released, plain and with noise.

Whoever has the records without the class, and the mean of one class, guesses everybody's class. For
people whose record went into the mean this can be a leak about them; for people whose record did
not, it is inference about a population. Both are measured on the same attack, and the leak about
individuals is what the first have above the second.

Where everybody is in the mean, as in most releases, nobody is left to compare with. Then the same
people are guessed twice: by the mean that would be released, and by the mean that it would be
without them and a tenth of the others.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from cofill.attack import (
    MEAN_ATTACKS,
    AttackFailed,
    Leak,
    Noise,
    as_matrix,
    check_same_people,
    check_varied,
    exact_interval,
    judge_guesses,
    make_mean_attack,
)
from cofill.audit._audit import Audit
from cofill.audit._bound import CONFIDENCE, prove_epsilon
from cofill.audit._mean_leaks import mean_leaks
from cofill.audit._release import AuditedRelease, Claim
from cofill.errors import DataError, SettingError
from cofill.nets import require_at_least
from cofill.pages import Curve
from cofill.privacy import Box, Budget, Gate, Ledger, MeanDefence, MeanNoise

_PER_COORDINATE = "laplace per coordinate"
_WHO: dict[str, Any] = {"sender": "site", "receiver": "public"}
# Parts that are left out of the mean in turn. With fewer, the mean of the rest differs by more than
# one person's absence, which would pass for a leak; each costs another attack.
_PARTS = 10


@dataclass(frozen=True)
class MeanAuditSettings:
    """How a mean is audited.

    Parameters
    ----------
    mechanisms
        Noise to try: ``"gaussian"`` and ``"laplace"``, by the sensitivity of the whole record, and
        ``"laplace per coordinate"``, the papers' way.
    epsilon, delta
        The guarantee of the first two.
    per_coordinate
        ε that the third claims, for each coordinate alone.
    epsilons, coordinate_epsilons
        Strengths along the curves, of the first two and of the third.
    method
        Attack on the mean, a name in `cofill.attack.MEAN_ATTACKS`.
    repeats
        Draws of noise at each point of a curve.
    draws, confidence
        Releases from either neighbour, to prove an ε (None for as many as take a second or two),
        and the confidence of what is proved.
    most_people
        Of more people so many, drawn at random, are attacked; None to attack everybody. The mean is
        of all who contribute in either case.
    seed
        Start of all randomness.
    """

    mechanisms: tuple[str, ...] = ("gaussian", "laplace", _PER_COORDINATE)
    epsilon: float | int = 1.0
    delta: float | int = 1e-5
    per_coordinate: float | int = 0.01
    epsilons: tuple[float | int, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    coordinate_epsilons: tuple[float | int, ...] = (0.001, 0.003, 0.01, 0.03, 0.1)
    method: str = "likelihood"
    repeats: int = 3
    draws: int | None = None
    most_people: int | None = None
    confidence: float = CONFIDENCE
    seed: int = 0

    def __post_init__(self) -> None:
        known = get_args(MeanNoise)
        for name in self.mechanisms:
            if name not in known:
                raise SettingError(f"mechanisms must be among {', '.join(known)}, got {name!r}")
        if not self.mechanisms:
            raise SettingError("mechanisms must hold at least one, got none")
        MEAN_ATTACKS.find(self.method)
        require_at_least(self, repeats=1, most_people=20)

    def defence(self, noise: str, bounds: Box, strength: float | int | None = None) -> MeanDefence:
        """Return a mechanism at the settings' strength, or at another."""
        usual = self.per_coordinate if noise == _PER_COORDINATE else self.epsilon
        delta = 0.0 if noise == "laplace" else self.delta
        chosen: Any = noise
        return MeanDefence(bounds, usual if strength is None else strength, delta, chosen)


@dataclass(frozen=True, eq=False)
class _Case:
    """People whose class is attacked, in units of the bounds, and all whose mean is released.

    ``parts`` says in which part of the people each is, for those attacked and those in the mean; it
    is None where some people are in the mean and others are not.
    """

    records: Float[np.ndarray, "people features"]
    labels: Bool[np.ndarray, " people"]
    contributed: Bool[np.ndarray, " people"]
    of_mean: Float[np.ndarray, "rows features"]
    deviation: Float[np.ndarray, " features"]
    bounds: Box
    floor: float
    control: float
    ceiling: float
    settings: MeanAuditSettings
    parts: tuple[np.ndarray, np.ndarray] | None

    @property
    def width(self) -> int:
        """Columns of a record."""
        return self.of_mean.shape[1]

    def right(
        self, mean: Float[np.ndarray, " features"], noise: Noise | None
    ) -> Bool[np.ndarray, " people"]:
        """Return whether an attacker with this mean guesses each person's class."""
        prior = float(self.labels.mean())
        attack = make_mean_attack(self.settings.method, seed=self.settings.seed)
        try:
            guesses = attack.fit(self.records, mean=mean, prior=prior, noise=noise).labels_
        except AttackFailed:
            guesses = np.full(len(self.labels), prior > 0.5)
        return guesses == self.labels

    def in_units(self, mean: np.ndarray) -> np.ndarray:
        """Return a mean in units of the bounds, as the records are."""
        return (mean - self.bounds.centre_of(self.width)) / self.bounds.unit_of(self.width)

    def right_both(
        self, release: Callable[[np.ndarray], np.ndarray], noise: Noise | None
    ) -> tuple[Bool[np.ndarray, " contributors"], Bool[np.ndarray, " others"]]:
        """Return who is guessed right of those in the mean, and of those who are not.

        ``release`` makes a mean of rows. Where everybody is in the mean, others are the same people
        in the same order, each guessed by the mean without their part.
        """
        right = self.right(self.in_units(release(self.of_mean)), noise)
        if self.parts is None:
            return right[self.contributed], right[~self.contributed]
        attacked, averaged = self.parts
        without = np.zeros_like(right)
        for part in np.unique(averaged):
            mean = self.in_units(release(self.of_mean[averaged != part]))
            without[attacked == part] = self.right(mean, noise)[attacked == part]
        return right, without


def audit_mean(
    records: Any,
    labels: Any,
    bounds: Box,
    *,
    contributed: Any = None,
    budget: float | int | None = None,
    settings: MeanAuditSettings | None = None,
) -> Audit:
    """Say what releasing the mean of a class would give away, plain and with noise.

    Parameters
    ----------
    records
        One row a person, which the attacker has.
    labels
        Who belongs to the class, which they want to know.
    bounds
        Public bounds of a record, never taken from the records.
    contributed
        Whose record goes into the mean; everybody's when left out.
    budget
        ε that the site may spend; a planned release that would cost more is refused.
    settings
        Mechanisms, strengths and attack.

    Raises
    ------
    SettingError
        If a mechanism would exceed the budget, or a setting is not possible.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> label = np.arange(200) < 80
    >>> rows = rng.normal(size=(200, 3)) / 4 + label[:, None] / 2
    >>> quick = MeanAuditSettings(mechanisms=("gaussian",), epsilons=(1.0,), draws=2000, repeats=1)
    >>> audit = audit_mean(rows, label, Box(-1.0, 2.0), settings=quick)
    >>> [release.kind for release in audit.releases], audit.refuted
    (['mean', 'noisy-mean'], ())
    """
    settings = settings or MeanAuditSettings()
    started = time.perf_counter()
    case = _case(records, labels, bounds, contributed, settings)
    plans = {noise: settings.defence(noise, bounds) for noise in settings.mechanisms}
    if budget is not None:
        for plan in plans.values():
            _afford(plan, case, budget)
    plain = bounds.clip(case.of_mean).mean(axis=0)
    releases = [
        AuditedRelease(
            kind="mean",
            **_WHO,
            what=f"the mean of a class of {len(case.of_mean)} records, without noise",
            individuals=len(case.of_mean),
            bytes=plain.nbytes,
            leaks=_leaks(case, lambda rows: bounds.clip(rows).mean(axis=0), None),
        )
    ]
    releases += [_noisy(case, plan) for plan in plans.values()]
    notes = ()
    if len(case.labels) < len(records):
        notes = (f"{len(case.labels):,} of {len(records):,} people were attacked, drawn at random",)
    return Audit(
        title="A mean, before it is released",
        releases=tuple(releases),
        curves=tuple(_curve(case, noise) for noise in settings.mechanisms),
        settings={
            "audit": "mean",
            **vars(settings),
            "people": len(records),
            "attacked": len(case.labels),
            "features": case.width,
        },
        notes=notes,
        duration_s=time.perf_counter() - started,
    )


def _case(
    records: Any, labels: Any, bounds: Box, contributed: Any, settings: MeanAuditSettings
) -> _Case:
    rows = as_matrix("records", records, least=20)
    check_varied("records", rows)
    truth = _flags("labels", labels, rows)
    rng = np.random.default_rng([settings.seed, 0x3EA2])
    inside = np.ones(len(rows), dtype=bool)
    if contributed is not None:
        inside = _flags("contributed", contributed, rows)
    is_member = truth & inside
    if is_member.sum() < 2:
        raise DataError(
            "at least 2 people of the class must contribute to the mean, got "
            f"{int(is_member.sum())}; the mean of one person is their record"
        )
    chosen = np.arange(len(rows))
    if settings.most_people is not None and len(rows) > settings.most_people:
        chosen = np.sort(rng.choice(len(rows), settings.most_people, replace=False))
        _flags("labels of the people drawn", truth[chosen], rows[chosen])
    parts = None
    if contributed is None:
        part = _parts(is_member, rng)
        parts = part[chosen], part[is_member]
    units = bounds.in_units(rows[chosen])
    check_varied("records within the bounds", units)
    judged = judge_guesses(units, truth[chosen], truth[chosen], {}, seed=settings.seed)
    deviation = rows.std(axis=0)
    return _Case(
        records=units,
        labels=truth[chosen],
        contributed=inside[chosen],
        of_mean=rows[is_member],
        deviation=np.where(deviation > 0, deviation, 1.0),
        bounds=bounds,
        floor=judged["floor"]["larger_class"],
        control=judged["floor"]["clusters"],
        ceiling=judged["ceiling"]["supervised"],
        settings=settings,
        parts=parts,
    )


def _parts(
    is_member: Bool[np.ndarray, " people"], rng: np.random.Generator
) -> Int[np.ndarray, " people"]:
    """Return a part for each person, such that each part has an equal share of the class."""
    count = min(_PARTS, int(is_member.sum()))
    part = np.empty(len(is_member), dtype=int)
    for chosen in (is_member, ~is_member):
        part[chosen] = rng.permutation(int(chosen.sum())) % count
    return part


def _flags(what: str, values: Any, rows: np.ndarray) -> Bool[np.ndarray, " people"]:
    flags = np.asarray(values)
    check_same_people(records=rows, **{what: flags})
    if flags.ndim != 1 or flags.dtype != np.bool_:
        raise DataError(
            f"{what} must be one truth value a person, got the shape {flags.shape} of type "
            f"{flags.dtype}"
        )
    if flags.all() or not flags.any():
        raise DataError(f"{what} must be true of some people and false of others, got one kind")
    return flags


def _afford(plan: MeanDefence, case: _Case, budget: float | int) -> None:
    """Take a planned release through a site's gate, which refuses what exceeds the budget."""
    delta = plan.delta or case.settings.delta
    gate = Gate(Ledger(), {"site": Budget(budget, delta)})
    gate.pass_on(plan.release(case.of_mean, **_WHO, rng=case.settings.seed), "what if")


def _leaks(
    case: _Case, release: Callable[[np.ndarray], np.ndarray], noise: Noise | None
) -> tuple[Leak, ...]:
    inside, outside = case.right_both(release, noise)
    return mean_leaks(
        inside,
        outside,
        is_paired=case.parts is not None,
        floor=case.floor,
        control=case.control,
        ceiling=case.ceiling,
    )


def _noisy(case: _Case, plan: MeanDefence) -> AuditedRelease:
    settings = case.settings
    released = plan.release(case.of_mean, **_WHO, rng=settings.seed)
    claim, notes = Claim.of(released.guarantee), (str(released.guarantee),)
    if plan.noise == _PER_COORDINATE:
        claim = Claim(
            epsilon=plan.epsilon, delta=0.0, by="who counts each coordinate alone, as the papers do"
        )
        notes = (f"the claim is for one coordinate; of the record it is {released.guarantee}",)
    return AuditedRelease(
        kind=released.kind,
        **_WHO,
        what=f"the mean of a class of {released.rows} records with {plan.noise} noise",
        individuals=released.n_individuals,
        bytes=released.n_bytes,
        leaks=_leaks(
            case,
            lambda rows: plan.release(rows, **_WHO, rng=settings.seed).mean,
            _noise(case, plan),
        ),
        claim=claim,
        proof=prove_epsilon(
            plan,
            case.of_mean,
            delta=claim.delta,
            draws=settings.draws,
            confidence=settings.confidence,
            seed=settings.seed,
        ),
        notes=notes,
    )


def _noise(case: _Case, plan: MeanDefence) -> Noise:
    """Return the noise of a mechanism in units of the bounds, where it is the same everywhere."""
    released = plan.release(case.of_mean, **_WHO, rng=case.settings.seed)
    unit = case.bounds.unit_of(case.width)
    return Noise(released.noise, float((released.scale / unit)[0]))


def _curve(case: _Case, noise: str) -> Curve:
    settings = case.settings
    alone = noise == _PER_COORDINATE
    strengths = settings.coordinate_epsilons if alone else settings.epsilons
    true = case.bounds.clip(case.of_mean).mean(axis=0)
    count = int(case.contributed.sum())
    points: list[tuple[float, ...]] = []
    labels = []
    for strength in strengths:
        plan = settings.defence(noise, case.bounds, strength)
        promised = plan.guarantee(case.width)
        means = plan.draws(case.of_mean, settings.repeats, rng=settings.seed)
        known = _noise(case, plan)
        right = [case.right(case.in_units(mean), known)[case.contributed] for mean in means]
        share = float(np.mean([hits.mean() for hits in right]))
        wrong = float(np.sqrt((((means - true) / case.deviation) ** 2).mean()))
        interval = exact_interval(round(share * count), count)
        points.append((promised.epsilon, share, wrong, *interval))
        whole = f" for each coordinate, {promised.pure_epsilon or 0:.3g} for the record"
        labels.append(f"ε = {strength:g}{whole if alone else ''}")
    x, leak, wrong, low, high = zip(*points, strict=True)
    return Curve(
        name=f"{noise} noise",
        strength=f"ε of the record (δ = {0 if noise == 'laplace' else settings.delta:g})",
        x=x,
        leak=leak,
        leak_name="share of contributors whose class is guessed",
        utility=wrong,
        utility_name="error of the mean, in standard deviations of the records",
        low=low,
        high=high,
        floor=case.floor,
        labels=tuple(labels),
    )
