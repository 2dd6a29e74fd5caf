"""Several releases about the same class: repeated answers, and a mean for each group of records.

Answers to the same question differ in their noise only, and their average, weighted by how little
noise each has, is one better answer. Means of the positives of known groups (wards, branches,
months) say more than their average: each is another set of sums of the labels. One regression goes
by the sum of them all; what it leaves unexplained of a group's own mean, a regression of that group
explains on top, as far as noise lets it be believed. Small groups of records with many features are
given away entirely.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit
from sklearn.base import BaseEstimator

from cofill.attack._base import Noise, check_enough, check_mean, check_prior, check_records
from cofill.attack._discriminant import direction_of
from cofill.attack._likelihood import fit_logistic
from cofill.attack._selftraining import SelfTraining
from cofill.attack._spread import spread_of
from cofill.errors import DataError, SettingError

__all__ = ["ByGroup", "averaged"]

Fitted = TypeVar("Fitted", bound="ByGroup")


def averaged(
    means: Sequence[Any], noises: Sequence[Noise]
) -> tuple[Float[np.ndarray, " features"], Noise]:
    """Return one mean from several noisy answers to the same question, and its noise.

    Examples
    --------
    >>> mean, noise = averaged([[1.0], [3.0]], [Noise("gaussian", 1.0)] * 2)
    >>> mean, round(noise.scale, 3)
    (array([2.]), 0.707)
    """
    if not means or len(means) != len(noises):
        raise SettingError(
            f"each mean must come with its noise, got {len(means)} means and {len(noises)} noises"
        )
    first = np.asarray(means[0], dtype=np.float64).size
    rows = np.stack([check_mean(mean, features=first) for mean in means])
    weights = np.array([1 / noise.variance for noise in noises])
    together = Noise("gaussian", float(weights.sum() ** -0.5))
    return weights @ rows / weights.sum(), together


class ByGroup(BaseEstimator):
    """Guess who is positive from the positives' mean in each of several known groups.

    Parameters
    ----------
    rounds, landmarks, most, seed
        As in `SelfTraining`, which starts from the guesses of the groups' regressions.

    Attributes
    ----------
    prior_
        Share of positives among all records.
    scores_, labels_
        Probability that each record is positive, and whether it is taken for positive.
    sureness_
        Accuracy that the attack expects of its labels.
    notes_
        Sentences about how the attack went.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ward, truth = np.arange(400) % 4, rng.random(400) < 0.4
    >>> records = rng.normal(size=(400, 5)) + truth[:, None]
    >>> inside = {w: truth & (ward == w) for w in range(4)}
    >>> attack = ByGroup().fit(
    ...     records,
    ...     groups=ward,
    ...     means={w: records[who].mean(axis=0) for w, who in inside.items()},
    ...     priors={w: truth[ward == w].mean() for w in range(4)},
    ... )
    >>> bool((attack.labels_ == truth).mean() > 0.85)
    True
    """

    name: ClassVar[str] = "by group"

    def __init__(
        self, *, rounds: int = 50, landmarks: int = 2000, most: int = 20_000, seed: int = 0
    ) -> None:
        self.rounds = rounds
        self.landmarks = landmarks
        self.most = most
        self.seed = seed

    def fit(
        self: Fitted,
        records: Any,
        *,
        groups: Any,
        means: Mapping[Hashable, Any],
        priors: Mapping[Hashable, float | int | np.floating],
        noise: Noise | None = None,
    ) -> Fitted:
        """Learn to tell who is positive.

        Parameters
        ----------
        records
            One row per individual, dense or sparse.
        groups
            Each record's group.
        means
            Released mean of the positives of each group.
        priors
            Share of positives in each group.
        noise
            What was added to each mean, if the attacker knows.
        """
        rows = check_records(records, sparse_allowed=True)
        check_enough(rows)
        members = _members(groups, rows.shape[0], means, priors)
        released = {g: check_mean(means[g], features=rows.shape[1]) for g in members}
        positives = {g: check_prior(priors[g]) * len(who) for g, who in members.items()}
        weights = np.array(list(positives.values())) / sum(positives.values())
        mean = weights @ np.stack(list(released.values()))
        prior = sum(positives.values()) / rows.shape[0]
        together = noise
        if noise is not None:
            together = Noise("gaussian", float(np.sqrt(noise.variance * (weights @ weights))))
        spread = spread_of(rows)
        odds = fit_logistic(rows, spread, mean, prior, together).logits(rows)
        for group, who in members.items():
            some = rows[who]
            if len(members) > 1 and len(who) > 1:
                own = fit_logistic(
                    some,
                    spread_of(some),
                    released[group],
                    float(priors[group]),
                    noise,
                    beside=odds[who],
                )
                odds[who] += own.logits(some)
        trainer = SelfTraining(**self.get_params())
        trainer.notes_ = []
        direction = direction_of(spread, mean, together)
        scores = trainer.improved(rows, spread, direction, expit(odds), mean, prior)
        self.n_features_in_ = rows.shape[1]
        self.prior_, self.notes_, self.changed_ = prior, trainer.notes_, trainer.changed_
        self.scores_: Float[np.ndarray, " records"] = scores
        self.labels_: Bool[np.ndarray, " records"] = scores > 0.5
        return self

    @property
    def sureness_(self) -> float:
        """Accuracy that the attack expects of its labels, without having seen a label."""
        return float(np.maximum(self.scores_, 1 - self.scores_).mean())


def _members(
    groups: Any, count: int, means: Mapping[Hashable, Any], priors: Mapping[Hashable, Any]
) -> dict[Hashable, np.ndarray]:
    """Return which records each group has, and check that each has a mean and a share."""
    told = np.asarray(groups)
    if told.shape != (count,):
        raise DataError(
            f"groups must have one value for each of the {count} records, got the shape "
            f"{told.shape}"
        )
    names, which = np.unique(told, return_inverse=True)
    found = {name.item(): np.flatnonzero(which == k) for k, name in enumerate(names)}
    for what, given in (("mean", means), ("share", priors)):
        missing = [name for name in found if name not in given]
        if missing:
            raise DataError(
                f"every group must have a {what}, got none for {len(missing)} of {len(found)}; "
                "leave the records of those groups out"
            )
    return found
