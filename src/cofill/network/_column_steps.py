"""Steps in which sites agree on columns, over parties that hold what a protocol works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cofill.protocol import Step, agree_on_columns, describe_columns

__all__ = ["INTRODUCE", "SETTLE", "lifted"]


def lifted(step: Step[Any]) -> Step[Any]:
    """Return a step over parties that hold what it works on."""
    name = "party" if step.at == "coordinator" else "site"

    def run(parties: Sequence[Any], inboxes: Sequence[Any], report_progress: Any) -> list[Any]:
        results = step.run([getattr(party, name) for party in parties], inboxes, report_progress)
        pairs = zip(parties, results, strict=True)
        return [(replace(party, **{name: inner}), sent) for party, (inner, sent) in pairs]

    return Step(step.name, run, step.at)


def _introduce(parties: Sequence[Any], inboxes: Sequence[Any], report_progress: Any) -> list[Any]:
    return [(party, [describe_columns(party.name, party.views)]) for party in parties]


def _settle(parties: Sequence[Any], inboxes: Sequence[Any], report_progress: Any) -> list[Any]:
    results = []
    for party, inbox in zip(parties, inboxes, strict=True):
        columns = agree_on_columns(party.names, party.order, inbox)
        inner = party.make(columns[0])
        results.append((replace(party, columns=columns[0], party=inner), columns))
    return results


INTRODUCE = Step("introduce", _introduce)
SETTLE = Step("settle columns", _settle, "coordinator")
