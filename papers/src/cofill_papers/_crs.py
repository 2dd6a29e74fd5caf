"""The protocol of the Cooperative Reconstruction System (section V-B), for any method.

Each repeat splits the individuals 90/10; everything, scalers included, is fitted on the 90. Every
test individual's row is then reconstructed in every view from the other views: the views that a
method is asked with do not hold the row, so that no method can look. Errors are in standardised
units (training mean 0, training deviation 1). A second protocol serves data with holes: known rows
are hidden, methods are fitted on what is left, and the hidden rows are reconstructed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cofill.audit import HeldOut, hold_out
from cofill.completion import Progress
from cofill.errors import DataError
from cofill.metrics import Recorder, accuracy, mrd, mse
from cofill.views import Dataset, MultiView, drop_rows
from cofill_papers._comparison import paper_forest
from cofill_papers._methods import Family, Fitted

__all__ = ["Notebook", "Outcome", "Repeat", "hidden_rows", "run_repeats", "split_individuals"]


@dataclass(frozen=True, eq=False, repr=False)
class Repeat:
    """One repeat: what methods learn from, what they are asked, and what only the judge knows.

    Parameters
    ----------
    seed
        Of the split and of the methods.
    data
        The whole data set.
    train
        What methods are fitted on.
    tests
        Per view, the individuals whose row is asked; the view itself is empty in them.
    truth
        Per view, the true rows of those individuals.
    classify
        Whether a forest per view is scored on true and on reconstructed rows.
    """

    seed: int
    data: Dataset
    train: MultiView
    tests: Mapping[str, MultiView]
    truth: Mapping[str, np.ndarray]
    classify: bool = True

    def labels(self, ids: np.ndarray) -> np.ndarray:
        """Return the classes of individuals."""
        return self.data.labels[np.searchsorted(self.data.views.ids, ids)]

    @cached_property
    def forests(self) -> dict[str, Any]:
        """Per view the paper's forest, trained on the view's real training rows."""
        rows = {v: self.train[v] for v in self.tests} if self.classify else {}
        return {
            v: paper_forest(self.seed).fit(view.cells, self.labels(view.ids))
            for v, view in rows.items()
        }

    @cached_property
    def originals(self) -> dict[str, float]:
        """Per view the share of real test rows that the forest gives the right class."""
        return {v: _accuracy(self, v, forest, self.truth[v]) for v, forest in self.forests.items()}

    @cached_property
    def held_out(self) -> HeldOut:
        """The split as such, which judges cells in standardised units."""
        return HeldOut(self.seed, self.train, self.tests, self.truth)

    def standardised(self, name: str, cells: np.ndarray) -> np.ndarray:
        """Return the numeric cells of a view in standardised units."""
        return self.held_out.standardised(name, cells)


@dataclass(frozen=True, eq=False, repr=False)
class Outcome:
    """What one method made in one repeat: the reconstructed cells of every view."""

    method: str
    fitted: Fitted
    cells: Mapping[str, np.ndarray]


@dataclass
class Notebook:
    """Where an experiment writes: figures into the recorder, everything else into notes."""

    recorder: Recorder
    notes: dict[str, Any] = field(default_factory=dict)
    _done: set[tuple[str, int]] = field(default_factory=set, repr=False)

    def first(self, what: str, seed: int) -> bool:
        """Whether this is asked for the first time: for what is done once in a repeat."""
        fresh = (what, seed) not in self._done
        self._done.add((what, seed))
        return fresh


Observe = Callable[[Notebook, Repeat, Outcome], None]


def split_individuals(data: Dataset, seed: int, *, share: float = 0.1) -> Repeat:
    """Hold a share of the individuals out of complete data (90/10 in the paper).

    Examples
    --------
    >>> from cofill.views import load
    >>> repeat = split_individuals(load("wdbc"), seed=0)
    >>> repeat.train.n_individuals, repeat.truth["mean"].shape, len(repeat.tests["mean"]["mean"])
    (512, (57, 10), 0)
    """
    views = data.views
    if not views.is_complete:
        raise DataError(f"data set {data.name!r} has holes; individuals cannot be split for it")
    n = views.n_individuals
    test = np.zeros(n, dtype=bool)
    # The words after the seed keep this stream apart from those of the methods.
    order = np.random.default_rng([seed, 90, 10]).permutation(n)
    test[order[: max(1, round(share * n))]] = True
    held = hold_out(views, test, seed)
    return Repeat(seed, data, held.train, held.tests, held.truth)


def hidden_rows(
    data: Dataset,
    seed: int,
    *,
    share: float = 0.1,
    names: Sequence[str] | None = None,
    classify: bool = False,
) -> Repeat:
    """Hide a share of the known rows of some views; methods learn from all that is left."""
    views = data.views
    holed, hidden = drop_rows(views, share, key=seed, names=names)
    asked = [v for v in views if hidden[v].any()]
    tests = {v: holed.take(np.isin(holed.ids, views.ids[hidden[v]])) for v in asked}
    truth = {v: views[v].cells[views[v].positions(tests[v].ids)] for v in asked}
    return Repeat(seed, data, holed, tests, truth, classify)


def run_repeats(
    notebook: Notebook,
    prepare: Callable[[int], Repeat],
    method_families: Sequence[Family],
    *,
    chunk: int,
    observe: Sequence[Observe] = (),
    progress: Progress,
) -> None:
    """Fit every family on every repeat, some repeats at a time, and score what it makes."""
    seeds = notebook.recorder.seeds
    steps = -(-len(seeds) // chunk) * len(method_families)
    done = 0
    for start in range(0, len(seeds), chunk):
        repeats = [prepare(seed) for seed in seeds[start : start + chunk]]
        for repeat in repeats:
            for v in repeat.forests:
                _note_ends(notebook.recorder, repeat, v)
        for family in method_families:
            part = _part(progress, done, steps)
            by_repeat = family([r.train for r in repeats], [r.seed for r in repeats], part)
            for repeat, methods in zip(repeats, by_repeat, strict=True):
                for method, fitted in methods.items():
                    outcome = _reconstruct(notebook.recorder, repeat, method, fitted)
                    _score(notebook.recorder, repeat, outcome)
                    for look in observe:
                        look(notebook, repeat, outcome)
            done += 1
    progress("done", 1.0)


def _note_ends(recorder: Recorder, repeat: Repeat, name: str) -> None:
    """Record what a forest makes of a view's real rows, and another of those of the other views.

    No row made of other views can tell more of the class than they do, so that the second says how
    much of the Classification Difference is the data's, as far as a forest can read it there.
    """
    where, seed, original = f"view_{name}", repeat.seed, repeat.originals[name]
    recorder.add("original", "rf", where, original, seed=seed)
    known, asked = (v.without_view(name) for v in (repeat.train, repeat.tests[name]))
    if known.is_complete and asked.is_complete:
        learned, rows = (np.hstack([v.aligned(n) for n in v]) for v in (known, asked))
        forest = paper_forest(seed).fit(learned, repeat.labels(known.ids))
        reached = accuracy(repeat.labels(asked.ids), forest.predict(rows))
        recorder.add("others", "rf", where, reached, seed=seed)
        recorder.add("others", "class_diff", where, round(reached - original, 12), seed=seed)


def _part(progress: Progress, done: int, steps: int) -> Progress:
    """Turn the progress of one step into that of all."""
    return lambda what, share: progress(what, (done + min(max(share, 0.0), 1.0)) / steps)


def _reconstruct(recorder: Recorder, repeat: Repeat, method: str, fitted: Fitted) -> Outcome:
    """Ask for every hidden row; a cell the method leaves open counts as the training mean."""
    cells = {}
    for v, views in repeat.tests.items():
        reconstructed = np.array(fitted.reconstruct(views, v), dtype=np.float64)
        if reconstructed.shape != repeat.truth[v].shape:
            raise DataError(
                f"method {method!r} must reconstruct view {v!r} as {repeat.truth[v].shape} cells, "
                f"got {reconstructed.shape}"
            )
        left = np.isnan(reconstructed)
        if left.any():
            typical = np.nan_to_num(np.nanmean(repeat.train[v].cells, axis=0, dtype=np.float64))
            reconstructed = np.where(left, typical, reconstructed)
            recorder.add(method, "left_open", f"view_{v}", float(left.mean()), seed=repeat.seed)
        cells[v] = reconstructed
    return Outcome(method, fitted, cells)


def _score(recorder: Recorder, repeat: Repeat, outcome: Outcome) -> None:
    """Record errors of numeric cells, accuracy of coded ones, and what a forest makes of them."""
    method, seed = outcome.method, repeat.seed
    for v, reconstructed in outcome.cells.items():
        where, truth = f"view_{v}", repeat.truth[v]
        numeric, _ = repeat.held_out.scalers[v]
        if numeric:
            true, guess = repeat.standardised(v, truth), repeat.standardised(v, reconstructed)
            recorder.add(method, "mse", where, mse(true, guess), seed=seed)
            relative = mrd(true, guess, scale=np.ones(true.shape[1]))
            recorder.add(method, "mrd", where, relative, seed=seed)
        coded = [k for k in range(truth.shape[1]) if k not in set(numeric)]
        if coded:
            right = accuracy(truth[:, coded], reconstructed[:, coded].astype(truth.dtype))
            recorder.add(method, "accuracy", where, right, seed=seed)
        if v in repeat.forests:
            reached = _accuracy(repeat, v, repeat.forests[v], reconstructed)
            recorder.add(method, "rf", where, reached, seed=seed)
            # Rounded, so that equal differences of counts are equal numbers.
            difference = round(reached - repeat.originals[v], 12)
            recorder.add(method, "class_diff", where, difference, seed=seed)


def _accuracy(repeat: Repeat, name: str, forest: Any, rows: np.ndarray) -> float:
    return accuracy(repeat.labels(repeat.tests[name].ids), forest.predict(rows))
