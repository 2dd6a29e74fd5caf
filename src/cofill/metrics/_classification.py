"""Does the reconstruction still serve: the Classification Difference of the CRS paper (V-C)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Real, Shaped

from cofill.errors import DataError
from cofill.metrics._categorical import accuracy


@dataclass(frozen=True)
class ClassificationDifference:
    """Accuracies of one classifier on true and on reconstructed rows, as fractions.

    Attributes
    ----------
    original
        Accuracy on the original test rows.
    reconstructed
        Accuracy on the reconstructed test rows.

    Examples
    --------
    >>> round(ClassificationDifference(original=0.9, reconstructed=0.88).difference, 3)
    -0.02
    """

    original: float
    reconstructed: float

    @property
    def difference(self) -> float:
        """Reconstructed minus original: negative when the reconstruction costs accuracy."""
        return self.reconstructed - self.original


def paper_forest(seed: int | np.integer) -> Any:
    """Make the paper's classifier: a random forest by entropy, 50 trees, at most 5 deep.

    Examples
    --------
    >>> forest = paper_forest(0)
    >>> forest.n_estimators, forest.max_depth, forest.criterion
    (50, 5, 'entropy')
    """
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(
        n_estimators=50, criterion="entropy", max_depth=5, random_state=int(seed)
    )


def classification_difference(
    train: Real[np.ndarray, "n *d"],
    train_labels: Shaped[np.ndarray, " n"],
    test: Real[np.ndarray, "m *d"],
    test_labels: Shaped[np.ndarray, " m"],
    reconstructed: Real[np.ndarray, "m *d"],
    *,
    seed: int | np.integer,
) -> ClassificationDifference:
    """Train `paper_forest` on a view's original rows; score it on true and on reconstructed ones.

    Parameters
    ----------
    train, train_labels
        The view's original training rows and their classes.
    test, test_labels
        Its original test rows and their classes.
    reconstructed
        The same test rows as reconstructed from the other views, in the same units.
    seed
        Of the forest. With the same seed the forest is the same, so several reconstructions are
        compared on one classifier.

    Examples
    --------
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> y = (x[:, 0] > 0.5).astype(int)
    >>> score = classification_difference(x, y, x, y, np.zeros_like(x), seed=0)
    >>> score.original, score.reconstructed, score.difference
    (1.0, 0.5, -0.5)
    """
    if test.shape != reconstructed.shape:
        raise DataError(
            "reconstructed must hold the same rows and features as test, "
            f"got shapes {reconstructed.shape} and {test.shape}."
        )
    if not len(test):
        raise DataError("test must hold at least one row, got none.")
    forest = paper_forest(seed).fit(train.reshape(len(train), -1), train_labels)
    scores = (
        accuracy(test_labels, forest.predict(rows.reshape(len(rows), -1)))
        for rows in (test, reconstructed)
    )
    return ClassificationDifference(*scores)
