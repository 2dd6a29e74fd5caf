"""Who holds what: individuals dealt out to sites, with all their views or with some.

Every function returns ``{site: MultiView}`` in a fixed order, and is a function of its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int

from cofill.errors import SettingError
from cofill.views._keys import Key, stream
from cofill.views._multiview import MultiView


def by_row(
    views: MultiView,
    sites: int | Sequence[str],
    *,
    key: Key,
    labels: np.ndarray | None = None,
    alpha: float | None = None,
    min_rows: int = 1,
) -> dict[str, MultiView]:
    """Deal the individuals out to sites, evenly or with skewed classes.

    Parameters
    ----------
    views
        The views.
    sites
        How many sites (named ``site_1``, …), or their names.
    key
        Seed: a whole number or several.
    labels, alpha
        The class of each individual of ``views.ids``, and the concentration of the Dirichlet
        distribution from which each class's shares over the sites are drawn: the smaller, the more
        skewed. Without them everybody is dealt by chance and sizes differ by at most one.
    min_rows
        The least individuals a site gets; a site that was given fewer takes from the largest.

    Examples
    --------
    >>> lab = MultiView.from_arrays({"lab": np.ones((10, 2))})
    >>> [views.n_individuals for views in by_row(lab, 3, key=0).values()]
    [4, 3, 3]
    """
    names = _site_names(sites)
    n = views.n_individuals
    if not 1 <= min_rows <= n // len(names):
        raise SettingError(
            f"min_rows must be at least 1 and leave enough for {len(names)} sites, got {min_rows} "
            f"with {n:,} individuals; use fewer sites or a smaller min_rows"
        )
    if (labels is None) != (alpha is None):
        raise SettingError(
            "labels and alpha go together (skewed classes); give both, or neither for an even deal"
        )
    rng = stream(key, "by row")
    order = rng.permutation(n)
    site = np.empty(n, dtype=np.int64)
    if labels is None or alpha is None:
        site[order] = np.arange(n) % len(names)
    else:
        if len(labels) != n:
            raise SettingError(
                f"labels must have one entry per individual ({n:,}), got {len(labels):,}"
            )
        if not (np.isfinite(alpha) and alpha > 0):
            raise SettingError(f"alpha must be a positive number, got {alpha!r}")
        for label in np.unique(labels):
            members = order[np.asarray(labels)[order] == label]
            shares = rng.dirichlet(np.full(len(names), float(alpha)))
            site[members] = np.repeat(np.arange(len(names)), rng.multinomial(len(members), shares))
        _top_up(site, len(names), min_rows, order)
    return _dealt(views, site, names)


def pair_up(views: MultiView, *, paired: int, only: Mapping[str, int], key: Key) -> MultiView:
    """Leave some individuals in every view and the others in a single one.

    Parameters
    ----------
    views
        Views in which every individual has every row.
    paired
        How many individuals keep all their views.
    only
        How many keep just the named view. With `paired` they add up to all individuals.
    key
        Seed: a whole number or several.

    Examples
    --------
    >>> both = MultiView.from_arrays({"image": np.ones((8, 4)), "edge": np.ones((8, 4))})
    >>> pair_up(both, paired=4, only={"image": 3, "edge": 1}, key=0)
    MultiView of 8 individuals
      image  7 (87.5 %) × 4 features
      edge   5 (62.5 %) × 4 features
      in every view: 4 individuals
    """
    return _paired(views, _groups(views, paired, only, key), list(only))


def by_row_paired(
    views: MultiView,
    sites: int | Sequence[str] = 10,
    *,
    paired: int,
    only: Mapping[str, int],
    key: Key,
) -> dict[str, MultiView]:
    """Pair up and deal out: each site gets its share of the pairs and of every single view.

    Fed-VIGAN's set-up (section 4.1) is 10 sites, ``paired=30_000`` and ``only={"image": 15_000,
    "edge": 15_000}``: 3,000 pairs, 1,500 images and 1,500 edges a site. Where a count does not
    divide evenly, sites differ by at most one in each group and in all.

    Examples
    --------
    >>> both = MultiView.from_arrays({"image": np.ones((24, 4)), "edge": np.ones((24, 4))})
    >>> dealt = by_row_paired(both, 2, paired=12, only={"image": 6, "edge": 6}, key=0)
    >>> dealt["site_1"].patterns()
    {(True, True): 6, (True, False): 3, (False, True): 3}
    """
    names = _site_names(sites)
    group = _groups(views, paired, only, key)
    if views.n_individuals < len(names):
        raise SettingError(
            f"sites must be at most the number of individuals ({views.n_individuals:,}), "
            f"got {len(names)}"
        )
    order = np.lexsort((stream(key, "deal").permutation(len(group)), group))
    site = np.empty(len(group), dtype=np.int64)
    site[order] = np.arange(len(group)) % len(names)
    return _dealt(_paired(views, group, list(only)), site, names)


def _site_names(sites: int | Sequence[str]) -> list[str]:
    if isinstance(sites, int):
        if sites < 1:
            raise SettingError(f"sites must be at least 1, got {sites}")
        width = len(str(sites))
        return [f"site_{k:0{width}d}" for k in range(1, sites + 1)]
    names = list(sites)
    if not names or len(set(names)) != len(names) or isinstance(sites, str):
        raise SettingError(f"sites must be a number or different names, got {sites!r}")
    return names


def _groups(
    views: MultiView, paired: int, only: Mapping[str, int], key: Key
) -> Int[np.ndarray, " individuals"]:
    """Return 0 for each individual that keeps every view, k for one that keeps only the k-th."""
    for name in only:
        views[name]
    counts = [paired, *only.values()]
    if min(counts) < 0:
        raise SettingError(f"paired and only must be at least 0, got {min(counts)}")
    incomplete = int((~views.presence.all(axis=1)).sum())
    if incomplete:
        raise SettingError(
            f"views must hold every individual to be paired up, got {incomplete:,} individuals "
            "with a missing view; take the complete ones first"
        )
    if sum(counts) != views.n_individuals:
        asked = " + ".join(f"{c:,}" for c in counts)
        raise SettingError(
            f"paired and only must add up to the {views.n_individuals:,} individuals, got {asked} "
            f"= {sum(counts):,}; change the counts, or take fewer individuals first"
        )
    return stream(key, "pair up").permutation(np.repeat(np.arange(len(counts)), counts))


def _paired(views: MultiView, group: np.ndarray, only: Sequence[str]) -> MultiView:
    position = {name: k for k, name in enumerate(only, start=1)}
    return views.hide({n: (group != 0) & (group != position.get(n, 0)) for n in views})


def _top_up(site: np.ndarray, n_sites: int, min_rows: int, order: np.ndarray) -> None:
    """Move individuals from the largest site to those with too few, in place."""
    sizes = np.bincount(site, minlength=n_sites)
    for poor in np.flatnonzero(sizes < min_rows):
        while sizes[poor] < min_rows:
            rich = int(sizes.argmax())
            amount = min(min_rows - sizes[poor], max(1, (sizes[rich] - min_rows) // 2))
            site[order[site[order] == rich][:amount]] = poor
            sizes[rich] -= amount
            sizes[poor] += amount


def _dealt(views: MultiView, site: np.ndarray, names: Sequence[str]) -> dict[str, MultiView]:
    return {name: views.take(site == k) for k, name in enumerate(names)}
