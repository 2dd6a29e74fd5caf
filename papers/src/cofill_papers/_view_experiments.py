"""The experiments on reconstruction: data, repeats, protocol, and what the paper printed.

Figures are those of Maurel, Lefebvre and Sublime, "Deep Cooperative Reconstruction with Security
Constraints in multi-view environments" (ICDMW 2020): Tables II and III and section VI. Its Figures
6 and 9 survive as pictures only, so errors and differences stand beside the statements of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, ClassVar

from cofill.completion import Progress
from cofill.metrics import Recorder, ResultRecord, ResultTable
from cofill.views import Dataset, load
from cofill_papers._base import AbstractExperiment
from cofill_papers._comparison import paired_test
from cofill_papers._crs import (
    Notebook,
    Observe,
    Repeat,
    hidden_rows,
    run_repeats,
    split_individuals,
)
from cofill_papers._methods import METHODS, chosen, families
from cofill_papers._observations import (
    collect_masks,
    covered,
    cube_masks,
    digit_pictures,
    mean_masks,
    noise_is_flagged,
    printed_iteration,
    relative_differences,
    subtypes,
)
from cofill_papers._view_pictures import draw_views

__all__ = ["VIEW_EXPERIMENTS", "ViewExperiment", "largest_difference", "paired_by_view"]

_WIDE = 100
"""Pooled columns from which a quick run leaves out the methods that take minutes there."""

_TABLES = {
    "Reconstruction (standardised units; MSE 1 is as good as the mean)": ("mse", "mrd"),
    "Binary and categorical cells": ("accuracy",),
    "Classification by the paper's random forest (fractions)": ("rf", "class_diff"),
    "Individuals without a protein row, classified": ("rf_missing", "rf_missing_joint"),
    "Mean relative difference with other bounds near zero, and median ratio": (
        "mrd_all",
        "mrd_0.001",
        "mrd_0.1",
        "mrd_median",
    ),
    "Masks": ("mask_shared", "mask_nonshared"),
    "Features whose masks Eq. 8 finds in the printed order": ("eq8_converges",),
    "Noise": ("informative_auc", "probes_flagged", "informative_flagged"),
    "Cells left open (scored as the training mean)": ("left_open",),
}
"""Titles of the tables of a record, with the metrics of each."""


@dataclass(frozen=True)
class ViewExperiment(AbstractExperiment):
    """One experiment on reconstruction.

    Parameters
    ----------
    name, description, repeats, published, protocol
        As in every experiment.
    load
        ``seed → data set``; called once with the first seed unless `fresh`.
    architecture
        Column of Table I for the paper's networks.
    largest_published
        The paper's largest absolute Classification Difference with masks, a fraction.
    prepare
        ``(data set, seed) → Repeat``, as `protocol` says in words.
    chunk
        Repeats that are trained as one batch, bounded by memory.
    masks
        How the paper's system finds its masks here.
    fresh
        Whether the data are drawn anew in every repeat.
    observe
        What else is looked at.
    """

    name: str
    description: str
    repeats: int
    load: Callable[[int], Dataset]
    architecture: str
    published: Mapping[str, Any] = field(default_factory=dict)
    largest_published: float | None = None
    prepare: Callable[[Dataset, int], Repeat] = split_individuals
    protocol: str = "90/10 split of the individuals; everything is fitted on the 90"
    chunk: int = 10
    masks: str = "closed"
    fresh: bool = False
    observe: Sequence[Observe] = ()
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = _TABLES

    def plan(
        self, methods: Sequence[str] | None, seeds: Sequence[int], *, quick: bool
    ) -> Mapping[str, str]:
        wanted = chosen(methods)
        data = self.load(seeds[0])
        if quick and methods is None:
            width = sum(view.n_features for view in data.views.values())
            wanted = tuple(m for m in wanted if m != "iterative" or width <= _WIDE)
        return {method: METHODS[method] for method in wanted}

    @property
    def details(self) -> Mapping[str, str]:
        """Networks, masks and units."""
        return {
            "architecture": self.architecture,
            "masks": self.masks,
            "units": "standardised by the training rows",
        }

    def run(
        self,
        recorder: Recorder,
        methods: Sequence[str],
        *,
        quick: bool,
        earlier: ResultRecord | None,
        progress: Progress,
    ) -> None:
        shared = self.load(recorder.seeds[0])

        def prepare(seed: int) -> Repeat:
            return self.prepare(self.load(seed) if self.fresh else shared, seed)

        notebook = Notebook(recorder)
        run_repeats(
            notebook,
            prepare,
            families(methods, architecture=self.architecture, masks=self.masks),
            chunk=self.chunk,
            observe=[
                collect_masks,
                covered,
                relative_differences,
                printed_iteration,
                *self.observe,
            ],
            progress=progress,
        )
        _note_comparisons(notebook)

    def draw_record(self, record: ResultRecord) -> dict[str, str]:
        return draw_views(record)

    def result_tables(self, record: ResultRecord) -> dict[str, ResultTable]:
        """Return the tables of a record, the last with each method's largest difference."""
        tables = super().result_tables(record)
        largest = record.extra.get("largest_class_diff")
        if largest:
            title = "Largest absolute Classification Difference of a view, in points"
            tables[title] = _largest(largest, self.largest_published)
        return tables


