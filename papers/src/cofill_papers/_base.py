"""What every experiment is: data, methods, what was printed, and pictures of its record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from cofill.completion import Progress
from cofill.metrics import Recorder, ResultRecord, ResultTable
from cofill_papers._tables import table

__all__ = ["AbstractExperiment"]


class AbstractExperiment(ABC):
    """One experiment.

    Attributes
    ----------
    name, description, protocol
        What it is called, what it shows, and how the data are split and measured.
    repeats
        How often the paper ran it; ours for the data sets the paper does not have.
    published
        The paper's figures by ``"<method>/<metric>/<where>"``.
    tables
        Titles of the tables of a record, with the metrics of each.
    """

    name: str
    description: str
    protocol: str
    repeats: int
    published: Mapping[str, Any]
    tables: ClassVar[Mapping[str, tuple[str, ...]]]

    @abstractmethod
    def plan(
        self, methods: Sequence[str] | None, seeds: Sequence[int], *, quick: bool
    ) -> Mapping[str, str]:
        """Return the methods that will run, with words for each.

        Raises before anything is written or trained where a method has no such name or data are
        missing. None stands for all methods.
        """

    @abstractmethod
    def run(
        self,
        recorder: Recorder,
        methods: Sequence[str],
        *,
        quick: bool,
        earlier: ResultRecord | None,
        progress: Progress,
    ) -> None:
        """Run methods over the recorder's seeds and write their figures to it.

        `earlier` is the record that the figures will be added to, if there is one.
        """

    def parts(self, *, quick: bool) -> list[tuple[str | None, int]]:
        """Return what can be run by itself: a method, None for all at once, and its repeats."""
        return [(None, 2 if quick else self.repeats)]

    @property
    def details(self) -> Mapping[str, Any]:
        """Settings that only this kind of experiment has."""
        return {}

    @abstractmethod
    def draw_record(self, record: ResultRecord) -> dict[str, str]:
        """Return the pictures of a record as SVG, by name."""

    def draw_data(self) -> dict[str, str]:
        """Return pictures of the data as SVG, by name."""
        return {}

    def result_tables(self, record: ResultRecord) -> dict[str, ResultTable]:
        """Return the tables of a record by title, the paper's figures beside ours."""
        methods = {key.split("/")[0] for key in record.values}
        metrics = {key.split("/")[1] for key in record.values}
        # A figure of a method that was not run has nothing to stand beside.
        published = {k: v for k, v in self.published.items() if k.split("/")[0] in methods}
        tables = {}
        for title, wanted in self.tables.items():
            shown = [metric for metric in wanted if metric in metrics]
            if shown:
                tables[title] = table(record, shown, published)
        return tables
