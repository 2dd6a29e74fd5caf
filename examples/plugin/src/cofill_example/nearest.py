"""An attack on a released mean: who is near it."""

import numpy as np

from cofill.attack import AbstractMeanAttack, ReleasedMean


class NearestToMean(AbstractMeanAttack):
    """The records nearest to the mean, as many as the share of positives says."""

    name = "nearest"

    def _fit(self, records: np.ndarray, released: ReleasedMean) -> None:
        spread = records.std(axis=0)
        self.mean_, self.spread_ = released.mean, np.where(spread > 0, spread, 1.0)
        self.radius_ = np.quantile(self._distances(records), released.prior)

    def _score(self, records: np.ndarray) -> np.ndarray:
        # One half at the radius: `labels_` are the scores above it.
        return 1 / (1 + np.exp(self._distances(records) - self.radius_))

    def _distances(self, records: np.ndarray) -> np.ndarray:
        return np.linalg.norm((records - self.mean_) / self.spread_, axis=1)
