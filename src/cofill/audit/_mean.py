"""An audit of the mean of a class before it is released, plain and with noise.

Whoever has the records without the class, and the mean of one class, guesses everybody's class. For
people whose record went into the mean this can be a leak about them; for people whose record did
not, it is inference about a population. Both are measured on the same attack, and the leak about
individuals is what the first have above the second.
"""

import time
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from jaxtyping import Bool, Float

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
    require_least,
    share_leak,
)
from cofill.audit._audit import Audit
from cofill.audit._bound import CONFIDENCE, prove_epsilon
from cofill.audit._release import AuditedRelease, Claim
from cofill.errors import DataError, SettingError
from cofill.pages import Curve
from cofill.privacy import Box, Budget, Gate, Ledger, MeanDefence, MeanNoise

_PER_COORDINATE = "laplace per coordinate"
_WHO: dict[str, Any] = {"sender": "site", "receiver": "public"}


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
        Of more people so many, drawn at random, are attacked.
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
    most_people: int = 4000
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
        require_least(self, repeats=1, most_people=20)

    def defence(self, noise: str, bounds: Box, strength: float | int | None = None) -> MeanDefence:
        """Return a mechanism at the settings' strength, or at another."""
        usual = self.per_coordinate if noise == _PER_COORDINATE else self.epsilon
        delta = 0.0 if noise == "laplace" else self.delta
        chosen: Any = noise
        return MeanDefence(bounds, usual if strength is None else strength, delta, chosen)


@dataclass(frozen=True, eq=False)
class _Case:
    """People whose class is attacked, in units of the bounds."""

    records: Float[np.ndarray, "people features"]
    rows: Float[np.ndarray, "people features"]
    labels: Bool[np.ndarray, " people"]
    contributed: Bool[np.ndarray, " people"]
    bounds: Box
    floor: float
    control: float
    ceiling: float
    settings: MeanAuditSettings

    @property
    def of_mean(self) -> Float[np.ndarray, "rows features"]:
        """The records that the mean is of."""
        return self.rows[self.labels & self.contributed]

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
        width = self.rows.shape[1]
        return (mean - self.bounds.centre_of(width)) / self.bounds.unit_of(width)


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
        Whose record goes into the mean; a random half when left out, so that there are others to
        compare with.
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
    plain = case.in_units(bounds.clip(case.of_mean).mean(axis=0))
    releases = [
        AuditedRelease(
            kind="mean",
            **_WHO,
            what=f"the mean of a class of {len(case.of_mean)} records, without noise",
            individuals=len(case.of_mean),
            bytes=plain.nbytes,
            leaks=_leaks(case, case.right(plain, None)),
        )
    ]
    releases += [_noisy(case, plan) for plan in plans.values()]
    return Audit(
        title="A mean, before it is released",
        releases=tuple(releases),
        curves=tuple(_curve(case, noise) for noise in settings.mechanisms),
        settings={
            "audit": "mean",
            **vars(settings),
            "people": len(case.labels),
            "features": case.rows.shape[1],
        },
        duration_s=time.perf_counter() - started,
    )


def _case(
    records: Any, labels: Any, bounds: Box, contributed: Any, settings: MeanAuditSettings
) -> _Case:
    rows = as_matrix("records", records, least=20)
    check_varied("records", rows)
    truth = _flags("labels", labels, rows)
    rng = np.random.default_rng([settings.seed, 0x3EA2])
    inside = rng.permutation(len(rows)) % 2 == 0
    if contributed is not None:
        inside = _flags("contributed", contributed, rows)
    if len(rows) > settings.most_people:
        chosen = np.sort(rng.choice(len(rows), settings.most_people, replace=False))
        rows, truth, inside = rows[chosen], truth[chosen], inside[chosen]
    if (truth & inside).sum() < 2:
        raise DataError(
            "at least 2 people of the class must contribute to the mean, got "
            f"{int((truth & inside).sum())}; the mean of one person is their record"
        )
    units = bounds.in_units(rows)
    check_varied("records within the bounds", units)
    judged = judge_guesses(units, truth, truth, {}, seed=settings.seed)
    floor, control = judged["floor"]["larger_class"], judged["floor"]["clusters"]
    ceiling = judged["ceiling"]["supervised"]
    return _Case(units, rows, truth, inside, bounds, floor, control, ceiling, settings)


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


def _leaks(case: _Case, right: Bool[np.ndarray, " people"]) -> tuple[Leak, ...]:
    """Return what an attacker knows of contributors, and of others by the same mean."""
    inside, outside = (
        (int(right[chosen].sum()), int(chosen.sum()))
        for chosen in (case.contributed, ~case.contributed)
    )
    (low, high), (other_low, other_high) = exact_interval(*inside), exact_interval(*outside)
    share_of_others = outside[0] / outside[1]
    facts: dict[str, Any] = {
        "threat": "somebody who has everybody's record without the class, and the class's released "
        "mean and share, guesses who belongs to the class",
        "figure": "accuracy",
        "floor": case.floor,
    }
    return (
        share_leak(
            *inside,
            **facts,
            name="labels from the mean, contributors",
            scope="individual",
            control=share_of_others,
            ceiling=max(case.ceiling, inside[0] / inside[1]),
            gain=(low - other_high, high - other_low),
            sizes={"contributors": inside[1]},
            notes=("the control is the same attack on people who are not in the mean",),
        ),
        share_leak(
            *outside,
            **facts,
            name="labels from the mean, others",
            scope="population",
            control=case.control,
            ceiling=max(case.ceiling, share_of_others),
            sizes={"others": outside[1]},
            notes=("the control is clustering of the records, under the best naming",),
        ),
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
        leaks=_leaks(case, case.right(case.in_units(released.mean), _noise(case, plan))),
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
    unit = case.bounds.unit_of(case.rows.shape[1])
    return Noise(released.noise, float((released.scale / unit)[0]))


def _curve(case: _Case, noise: str) -> Curve:
    settings = case.settings
    alone = noise == _PER_COORDINATE
    strengths = settings.coordinate_epsilons if alone else settings.epsilons
    deviation = case.rows.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    true = case.bounds.clip(case.of_mean).mean(axis=0)
    count = int(case.contributed.sum())
    points: list[tuple[float, ...]] = []
    labels = []
    for strength in strengths:
        plan = settings.defence(noise, case.bounds, strength)
        promised = plan.guarantee(case.rows.shape[1])
        means = plan.draws(case.of_mean, settings.repeats, rng=settings.seed)
        known = _noise(case, plan)
        right = [case.right(case.in_units(mean), known)[case.contributed] for mean in means]
        share = float(np.mean([hits.mean() for hits in right]))
        wrong = float(np.sqrt((((means - true) / deviation) ** 2).mean()))
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
