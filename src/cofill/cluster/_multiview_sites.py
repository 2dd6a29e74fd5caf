"""Groups across views over sites that show no row: sums leave a site, models come back.

1. Columns are scaled by sums over all sites, and features are closeness to points that are drawn
   from a normal distribution with the summed covariance: they are nobody's rows.
2. Every site groups its people by its graphs (`propose_groups`) and releases, for each grouping,
   the sums and sizes of groups in these features; groups of few people are withheld. With the
   products of all sites, each grouping becomes a discriminant, and all sites apply all of them.
   The most telling quarter of them votes; how much one tells adds up over sites too.
3. The vote over these groupings needs only how many people are in each pair of groups, which adds
   up over sites; in its embedding, federated k-means finds the groups.
4. Discriminants of the voted groups, again from sums, judge everybody who was not in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from jaxtyping import Float

from cofill.cluster._discriminant import (
    ClosenessFeatures,
    Discriminant,
    ViewSums,
    entropy,
    score_groups,
)
from cofill.cluster._graphs import unit_rows, vote_on_groups
from cofill.cluster._kmeans_settings import KMeansSettings
from cofill.cluster._multiview import GroupModel, ScaledViews, ViewSettings, propose_groups
from cofill.cluster._protocol import run_kmeans
from cofill.cluster._rows import gather_rows
from cofill.errors import DataError
from cofill.privacy import Gate, GroupSums, Ledger, ModelWeights
from cofill.protocol import COORDINATOR, pool_moments, usable_scale
from cofill.views import Kind, MultiView, Scaler

_NEIGHBOURS = (8, 15)  # a site has fewer people than all together
_LEAST_A_GROUP = 5  # a site with fewer people for each group proposes none
_LEAST_TOLD = 5  # members of a group whose sum leaves a site
_FOLDS = 5
_BETWEEN = 0.9  # of a proposal's spread between groups: its means are those of one site only


@dataclass(frozen=True, eq=False)
class _Exchange:
    """Carries sums from sites to the coordinator and models back, through the gate."""

    ledger: Ledger
    sites: tuple[str, ...]

    def gather(
        self, step: str, parts: Mapping[str, tuple[np.ndarray, np.ndarray]]
    ) -> list[GroupSums]:
        """Return each site's sums and counts, ordered by the sites' names."""
        gate, arrived = Gate(self.ledger, {}), []
        for site in sorted(parts):
            sums, counts = parts[site]
            release = GroupSums(
                sender=site, receiver=COORDINATOR, round=0, sums=sums, counts=counts
            )
            arrived.append(gate.pass_on(release, step))
        return arrived

    def add_up(
        self, step: str, parts: Mapping[str, tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the totals over sites."""
        arrived = self.gather(step, parts)
        return sum(r.sums for r in arrived), sum(r.counts for r in arrived)  # pyright: ignore

    def hand_out(self, step: str, *arrays: np.ndarray) -> None:
        """Send arrays to every site."""
        flat = np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays])
        gate = Gate(self.ledger, {})
        for site in self.sites:
            model = ModelWeights(sender=COORDINATOR, receiver=site, round=0, weights=flat)
            gate.pass_on(model, step)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Scaled rows of every site, their features by view, and what is to be made of them."""

    exchange: _Exchange
    sites: Mapping[str, ScaledViews]
    close: Mapping[str, Sequence[np.ndarray]]
    k: int
    settings: ViewSettings
    seed: int

    @property
    def views(self) -> range:
        """The numbers of the views."""
        return range(len(next(iter(self.sites.values())).rows))

    def probabilities(self, name: str, voter: Discriminant) -> np.ndarray:
        """Return the probabilities of groups of a site's people."""
        return voter.probabilities(self.close[name], self.sites[name].known)


def find_groups_at_sites(
    sites: Mapping[str, MultiView], k: int, settings: ViewSettings, seed: int, ledger: Ledger
) -> tuple[dict[str, Float[np.ndarray, "n k"]], list[Scaler], GroupModel]:
    """Return everybody's probabilities of groups by site, the scalers, and the model of groups."""
    exchange = _Exchange(ledger, tuple(sorted(sites)))
    scalers = _agree_on_scalers(exchange, sites)
    scaled = {name: ScaledViews.of(views, scalers) for name, views in sites.items()}
    features = _agree_on_features(exchange, scaled, seed)
    close = {
        name: [f.of(rows) for f, rows in zip(features, site.rows, strict=True)]
        for name, site in scaled.items()
    }
    rows = _Rows(exchange, scaled, close, k, settings, seed)
    one_group = {name: np.ones((len(site.known), 1)) for name, site in scaled.items()}
    voters = _choose_voters(rows, _gather_voters(rows, _add_up(rows, one_group)))
    members, discriminant = _settle(rows, _vote(rows, voters))
    return members, scalers, GroupModel(features, discriminant)


# --- columns and features -----------------------------------------------------------------------


