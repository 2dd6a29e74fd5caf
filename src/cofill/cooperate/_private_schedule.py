"""The order of a private run's steps: rounds of learning, then of asking, and which are left out.

Where rows have holes a round's predictions fill them, and the next round learns from whole rows:
learn, ask about rows with holes, learn again; then ask in every round. The coordinator leaves out
what there is no need for: further messages of dealt words, parts of people, and rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cofill.cooperate import _private_alignment as alignment
from cofill.cooperate import _private_compute as compute
from cofill.cooperate import _private_coordinator as coordinator
from cofill.cooperate import _private_owner as owner
from cofill.cooperate import _private_survey as survey
from cofill.cooperate._private_learner import ASK_ROUNDS, LEARN_ROUNDS
from cofill.protocol import COORDINATOR, Step, one_by_one

_DEAL_ON, _DEAL_PART, _KEEP = "deal on", "deal for the next part", "keep choices"
_DEALING = ("match and deal", _DEAL_ON, _DEAL_PART)


def _step(name: str, act: Any, at: Any = "sites", **whose: tuple[str, ...]) -> Step[Any]:
    return Step(name, one_by_one(act), at, **whose)


@dataclass(frozen=True)
class Schedule:
    """All steps of a run of some parties, of whom a pair computes and some split a view."""

    parties: tuple[str, ...]
    pair: tuple[str, str]
    split: tuple[str, ...]
    rounds: int

    @cached_property
    def steps(self) -> tuple[Step[Any], ...]:
        """All steps in their order."""
        return tuple(step for steps in self._blocks.values() for step in steps)

    @property
    def asking(self) -> int:
        """The first step of asking."""
        return self._places["ask", 0].start

    @cached_property
    def _blocks(self) -> dict[tuple[str, int], tuple[Step[Any], ...]]:
        """The steps of learning and asking by round, in their order.

        Where rows have holes sites fill them by what a round predicts, and learn once more.
        """
        learning, asking = {}, {}
        for number in range(self.rounds):
            if number:
                learning["ask to learn", number] = self._asking_in(number - 1, only_rows=True)
            learning["learn", number] = self._learning_in(number)
            asking["ask", number] = self._asking_in(number)
        return {**learning, **asking}

    @cached_property
    def _places(self) -> dict[tuple[str, int], range]:
        """Where each of these is among all steps."""
        ends = np.cumsum([len(steps) for steps in self._blocks.values()]).tolist()
        return {
            key: range(end - len(steps), end)
            for (key, steps), end in zip(self._blocks.items(), ends, strict=True)
        }

    def next_step(self, number: int, coordinator: Any) -> int:
        """Return the step after one of the coordinator's.

        Steps for frames, parts and rounds that there are none of are left out.
        """
        name = self.steps[number].name
        if name == _KEEP and not coordinator.has_rounds:
            return self.asking
        if name == _DEAL_PART and coordinator.alignment is None:
            after = next(place.stop for place in self._places.values() if number in place)
            return after if coordinator.has_rounds else len(self.steps)
        if name in _DEALING and coordinator.frame == coordinator.frames:
            while self.steps[number + 1].name == _DEAL_ON:
                number += 1
        return number + 1

    def is_optional(self, number: int) -> bool:
        """Return whether a step may be left out: further frames, parts and rounds."""
        return self.steps[number].name == _DEAL_ON or number not in self._needed

    @cached_property
    def _needed(self) -> frozenset[int]:
        """The steps of the first round's learning, and of asking about the first part."""
        first = [step.name for step in self._blocks["ask", 0]].index(_DEAL_PART)
        asking = range(self.asking, self.asking + first)
        return frozenset((*self._places["learn", 0], *asking))

    @property
    def _ring(self) -> tuple[Step[Any], ...]:
        """Every list of points passes every other site."""
        return (
            *[_step("pass ids on", alignment.pass_on)] * (len(self.parties) - 2),
            _step("hand ids in", alignment.hand_in, receivers=(COORDINATOR,)),
        )

    @property
    def _survey(self) -> tuple[Step[Any], ...]:
        """The sites of each view that several hold agree on columns, scales and features."""
        split = self.split
        if not split:
            return ()
        to_coordinator = {"actors": split, "receivers": (COORDINATOR,)}
        to_sites = {"at": "coordinator", "receivers": split}
        described = {"actors": split, "receivers": (*split, COORDINATOR)}
        return (
            _step("describe columns", survey.describe, **described),
            _step("agree on columns", survey.agree_columns, **to_sites),
            _step("survey", survey.add_moments, **to_coordinator),
            _step("agree on scales", survey.agree_scales, **to_sites),
            _step("survey", survey.add_shapes, **to_coordinator),
            _step("agree on features", survey.agree_features, **to_sites),
        )

    def _learning_in(self, number: int) -> tuple[Step[Any], ...]:
        pair, owners = self.pair, self.parties
        between = {"actors": pair, "receivers": pair}
        return (
            *(() if number else self._survey),
            _step("prepare", alignment.prepare_round(number) if number else alignment.prepare),
            *self._ring,
            _step("match and deal", coordinator.match_rows(number), "coordinator"),
            *self._deal_on,
            _step("share rows", alignment.share_rows, receivers=pair),
            _step("learn", compute.start_computing(asking=False), **between),
            *[_step("learn", compute.compute(asking=False), **between)] * (LEARN_ROUNDS - 1),
            _step("score", compute.finish_learning, actors=pair, receivers=owners),
            _step("choose", owner.choose, receivers=(*pair, COORDINATOR)),
            _step("keep choices", owner.keep_choices, actors=pair, receivers=()),
            _step(_KEEP, coordinator.keep_choices, "coordinator", receivers=()),
        )

    @property
    def _deal_on(self) -> tuple[Step[Any], ...]:
        """As many steps as dealt words may take messages; those not needed are left out."""
        receivers = self.pair[1:]
        step = _step(_DEAL_ON, coordinator.deal_on, "coordinator", receivers=receivers)
        return (step,) * (coordinator.MOST_FRAMES - 1)

    def _asking_in(self, number: int, *, only_rows: bool = False) -> tuple[Step[Any], ...]:
        first = _step("match and deal", coordinator.match_asked(number), "coordinator")
        later = _step(_DEAL_PART, coordinator.deal_part, "coordinator")
        parts = [first, *[later] * (coordinator.MOST_PARTS - 1)]
        return (
            _step("ask", alignment.request(number, only_rows=only_rows)),
            *self._ring,
            *(step for deal in parts for step in (deal, *self._deal_on, *self._predicting)),
        )

    @cached_property
    def _predicting(self) -> tuple[Step[Any], ...]:
        """The steps from rows that were dealt for to their people's cells."""
        pair = self.pair
        between = {"actors": pair, "receivers": pair}
        to_coordinator = {"receivers": (COORDINATOR,)}
        return (
            _step("share rows", alignment.share_asked, receivers=pair),
            _step("predict", compute.start_computing(asking=True), **between),
            *[_step("predict", compute.compute(asking=True), **between)] * (ASK_ROUNDS - 1),
            _step("hand cells in", compute.finish_asking, actors=pair, **to_coordinator),
            _step("select", coordinator.select, "coordinator"),
            _step("complete", owner.receive_cells, receivers=()),
        )
