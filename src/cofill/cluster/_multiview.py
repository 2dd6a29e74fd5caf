"""Groups of individuals of whom some lack views: graphs, votes and discriminants, no label.

1. Graphs of near neighbours: of each view among those whom it knows, of the views side by side
   with gaps predicted from the other views, and of all these together; for several numbers of
   neighbours. Each is embedded by somewhat more eigenvectors than there are groups, because the
   first k often miss a group and split another, and grouped by k-means.
2. Each grouping is judged by a kernel discriminant of its groups: how much it tells of somebody it
   has not seen (`information`). The most telling quarter of the groupings votes.
3. A kernel discriminant of the voted groups judges everybody by the views that they have, without
   having seen them, for a few rounds.

No figure here depends on a label. Neighbours, eigenvectors, and which groupings vote were compared
on scikit-learn's digits and USPS's in halves, USPS by two weak descriptors, pairs of views of the
multiple features (pix and zer, fou and mor) and WDBC, half of whose individuals lacked a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from cofill.cluster._discriminant import ClosenessFeatures, Discriminant, information, settle_groups
from cofill.cluster._graphs import (
    embed_graph,
    group_rows,
    neighbour_graph,
    unit_rows,
    vote_on_groups,
)
from cofill.errors import DataError, SettingError
from cofill.nets import require_at_least, require_in
from cofill.views import MultiView, Scaler

_MOST = 6.0  # standard deviations of a cell; further out it says no more
_RIDGES = (0.1, 1.0, 10.0, 100.0, 1000.0)  # among which held-out rows choose
_FOLDS = 5
_LEAST_PAIRS = 10  # individuals in both views, for one to be predicted from the other


@dataclass(frozen=True)
class ViewSettings:
    """How groups are found across views.

    Parameters
    ----------
    neighbours
        Numbers of neighbours; each makes its own graphs.
    dimensions
        Eigenvectors of a graph as multiples of the number of groups; each makes its own grouping.
    voters
        Share of the groupings that vote, those with the most information.
    rounds
        How often everybody is judged anew by a discriminant of the groups.
    """

    neighbours: tuple[int, ...] = (10, 15, 20, 30)
    dimensions: tuple[float, ...] = (1.25, 1.5)
    voters: float | int = 0.25
    rounds: int = 2

    def __post_init__(self) -> None:
        require_at_least(self, rounds=0)
        require_in(self, "(0, 1]", "voters")
        for name, least in (("neighbours", 1), ("dimensions", 1)):
            values = getattr(self, name)
            if not values or min(values) < least:
                raise SettingError(f"{name} must be at least one number, each at least {least}")

    def choose_voters(self, information: Sequence[float]) -> list[int]:
        """Return the positions of the groupings that vote."""
        count = max(1, round(self.voters * len(information)))
        return np.argsort(-np.asarray(information), kind="stable")[:count].tolist()


@dataclass(frozen=True, eq=False)
class ScaledViews:
    """Scaled rows of every view, zeros where an individual is not in it, and who is in which."""

    rows: tuple[Float[np.ndarray, "n _"], ...]
    known: Bool[np.ndarray, "n views"]

    @classmethod
    def of(cls, views: MultiView, scalers: Sequence[Scaler]) -> ScaledViews:
        """Return the rows of views; a cell that is missing in a known row is its column's mean."""
        known = views.presence
        blank = int((~known.any(axis=1)).sum())
        if blank:
            raise DataError(
                f"{blank:,} of {len(known):,} individuals are in no view; leave them out"
            )
        rows = []
        for view, scaler in zip(views.values(), scalers, strict=True):
            encoded = np.zeros((len(known), scaler.width))
            here = np.searchsorted(views.ids, view.ids)
            encoded[here] = np.nan_to_num(scaler.encode_view(view)[0])
            rows.append(np.clip(encoded, -_MOST, _MOST))
        return cls(tuple(rows), known)


@dataclass(frozen=True, eq=False)
class GroupModel:
    """What gives an individual their probabilities of groups: features of views, a discriminant."""

    features: tuple[ClosenessFeatures, ...]
    discriminant: Discriminant

    def probabilities(self, views: ScaledViews) -> Float[np.ndarray, "n k"]:
        """Return everybody's probabilities of groups."""
        rows = [f.of(rows) for f, rows in zip(self.features, views.rows, strict=True)]
        return self.discriminant.probabilities(rows, views.known)


