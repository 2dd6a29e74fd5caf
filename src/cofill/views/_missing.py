"""Make holes on purpose: rows of views, or cells of rows, hidden by a known mechanism.

A row or cell is hidden where ``strength · z + noise`` is largest, with logistic noise: the chance
is a logistic function of z, and taking exactly the wanted number calibrates its intercept.

- ``"mcar"``: z = 0; chance alone.
- ``"mar"``: z is a random projection of the same individual's standardised cells elsewhere: in the
  views that `names` leaves out (they lose nothing, so the mechanism is ignorable), else in the
  other views, whose rows may be hidden too. `drop_cells` on a single view uses the other columns.
- ``"mnar"``: z is a random projection of the very row, or the very cell, that is hidden.
- ``"copied"`` (cells only): a row loses what another row of its view lacks, so that new holes look
  like the view's own; by chance alone where the view has no holes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float

from cofill.errors import SettingError
from cofill.views._keys import Key, stream
from cofill.views._multiview import MultiView
from cofill.views._scaling import Scaler
from cofill.views._view import View

_MECHANISMS = ("mcar", "mar", "mnar")


def drop_rows(
    views: MultiView,
    rate: float | Mapping[str, float],
    *,
    mechanism: str = "mcar",
    key: Key,
    names: Sequence[str] | None = None,
    keep_one: bool = True,
    strength: float = 2.0,
) -> tuple[MultiView, dict[str, Bool[np.ndarray, " individuals"]]]:
    """Hide whole rows: individuals disappear from views.

    Parameters
    ----------
    views
        The views.
    rate
        Share of the rows of each view that disappear: exactly ``round(rate · rows)`` of the rows
        the view has now. One number, or one per view (views it does not name lose nothing).
    mechanism
        What the chance of a row depends on: ``"mcar"``, ``"mar"`` or ``"mnar"``, as described
        at the top of the module.
    key
        Seed: a whole number or several.
    names
        The views that lose rows; all that `rate` speaks of when left out.
    keep_one
        Whether every individual must stay in at least one view. Then at most (rows of all views −
        individuals) rows can go, for N complete views an average rate of (N − 1)/N, and near that
        limit who is hidden in one view depends on who is hidden in the others.
    strength
        Slope of the logistic function of z (standardised) for ``"mar"`` and ``"mnar"``.

    Returns
    -------
    tuple
        The views with holes, and for every view which individuals (of ``views.ids``) it lost.

    Examples
    --------
    >>> both = MultiView.from_arrays({"a": np.ones((10, 2)), "b": np.ones((10, 1))})
    >>> holes, hidden = drop_rows(both, {"b": 0.3}, key=0)
    >>> len(holes["a"]), len(holes["b"]), int(hidden["b"].sum())
    (10, 7, 3)
    """
    rates = _rates(views, rate, names)
    _check(views, mechanism, strength)
    wanted = {name: round(share * len(views[name])) for name, share in rates.items()}
    ranks = {}
    for name in wanted:
        rng = stream(key, "rows", name)
        z = np.zeros(views.n_individuals)
        if mechanism == "mar":
            z = _elsewhere(views, _drivers(views, name, rates), 1, rng)[:, 0]
        elif mechanism == "mnar":
            encoded = _encoded(views[name])
            projected = encoded @ _directions(encoded.shape[1], 1, rng)
            z[views.present(name)] = _standard(projected)[:, 0]
        ranks[name] = strength * z + rng.logistic(size=views.n_individuals)
    order = sorted(wanted)
    stream(key, "order").shuffle(order)
    hidden = _choose(views, {n: wanted[n] for n in order}, ranks, keep_one=keep_one)
    masks = {n: hidden.get(n, np.zeros(views.n_individuals, dtype=bool)) for n in views}
    return views.hide(masks), masks


def drop_cells(
    views: MultiView,
    rate: float | Mapping[str, float],
    *,
    mechanism: str = "mcar",
    key: Key,
    names: Sequence[str] | None = None,
    strength: float = 2.0,
) -> tuple[MultiView, dict[str, Bool[np.ndarray, "_ _"]]]:
    """Hide single cells of observed rows; no row loses all of its known cells.

    Parameters
    ----------
    views, key, names, strength
        As for `drop_rows`.
    mechanism
        As for `drop_rows`, or ``"copied"``.
    rate
        Share of the known cells of each view that disappear: exactly ``round(rate · cells)``, but
        up to a row's holes more or less where they are copied. One number, or one per view. A view
        of d complete columns can lose at most (d − 1)/d.

    Returns
    -------
    tuple
        The views with holes, and for every view a mask over its rows and columns of the cells
        that were known and are now hidden.

    Examples
    --------
    >>> one = MultiView([View("lab", np.arange(10), np.ones((10, 4)))])
    >>> holes, hidden = drop_cells(one, 0.25, key=0)
    >>> holes["lab"].n_missing_cells, int(hidden["lab"].sum())
    (10, 10)
    """
    rates = _rates(views, rate, names)
    _check(views, "mcar" if mechanism == "copied" else mechanism, strength, single_ok=True)
    masks = {name: np.zeros(view.cells.shape, dtype=bool) for name, view in views.items()}
    remaining = dict(views)
    for name, share in rates.items():
        view, rng = views[name], stream(key, "cells", name)
        known = ~np.isnan(view.cells)
        count, most = round(share * int(known.sum())), int(known.sum()) - len(view)
        if count > most:
            raise SettingError(
                f"rate {share:g} would hide {count:,} cells of view {name!r}, of which {most:,} "
                "can go when every row keeps one; choose a lower rate"
            )
        if not count:
            continue
        if mechanism == "copied" and not known.all():
            masks[name] = _copied_holes(known, count, rng)
        else:
            rank = rng.logistic(size=view.cells.shape).astype(np.float32)
            if mechanism == "mar":
                rank += np.float32(strength) * _cell_drivers(views, name, rates, rng)
            elif mechanism == "mnar":
                rank += np.float32(strength) * _own_values(view, rng)
            rank[~known] = np.inf
            safest = rank.argmin(axis=1)  # the cell of each row that is never hidden
            rank[~known] = -np.inf
            rank[np.arange(len(view)), safest] = -np.inf
            masks[name].flat[np.argpartition(rank, -count, axis=None)[-count:]] = True
        cells = view.cells.copy()
        cells[masks[name]] = np.nan
        remaining[name] = view.with_rows(view.ids, cells)
    return MultiView(remaining), masks


def _copied_holes(
    known: Bool[np.ndarray, "n d"], count: int, rng: np.random.Generator
) -> Bool[np.ndarray, "n d"]:
    """Return about `count` known cells to hide: in each row, those that a row with holes lacks."""
    donors = known[rng.choice(np.flatnonzero(~known.all(axis=1)), len(known))]
    hidden = known & ~donors
    hidden[(known & donors).sum(axis=1) == 0] = False  # every row keeps a known cell
    order = rng.permutation(len(known))
    last = int(np.searchsorted(hidden[order].sum(axis=1).cumsum(), count))
    hidden[order[last + 1 :]] = False
    return hidden


def _rates(
    views: MultiView, rate: float | Mapping[str, float], names: Sequence[str] | None
) -> dict[str, float]:
    """Return the rate of every view that loses something, in the order of the views."""
    losing = views if names is None else names
    rates = dict(rate) if isinstance(rate, Mapping) else dict.fromkeys(losing, rate)
    for name in [*rates, *losing]:
        views[name]
    for name, share in rates.items():
        if not 0 <= share < 1:
            raise SettingError(
                f"rate of view {name!r} must be at least 0 and less than 1, got {share!r}; "
                "leave the view out instead of hiding all of it"
            )
    return {n: float(rates[n]) for n in views if n in rates and n in losing}


def _check(views: MultiView, mechanism: str, strength: float, *, single_ok: bool = False) -> None:
    if mechanism not in _MECHANISMS:
        known = ", ".join(map(repr, _MECHANISMS))
        raise SettingError(f"mechanism must be one of {known}, got {mechanism!r}")
    if not (np.isfinite(strength) and strength > 0):
        raise SettingError(f"strength must be a positive number, got {strength!r}")
    columns = max(v.n_features for v in views.values())
    if mechanism == "mar" and len(views) == 1 and not (single_ok and columns > 1):
        raise SettingError(
            "mechanism 'mar' needs another view (for cells, another column) to depend on, got one; "
            "use 'mcar' or 'mnar'"
        )


def _encoded(view: View) -> Float[np.ndarray, "n width"]:
    """Return standardised cells with 0, the mean, for what is not known."""
    return np.nan_to_num(Scaler.fit(view).encode(view.cells, dtype=np.float32), copy=False)


def _standard(z: np.ndarray) -> np.ndarray:
    if not len(z):
        return z
    spread = z.std(axis=0)
    return (z - z.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _directions(width: int, n_columns: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(scale=width**-0.5, size=(width, n_columns)).astype(np.float32)


def _drivers(views: MultiView, name: str, losing: Mapping[str, float]) -> list[str]:
    """Return the views a MAR mechanism may look at, best those that lose nothing."""
    intact = [n for n in views if not losing.get(n)]
    return intact or [n for n in views if n != name]


def _elsewhere(
    views: MultiView, drivers: Sequence[str], n_columns: int, rng: np.random.Generator
) -> np.ndarray:
    """Project the drivers' cells to `n_columns` numbers per individual, mean 0 where unseen."""
    z = np.zeros((views.n_individuals, n_columns), dtype=np.float32)
    for name in sorted(drivers):
        cells = _encoded(views[name])
        z[views.present(name)] += _standard(cells @ _directions(cells.shape[1], n_columns, rng))
    return _standard(z)