def paired_by_view(record: ResultRecord, method: str, baseline: str) -> dict[str, Any]:
    """Test, per view and over all, that one method's squared error is less than another's.

    Examples
    --------
    >>> record = ResultRecord("x", seeds=[0, 1, 2], values={
    ...     "mwm/mse/view_a": [1.0, 2.0, 3.0], "equal/mse/view_a": [2.0, 3.1, 4.2]})
    >>> round(paired_by_view(record, "mwm", "equal")["view_a"]["mean_difference"], 3)
    -1.1
    """
    summary = record.summary
    views = [k.split("/")[2] for k in summary if k.startswith(f"{method}/mse/")]
    tests = {}
    for view in views:
        if f"{baseline}/mse/{view}" in summary:
            first, second = (record.per_seed(m, "mse", view) for m in (method, baseline))
            tests[view] = asdict(paired_test(first, second, alternative="less"))
    return tests


def largest_difference(record: ResultRecord) -> dict[str, dict[str, Any]]:
    """Return per method the view whose mean Classification Difference is farthest from zero.

    Examples
    --------
    >>> largest_difference(ResultRecord("x", seeds=[0], values={
    ...     "mwm/class_diff/view_a": [0.01], "mwm/class_diff/view_b": [-0.02]}))
    {'mwm': {'value': -0.02, 'where': 'view_b'}}
    """
    largest: dict[str, dict[str, Any]] = {}
    for key, value in record.summary.items():
        method, metric, where = key.split("/")
        mean = value["mean"]
        if metric != "class_diff" or where == "all" or mean is None:
            continue
        if method not in largest or abs(mean) > abs(largest[method]["value"]):
            largest[method] = {"value": mean, "where": where}
    return largest


def _note_comparisons(notebook: Notebook) -> None:
    """Add what is computed from all repeats: mean masks, paired tests, largest differences."""
    recorder, notes = notebook.recorder, notebook.notes
    figures = recorder.finish()
    computed = {
        "masks": mean_masks(notebook),
        "paired": _less_than_equal(figures, "mwm"),
        "paired_crossed": _less_than_equal(figures, "crossed"),
        "largest_class_diff": largest_difference(figures),
        **notes,
    }
    for key, value in computed.items():
        if value:
            recorder.note(key, value)


def _less_than_equal(record: ResultRecord, method: str) -> dict[str, Any]:
    """Return the claim that a method errs less than equal weights with its tests, if both ran."""
    tests = paired_by_view(record, method, "equal")
    claim = {"metric": "mse", "method": method, "less_than": "equal", "where": tests}
    return claim if tests else {}


def _largest(
    largest: Mapping[str, Mapping[str, float | str]], published: float | None
) -> ResultTable:
    rows, cells = [], []
    beside = published is not None
    for method, difference in largest.items():
        points = 100 * float(difference["value"])
        paper = 100 * published if published and method == "mwm" else None
        row = {"method": method, "where": difference["where"], "points": points}
        rows.append({**row, "points_published": paper} if beside else row)
        line = [method, str(difference["where"]), f"{points:+.1f}".replace("-", "−")]
        cells.append([*line, "–" if paper is None else f"{paper:.1f}"] if beside else line)
    header = ["method", "where", "points", *(["points (paper)"] * beside)]
    return ResultTable(rows, header, cells)


def _any_seed(name: str, seed: int) -> Dataset:
    return load(name)


def _drawn(name: str, seed: int) -> Dataset:
    return load(name, key=seed)


VIEW_EXPERIMENTS: tuple[ViewExperiment, ...] = (
    ViewExperiment(
        "cube",
        "four clusters seen along each axis: the masks find the shared coordinates (Table III)",
        50,
        partial(_drawn, "cube"),
        "cube",
        {
            "original/rf/all": 0.733,
            "mwm/mask_shared/all": (0.920, 0.026),
            "mwm/mask_nonshared/all": (0.143, 0.034),
        },
        largest_published=0.075,
        chunk=25,
        masks="gradient",
        fresh=True,
        observe=(cube_masks,),
    ),
    ViewExperiment(
        "wdbc",
        "breast masses in three views: reconstruction and classification",
        50,
        partial(_any_seed, "wdbc"),
        "wdbc",
        {"original/rf/all": 0.909},
        largest_published=0.075,
    ),
    ViewExperiment(
        "mfdd",
        "handwritten digits by six feature sets: reconstruction, pictures, classification",
        20,
        partial(_any_seed, "mfdd"),
        "mfdd",
        {"original/rf/all": 0.884},
        largest_published=0.075,
        chunk=20,
        observe=(digit_pictures,),
    ),
    ViewExperiment(
        "madelon",
        "twenty informative features among 480 probes: noise is not reconstructed but flagged",
        10,
        partial(_drawn, "madelon"),
        "madelon",
        {"original/rf/all": 0.606, "mwm/mse/all": "≈ 1", "mwm/mrd/all": "≈ 1"},
        chunk=10,
        fresh=True,
        observe=(noise_is_flagged,),
    ),
    ViewExperiment(
        "tcga",
        "breast cancers whose protein row is really missing for 70 of 220 (not in the paper)",
        10,
        partial(_any_seed, "tcga_brca"),
        "mfdd",
        prepare=partial(hidden_rows, names=["protein"], classify=True),
        protocol="10 % of the known protein rows hidden; everything is fitted on the rest",
        chunk=5,
        observe=(subtypes,),
    ),
    ViewExperiment(
        "credit",
        "30,000 credit card clients with numbers and categories (not in the paper)",
        5,
        partial(_any_seed, "credit"),
        "wdbc",
        prepare=hidden_rows,
        protocol="10 % of the rows of each view hidden; everything is fitted on the rest",
        chunk=1,
    ),
)
