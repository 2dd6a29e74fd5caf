"""The attack by Fisher's discriminant, in closed form (see _direction for its derivation)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from cofill.attack._base import AbstractCalibratedAttack
from cofill.attack._direction import calibrate, fit_direction
from cofill.attack._expected_accuracy import BEYOND, believed_position
from cofill.attack._inputs import Records, ReleasedMean
from cofill.attack._spread import measure_spread


class Discriminant(AbstractCalibratedAttack):
    """The closed-form discriminant.

    Takes dense and sparse records. Scores are probabilities, calibrated by the released mean.
    `expected_accuracy_` is the mean probability of the guesses; where the mean is noisy or
    impossible, that at a more likely position of the mean (see _expected_accuracy).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(400) < 100
    >>> records = rng.normal(size=(400, 5)) + 3 * truth[:, None]
    >>> attack = Discriminant().fit(records, mean=records[truth].mean(axis=0), prior=0.25)
    >>> bool((attack.labels_ == truth).mean() > 0.97)
    True
    """

    name = "discriminant"
    accepts_sparse = True

    def _fit(self, records: Records, released: ReleasedMean) -> None:
        line = fit_direction(measure_spread(records), released.mean, released.noise)
        positions, prior = line.positions(records), released.prior
        self.direction_ = line
        self.slope_, self.cut_ = calibrate(positions, positions, line.expected, prior=prior)
        position, beyond = believed_position(positions, prior, line.expected, line.error)
        self.claimed_ = None
        if position != line.expected:
            slope, cut = calibrate(positions, positions, position, prior=prior)
            self.claimed_ = float(expit(slope * np.abs(positions - cut)).mean())
        if beyond:
            self.notes_.append(BEYOND)

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        return expit(self.slope_ * (self.direction_.positions(records) - self.cut_))