def _agree_on_scalers(exchange: _Exchange, sites: Mapping[str, MultiView]) -> list[Scaler]:
    first = next(iter(sites.values()))
    scalers = []
    for name in first.names:
        parts = {}
        for site, views in sites.items():
            if set(views.names) != set(first.names) or (
                views[name].features != first[name].features
            ):
                raise DataError(
                    f"site {site!r} has other views or columns than the first; all must have the "
                    "same"
                )
            cells = views[name].cells
            counts = (~np.isnan(cells)).sum(axis=0)
            sums = np.nansum(cells, axis=0)
            away = cells - sums / np.maximum(counts, 1)
            figures = np.concatenate([counts, sums, np.nansum(away * away, axis=0)])
            parts[site] = figures[None].astype(np.float64), np.array([float(len(cells))])
        figures = np.array([r.sums[0] for r in exchange.gather("measure", parts)])
        center, variance = pool_moments(*np.split(figures, 3, axis=1))
        scale = usable_scale(center, np.sqrt(variance))
        numeric = np.array([f.kind is Kind.NUMERIC for f in first[name].features])
        center, scale = np.where(numeric, center, 0.0), np.where(numeric, scale, 1.0)
        exchange.hand_out("agree on a scaling", center, scale)
        open_ends = np.full((2, len(center)), np.inf) * [[-1], [1]]
        figures = (tuple(map(float, part)) for part in (center, scale, *open_ends))
        scalers.append(Scaler(first[name].features, "standard", *figures))
    return scalers


def _agree_on_features(
    exchange: _Exchange, sites: Mapping[str, ScaledViews], seed: int
) -> tuple[ClosenessFeatures, ...]:
    rng = np.random.default_rng([seed, 2])
    features = []
    for view in range(next(iter(sites.values())).known.shape[1]):
        parts = {}
        for name, site in sites.items():
            rows = site.rows[view][site.known[:, view]]
            parts[name] = (rows.T @ rows).reshape(1, -1), np.array([float(len(rows))])
        products, count = exchange.add_up("add up products of columns", parts)
        size = round(np.sqrt(products.size))
        covariance = products.reshape(size, size) / max(float(count[0]), 1.0)
        features.append(ClosenessFeatures.imagine(covariance, rng))
        exchange.hand_out("draw points", features[-1].points)
    return tuple(features)


def _add_up(
    rows: _Rows, members: Mapping[str, np.ndarray], chosen: Mapping[str, np.ndarray] | None = None
) -> list[ViewSums]:
    """Return the sums of every view over some individuals, all of them unless they are named."""
    views = []
    for view in rows.views:
        groups, products = {}, {}
        for name, site in rows.sites.items():
            at = site.known[:, view] if chosen is None else site.known[:, view] & chosen[name]
            sums = ViewSums.of(rows.close[name][view][at], members[name][at])
            groups[name] = sums.sums, sums.counts
            products[name] = sums.products.reshape(1, -1), np.array([float(at.sum())])
        sums, counts = rows.exchange.add_up("add up groups", groups)
        flat, _ = rows.exchange.add_up("add up products", products)
        size = sums.shape[1]
        views.append(ViewSums(sums, counts, flat.reshape(size, size)))
    return views


# --- proposals and the vote ---------------------------------------------------------------------