def _cell_drivers(
    views: MultiView, name: str, losing: Mapping[str, float], rng: np.random.Generator
) -> np.ndarray:
    """Return z of every cell from the other views, or from the other columns of the only view."""
    view = views[name]
    if len(views) > 1:
        z = _elsewhere(views, _drivers(views, name, losing), view.n_features, rng)
        return z[views.present(name)]
    scaler, cells = Scaler.fit(view), _encoded(view)
    weights = _directions(cells.shape[1], view.n_features, rng)
    for block in scaler.blocks:
        weights[block.start : block.stop, block.feature] = 0.0
    return _standard(cells @ weights)


def _own_values(view: View, rng: np.random.Generator) -> np.ndarray:
    """Return z of every cell from its own value: up or down, or an effect per category."""
    scaler, cells = Scaler.fit(view), _encoded(view)
    z = np.empty(view.cells.shape, dtype=np.float32)
    for block in scaler.blocks:
        width = block.stop - block.start
        weights = rng.normal(size=width) if width > 1 else rng.choice([-1.0, 1.0], size=1)
        z[:, block.feature] = cells[:, block.start : block.stop] @ weights
    return _standard(z)


def _choose(
    views: MultiView, wanted: Mapping[str, int], ranks: Mapping[str, np.ndarray], *, keep_one: bool
) -> dict[str, np.ndarray]:
    """Hide the highest ranks of each view, so that every individual keeps a view if `keep_one`.

    Which rows may go is a flow from views (as many as wanted) to individuals (each may lose all
    its views but one). Greedy choice can get stuck; it is then repaired by exchanges along
    augmenting paths, so that the counts are met whenever they can be met at all.
    """
    hidden = {name: np.zeros(views.n_individuals, dtype=bool) for name in wanted}
    spare = views.presence.sum(axis=1) - (1 if keep_one else 0)
    for name, count in wanted.items():
        hidden[name][_top(ranks[name], views.present(name) & (spare > 0), count)] = True
        spare -= hidden[name]
        while (lacking := count - int(hidden[name].sum())) and (
            path := _path(views, hidden, spare, name)
        ):
            _exchange(views, hidden, spare, ranks, path, lacking)
    reached, asked = sum(int(h.sum()) for h in hidden.values()), sum(wanted.values())
    if reached < asked:
        raise SettingError(
            f"rate would hide {asked:,} rows, of which {reached:,} can go when every individual "
            "keeps one view; choose a lower rate or keep_one=False"
        )
    return hidden