def find_groups(
    views: ScaledViews, k: int, settings: ViewSettings, seed: int
) -> tuple[Float[np.ndarray, "n k"], GroupModel]:
    """Return everybody's probabilities of k groups, and the model that gives them to others."""
    rng = np.random.default_rng(seed)
    features = tuple(
        ClosenessFeatures.draw(rows[views.known[:, view]], rng)
        for view, rows in enumerate(views.rows)
    )
    close = [f.of(rows) for f, rows in zip(features, views.rows, strict=True)]

    def settle(groups: Int[np.ndarray, " n"], rounds: int) -> Float[np.ndarray, "n k"]:
        return settle_groups(close, views.known, groups, k, rounds=rounds, rng=rng)

    proposals = propose_groups(views, k, settings, seed)
    figures = [information(settle(groups, rounds=1)) for groups in proposals]
    voters = [proposals[at] for at in settings.choose_voters(figures)]
    members = settle(vote_on_groups(voters, k, seed), settings.rounds)
    return members, GroupModel(features, Discriminant.fit(close, views.known, members))


def propose_groups(
    views: ScaledViews, k: int, settings: ViewSettings, seed: int
) -> list[Int[np.ndarray, " n"]]:
    """Return one grouping for each graph and number of eigenvectors."""
    everybody = np.ones(len(views.known), bool)
    side_by_side = np.hstack([rows / np.sqrt(rows.shape[1]) for rows in predict_gaps(views, seed)])
    sizes = [max(2, round(share * k)) for share in settings.dimensions]
    proposals = []
    for count in settings.neighbours:
        by_view = sum(
            neighbour_graph(rows, views.known[:, view], count)
            for view, rows in enumerate(views.rows)
        )
        completed = neighbour_graph(side_by_side, everybody, count)
        # Which graph is best differs between data: groupings of all of them may vote.
        for graph in (by_view, completed, by_view + completed):
            # More eigenvectors than groups: the first k often merge two groups and split a third.
            embedding = embed_graph(graph, max(sizes))
            proposals += [group_rows(unit_rows(embedding[:, :size]), k, seed) for size in sizes]
    return proposals


def predict_gaps(views: ScaledViews, seed: int) -> list[Float[np.ndarray, "n _"]]:
    """Return the rows of every view, gaps predicted from the other views that one has.

    By ridge regression on a view's cells and closeness features; with several other views the
    predictions are averaged. Without enough individuals in both, gaps stay at the mean, 0.
    """
    rng = np.random.default_rng([seed, 1])
    count = len(views.rows)
    inputs = []
    for view, rows in enumerate(views.rows):
        close = ClosenessFeatures.draw(rows[views.known[:, view]], rng).of(rows)
        inputs.append(np.hstack([rows, 3 * close, np.ones((len(rows), 1))]))
    filled = []
    for target, rows in enumerate(views.rows):
        total, votes = np.zeros_like(rows), np.zeros(len(rows))
        lacking = ~views.known[:, target]
        for source in range(count):
            pairs = views.known[:, source] & ~lacking
            asked = views.known[:, source] & lacking
            if source != target and asked.any() and pairs.sum() >= _LEAST_PAIRS:
                slopes = _ridge(inputs[source][pairs], rows[pairs], rng)
                total[asked] += inputs[source][asked] @ slopes
                votes[asked] += 1
        filled.append(rows + total / np.maximum(votes, 1)[:, None])
    return filled


def _ridge(
    inputs: Float[np.ndarray, "n p"], targets: Float[np.ndarray, "n d"], rng: np.random.Generator
) -> Float[np.ndarray, "p d"]:
    """Return the slopes of ridge regression, its strength by the error on held-out rows."""
    products, right = inputs.T @ inputs, inputs.T @ targets
    fold = rng.permutation(len(inputs)) % _FOLDS
    errors = np.zeros(len(_RIDGES))
    for part in range(_FOLDS):
        held, held_targets = inputs[fold == part], targets[fold == part]
        values, vectors = np.linalg.eigh(products - held.T @ held)
        turned = vectors.T @ (right - held.T @ held_targets)
        for at, ridge in enumerate(_RIDGES):
            slopes = vectors @ (turned / (np.maximum(values, 0.0) + ridge)[:, None])
            errors[at] += ((held @ slopes - held_targets) ** 2).sum()
    ridge = _RIDGES[int(errors.argmin())]
    return np.linalg.solve(products + ridge * np.eye(len(products)), right)