def _gather_voters(rows: _Rows, totals: Sequence[ViewSums]) -> list[Discriminant]:
    """Return a discriminant for each grouping that a site proposes."""
    local, k = replace(rows.settings, neighbours=_NEIGHBOURS), rows.k
    groupings = {}
    for name in rows.exchange.sites:
        site = rows.sites[name]
        if len(site.known) >= _LEAST_A_GROUP * k:
            site_seed = crc32(name.encode()) ^ rows.seed
            proposed = propose_groups(site, k, local, site_seed)
            groupings[name] = [*proposed, vote_on_groups(proposed, k, site_seed)]
    if not groupings:
        raise DataError(
            f"no site has {_LEAST_A_GROUP * k} individuals, enough to propose {k} groups"
        )
    scores: list[list[tuple[np.ndarray, np.ndarray]]] = []  # slopes and offsets, by view
    shares: list[np.ndarray] = []
    for view, total in enumerate(totals):
        scores.append([])
        parts = {}
        for name, proposals in groupings.items():
            known = rows.sites[name].known[:, view]
            members = np.hstack([np.eye(k)[groups[known]] for groups in proposals])
            sums, counts = members.T @ rows.close[name][view][known], members.sum(axis=0)
            few = counts < _LEAST_TOLD
            sums[few], counts[few] = 0.0, 0.0
            parts[name] = sums, counts
        for release in rows.exchange.gather("propose groups", parts):
            for sums, counts in zip(
                np.split(release.sums, len(release.sums) // k),
                np.split(release.counts, len(release.counts) // k),
                strict=True,
            ):
                scores[view].append(score_groups(*_means_and_spread(total, sums, counts)))
                if not view:
                    # A group that one site lacks may be at others: no share is 0.
                    shares.append(counts / max(counts.sum(), 1.0) + 0.01)
    voters = [
        Discriminant(share, *map(tuple, zip(*by_view, strict=True)))
        for share, *by_view in zip(shares, *scores, strict=True)
    ]
    rows.exchange.hand_out("hand out proposals", *(s for v in voters for s in v.slopes))
    return voters


def _means_and_spread(
    total: ViewSums, sums: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of one site's groups, and the spread of all sites' rows about them."""
    n = max(float(total.counts[0]), 1.0)
    middle = total.sums[0] / n
    means = (sums + middle) / (counts + 1)[:, None]  # a group that nobody told of is the middle
    between = means - middle
    shares = counts / max(counts.sum(), 1.0)
    spread = total.products / n - np.outer(middle, middle)
    spread = spread - _BETWEEN * (between * shares[:, None]).T @ between
    # One site's means do not fit the products of all: a spread below 0 in a direction is none.
    values, vectors = np.linalg.eigh(spread)
    return means, (vectors * np.maximum(values, 0.0)) @ vectors.T


def _choose_voters(rows: _Rows, voters: Sequence[Discriminant]) -> list[Discriminant]:
    """Return the most telling groupings, by sums of probabilities and entropies over sites."""
    parts = {}
    for name, site in rows.sites.items():
        chances = [rows.probabilities(name, voter) for voter in voters]
        figures = [np.append(c.sum(axis=0), entropy(c).sum()) for c in chances]
        parts[name] = np.array(figures), np.full(len(voters), float(len(site.known)))
    sums, counts = rows.exchange.add_up("judge proposals", parts)
    means = sums / counts[:, None]
    information = (entropy(means[:, :-1]) - means[:, -1]).tolist()
    return [voters[at] for at in rows.settings.choose_voters(information)]


def _vote(rows: _Rows, voters: Sequence[Discriminant]) -> dict[str, np.ndarray]:
    """Return everybody's voted group, as members by site."""
    members, parts, k, exchange = {}, {}, rows.k, rows.exchange
    for name in rows.sites:
        groups = [rows.probabilities(name, voter).argmax(axis=1) for voter in voters]
        members[name] = np.hstack([np.eye(k)[g] for g in groups])
        parts[name] = members[name].T @ members[name], members[name].sum(axis=0)
    pairs, counts = exchange.add_up("count pairs of groups", parts)
    # The embedding of people follows from that of groups, which needs the counts of pairs alone.
    roots = 1 / np.sqrt(np.maximum(counts, 1.0))
    values, vectors = np.linalg.eigh(roots[:, None] * pairs * roots)
    turn = roots[:, None] * vectors[:, np.argsort(-values)[:k]]
    exchange.hand_out("hand out the vote", turn)
    embedded = gather_rows({name: unit_rows(m @ turn) for name, m in members.items()})
    settings = KMeansSettings(k=k, restarts=8)
    federation = run_kmeans(embedded, settings, "none", rows.seed, exchange.ledger)
    return {name: np.eye(k)[site.labels] for name, site in federation.sites.items()}


# --- discriminants of the voted groups ----------------------------------------------------------


def _settle(
    rows: _Rows, members: dict[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], Discriminant]:
    """Return everybody judged by discriminants of the others, and that of everybody."""
    fold = {
        name: np.random.default_rng([rows.seed, crc32(name.encode())]).permutation(len(site.known))
        % _FOLDS
        for name, site in rows.sites.items()
    }

    def add_up_folds(members: Mapping[str, np.ndarray]) -> list[list[ViewSums]]:
        parts = ({name: at == part for name, at in fold.items()} for part in range(_FOLDS))
        return [_add_up(rows, members, chosen) for chosen in parts]

    by_fold = add_up_folds(members)
    for _ in range(rows.settings.rounds):
        judged = {name: np.zeros_like(shares) for name, shares in members.items()}
        for part in range(_FOLDS):
            others = _combine([sums for at, sums in enumerate(by_fold) if at != part])
            rows.exchange.hand_out("hand out discriminants", *others.slopes)
            for name, site in rows.sites.items():
                test = fold[name] == part
                features = [f[test] for f in rows.close[name]]
                judged[name][test] = others.probabilities(features, site.known[test])
        members, by_fold = judged, add_up_folds(judged)
    return members, _combine(by_fold)


def _combine(folds: Sequence[Sequence[ViewSums]]) -> Discriminant:
    """Return the discriminant of several folds together."""
    names = ("sums", "counts", "products")
    totals = [
        ViewSums(*(np.sum([getattr(view, name) for view in views], axis=0) for name in names))
        for views in zip(*folds, strict=True)
    ]
    counts = np.sum([total.counts for total in totals], axis=0)
    return Discriminant.from_sums(totals, counts / max(counts.sum(), 1e-9))