def _top(rank: np.ndarray, allowed: np.ndarray, count: int) -> np.ndarray:
    """Return the positions of the `count` highest ranks among the allowed (all if fewer)."""
    at = np.flatnonzero(allowed)
    if count >= len(at):
        return at
    return at[np.argpartition(rank[at], len(at) - count)[len(at) - count :]] if count else at[:0]


def _swappable(
    views: MultiView, hidden: Mapping[str, np.ndarray], gain: str, give: str
) -> np.ndarray:
    """Individuals that could be hidden in `gain` in exchange for being seen again in `give`."""
    return views.present(gain) & ~hidden[gain] & hidden[give]


def _path(
    views: MultiView, hidden: Mapping[str, np.ndarray], spare: np.ndarray, start: str
) -> list[str] | None:
    """Find the shortest chain of views to one that can hide somebody with a view to spare."""
    came_from: dict[str, str | None] = {start: None}
    queue = [start]
    for view in queue:
        if (views.present(view) & ~hidden[view] & (spare > 0)).any():
            path = [view]
            while (before := came_from[path[-1]]) is not None:
                path.append(before)
            return path[::-1]
        for other in hidden:
            if other not in came_from and _swappable(views, hidden, view, other).any():
                came_from[other] = view
                queue.append(other)
    return None


def _exchange(
    views: MultiView,
    hidden: Mapping[str, np.ndarray],
    spare: np.ndarray,
    ranks: Mapping[str, np.ndarray],
    path: Sequence[str],
    lacking: int,
) -> None:
    """Hide more in the first view of a path: a swap per step, then new individuals in the last."""
    last = path[-1]
    amount = lacking if len(path) <= 2 else 1  # longer chains could meet one individual twice
    free = _top(ranks[last], views.present(last) & ~hidden[last] & (spare > 0), amount)
    amount = len(free)
    if len(path) == 2:
        amount = min(amount, int(_swappable(views, hidden, path[0], last).sum()))
        free = free[:amount]
    for gain, give in pairwise(path):
        moved = _top(ranks[gain] - ranks[give], _swappable(views, hidden, gain, give), amount)
        hidden[gain][moved], hidden[give][moved] = True, False
    hidden[last][free] = True
    spare[free] -= 1
