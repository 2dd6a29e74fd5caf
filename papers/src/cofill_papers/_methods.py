"""The methods an experiment compares, behind one question: what is this view's row.

A family fits one or several methods on the training views of several repeats at once, because
networks of all repeats train as one batch and because equal weights and masks share their links.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cofill.completion import Progress, make
from cofill.errors import SettingError
from cofill.registry import suggest
from cofill.views import MultiView, drop_rows

__all__ = ["METHODS", "Family", "Fitted", "chosen", "families"]

METHODS: Mapping[str, str] = {
    "equal": "the paper's links, every view weighted alike (no masks)",
    "mwm": "the paper's system: autoencoders, links, Masked Weighting Method",
    "crossed": "the paper's links, masks from rows they did not learn from",
    "best": "the best method that lets only codes cross a border",
    "private": "regression on secret shares: no row and no code crosses a border",
    "central": "network on pooled raw views: the ceiling that breaks the security constraint",
    "central-ridge": "ridge regression on pooled raw views",
    "mean": "the training mean: the floor",
    "knn": "k nearest neighbours over pooled rows (scikit-learn)",
    "iterative": "iterative imputer over pooled rows (scikit-learn)",
}


_ON_REQUEST = ("private",)  # not the papers': named to be compared with, and added to records


@dataclass(frozen=True)
class Fitted:
    """One method as fitted in one repeat.

    Parameters
    ----------
    reconstruct
        ``(views, name) → cells``: the rows of view `name` for every individual of `views`, in the
        user's units, from the other views. `views` holds no row of that view.
    masks
        Weights as ``{view: {source: {feature: weight}}}`` where the method has masks.
    estimator
        What was fitted, for experiments that look inside.
    """

    reconstruct: Callable[[MultiView, str], np.ndarray]
    masks: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None
    estimator: Any = None


Family = Callable[[Sequence[MultiView], Sequence[int], Progress], list[dict[str, Fitted]]]
"""``(training views, seeds, progress) → one {method: Fitted} for each repeat``."""


def chosen(
    names: Sequence[str] | None,
    among: Collection[str] = tuple(METHODS),
    where: str = "the experiments",
) -> tuple[str, ...]:
    """Return the methods to run, in the order of those there are; the usual ones for None.

    Examples
    --------
    >>> chosen(["mean", "mwm"])
    ('mwm', 'mean')
    """
    if names is None:
        return tuple(m for m in among if m not in _ON_REQUEST)
    for name in names:
        if name not in among:
            raise SettingError(f"there is no method {name!r} in {where}; {suggest(name, among)}")
    if not names:
        raise SettingError("methods must name at least one method, got none")
    return tuple(m for m in among if m in names)


def families(methods: Sequence[str], *, architecture: str, masks: str = "closed") -> list[Family]:
    """Return the families that fit these methods.

    Parameters
    ----------
    methods
        Names of `METHODS`.
    architecture
        Column of Table I for the paper's networks.
    masks
        How the paper's system finds its masks; ``"gradient"`` also gives ``closed``, the same
        links with masks in closed form.
    """
    chosen_families: list[Family] = []
    if {"equal", "mwm"} & set(methods):
        chosen_families.append(partial(_faithful, methods, architecture, masks))
    if "crossed" in methods:
        chosen_families.append(partial(_crossed, architecture))
    if "best" in methods:
        chosen_families.append(_best)
    ours = ("equal", "mwm", "crossed", "best")
    chosen_families += [partial(_baseline, m) for m in methods if m not in ours]
    return chosen_families


def _faithful(
    methods: Sequence[str],
    architecture: str,
    masks: str,
    trains: Sequence[MultiView],
    seeds: Sequence[int],
    progress: Progress,
) -> list[dict[str, Fitted]]:
    from cofill.cooperate import CooperativeReconstruction, fit_many

    # Masks other than the closed form are compared with it, over the same links.
    ways = [masks] if masks == "closed" or "mwm" not in methods else [masks, "closed"]
    by_masks = {
        way: [
            CooperativeReconstruction(
                method="faithful", architecture=architecture, masks=way, seed=seed
            )
            for seed in seeds
        ]
        for way in ways
    }
    together = [estimator for estimators in by_masks.values() for estimator in estimators]
    fit_many(together, list(trains) * len(ways), progress=progress)
    repeats = []
    for k, estimator in enumerate(by_masks[masks]):
        fitted: dict[str, Fitted] = {}
        if "equal" in methods:
            fitted["equal"] = Fitted(partial(_equal, estimator))
        if "mwm" in methods:
            fitted["mwm"] = Fitted(estimator.reconstruct, _masks(estimator), estimator)
        if len(ways) > 1:
            closed = by_masks["closed"][k]
            fitted["closed"] = Fitted(closed.reconstruct, _masks(closed), closed)
        repeats.append(fitted)
    return repeats


def _crossed(
    architecture: str, trains: Sequence[MultiView], seeds: Sequence[int], progress: Progress
) -> list[dict[str, Fitted]]:
    return _fitted(
        "crossed",
        trains,
        seeds,
        progress,
        {"method": "faithful", "architecture": architecture, "mask_folds": 5},
    )


def _best(
    trains: Sequence[MultiView], seeds: Sequence[int], progress: Progress
) -> list[dict[str, Fitted]]:
    # With N views there are N (N − 1) links to cross-validate; beyond four views, for time, the
    # fusion alone. Whether masked links would be better there has not been measured.
    method = "auto" if len(trains[0]) <= 4 else "fused"
    return _fitted("best", trains, seeds, progress, {"method": method})


def _fitted(
    name: str,
    trains: Sequence[MultiView],
    seeds: Sequence[int],
    progress: Progress,
    settings: Mapping[str, Any],
) -> list[dict[str, Fitted]]:
    """Fit a cooperation with the same settings in all repeats."""
    from cofill.cooperate import CooperativeReconstruction, fit_many

    estimators = [CooperativeReconstruction(seed=seed, **settings) for seed in seeds]
    fit_many(estimators, list(trains), progress=progress)
    return [{name: Fitted(e.reconstruct, _masks(e), e)} for e in estimators]


def _baseline(
    name: str, trains: Sequence[MultiView], seeds: Sequence[int], progress: Progress
) -> list[dict[str, Fitted]]:
    repeats = []
    for k, (train, seed) in enumerate(zip(trains, seeds, strict=True)):
        progress(name, k / len(seeds))
        if name == "iterative" and train.is_complete:
            # Fitted on complete rows, scikit-learn's imputer stops after one round and fills by
            # that one; holes of the kind it will be asked about make it learn all its rounds.
            train, _ = drop_rows(train, 0.1, key=seed)
        completer = make(name, **({} if name == "mean" else {"seed": seed})).fit(train)
        # On shares each question costs a run, so that one view alone is asked for.
        ask = getattr(completer, "reconstruct", None) or partial(_completed, completer)
        repeats.append({name: Fitted(ask, estimator=completer)})
    return repeats


def _completed(completer: Any, views: MultiView, name: str) -> np.ndarray:
    return completer.complete(views).cells[name]


def _equal(estimator: Any, views: MultiView, name: str) -> np.ndarray:
    return estimator.reconstruct(views, name, masks="equal")


def _masks(estimator: Any) -> dict[str, dict[str, dict[str, float]]] | None:
    """Return a fitted estimator's masks as plain dicts, None where it has none."""
    import narwhals as nw

    frame = getattr(estimator, "masks_", None)
    if frame is None:
        return None
    masks: dict[str, dict[str, dict[str, float]]] = {}
    for row in nw.from_native(frame, eager_only=True).rows(named=True):
        weights = masks.setdefault(str(row["view"]), {}).setdefault(str(row["source"]), {})
        weights[str(row["feature"])] = float(row["weight"])
    return masks
