"""How little codes can leak at a given error, whatever the codes are, where regressions are linear.

Let x be all that a receiver's peers hold of a person (their rows side by side, standardised), y the
receiver's own row and E[y | x] = Bᵀx. For *any* codes C made of x let K be the covariance of
E[x | C]. A receiver who uses all codes explains the mean diagonal of K of the peers' features, and
its completion explains tr(Bᵀ K B) of y. As 0 ≤ K ≤ Σ, the least leak for a given error is a linear
problem over K, which projections in the space of whitened x solve: for a price of leak those with
positive eigenvalues of Σ^½ (B Bᵀ − price · I) Σ^½.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from cofill.views import MultiView, Scaler

_SHRINK = 0.02  # towards columns that are independent, so that a covariance has an inverse
_ROWS_A_COLUMN = 10  # with fewer, regressions find what is not there and the bound is none
_PRICES = np.logspace(2, -4, 61)


def least_leaks(views: MultiView, growths: Sequence[float]) -> list[dict[str, float]]:
    """Return the least mean R² of all peers' rows, given their codes, for growths of the error.

    Parameters
    ----------
    views
        Complete views.
    growths
        By which shares the error may grow over that of codes which tell everything.

    Returns
    -------
    list of dict
        For each growth the bound of each receiving view, and their average as ``"all"``.
        Covariances are shrunk a little, and are those of the given rows: the bound is for people
        like them. A receiver whose peers have more than a column for ten rows is left out.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = x[:, :1] + 0.5 * np.random.default_rng(1).normal(size=(500, 1))
    >>> (bounds,) = least_leaks(MultiView.from_arrays({"a": x, "b": y}), [0.01])
    >>> 0.4 < bounds["b"] < 0.5  # of a's two columns, the one that b needs
    True
    """
    rows = {name: np.nan_to_num(Scaler.fit(v).encode_view(v)[0]) for name, v in views.items()}
    by_growth: list[dict[str, float]] = [{} for _ in growths]
    for name, rows_of_view in rows.items():
        peer_rows = np.hstack([r for other, r in rows.items() if other != name])
        if len(peer_rows) >= _ROWS_A_COLUMN * peer_rows.shape[1]:
            for by_view, bound in zip(
                by_growth, _bounds(peer_rows, rows_of_view, growths), strict=True
            ):
                by_view[name] = bound
    return [
        {**by_view, "all": float(np.mean(list(by_view.values())))} if by_view else {}
        for by_view in by_growth
    ]


def _bounds(
    x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n k"], growths: Sequence[float]
) -> list[float]:
    n, d = x.shape
    spread = (1 - _SHRINK) * (x.T @ x) / n + _SHRINK * np.eye(d)
    cross = x.T @ y / n
    values, vectors = np.linalg.eigh(spread)
    root = (vectors * np.sqrt(values)) @ vectors.T
    # Whitened: what receivers explain is needᵀ need over projections, the leak is root².
    need = np.linalg.solve(root, cross) / np.sqrt(y.shape[1])
    variance = float((y**2).mean())
    explained = float((need**2).sum())
    wanted = [explained - growth * (variance - explained) for growth in growths]
    bounds: list[float | None] = [None if most > 0 else 0.0 for most in wanted]
    gain, cost = need @ need.T, root @ root / d
    before = (0.0, 0.0)
    for price in _PRICES:
        if None not in bounds:
            break
        worth, turn = np.linalg.eigh(gain - price * cost)
        directions = turn[:, worth > 0]
        reached = (
            float(np.trace(directions.T @ gain @ directions)),
            float(np.trace(directions.T @ cost @ directions)),
        )
        for k, most in enumerate(wanted):
            if bounds[k] is None and reached[0] >= most:
                # Between two prices a mixture of both codes is possible: the line joins them.
                step = max(reached[0] - before[0], 1e-12)
                bounds[k] = before[1] + (reached[1] - before[1]) * (most - before[0]) / step
        before = reached
    return [before[1] if bound is None else bound for bound in bounds]
