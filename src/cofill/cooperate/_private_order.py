"""The coordinator's part of a private alignment: tokens of all sites in one order of slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int

from cofill.cooperate._private_plan import Plan


def common_order(
    parties: Mapping[str, str],
    tokens: Mapping[str, Sequence[bytes]],
    present: Mapping[str, Bool[np.ndarray, " ids"]],
    asks: Mapping[str, Bool[np.ndarray, " ids"]],
    parts: Mapping[str, Int[np.ndarray, " ids"]],
    sizes: Mapping[str, tuple[int, int, int]],
    groups: Mapping[str, tuple[tuple[int, ...], ...]],
    folds: int,
    generator: np.random.Generator,
    most: int | None = None,
) -> tuple[Plan, dict[str, Int[np.ndarray, " ids"]], Int[np.ndarray, " slots"]]:
    """Return the plan, each party's slots in the order of its tokens, and each slot's pattern.

    Slots are drawn at random, so that a slot tells nothing of its person; a fold is every
    `folds`-th slot. ``parties`` are the views by party, ``present`` says of whom a party has a row,
    ``asks`` whose cells it asks for, ``parts`` who is left out of what predicts them, ``sizes`` are
    a view's numbers of features, factors and targets, ``groups`` whom its features may inform. Of
    more than ``most`` people so many have a slot, drawn by chance, and the others -1.
    """
    views = tuple(dict.fromkeys(parties.values()))
    people = _people(parties, tokens, present)
    everyone = {
        person: k
        for k, person in enumerate(dict.fromkeys(p for name in parties for p in people[name]))
    }
    count = min(len(everyone), most or len(everyone))
    shuffled = generator.permutation(len(everyone))
    shuffled[shuffled >= count] = -1
    slots = {
        name: shuffled[np.array([everyone[p] for p in people[name]], dtype=np.int64)]
        for name in parties
    }
    pattern = np.zeros(count, np.int64)
    for name, view in parties.items():
        at = slots[name][present[name]]
        pattern[at[at >= 0]] |= 1 << views.index(view)
    patterns, which = np.unique(pattern, return_inverse=True)
    counts = np.zeros((folds, len(patterns)), np.int64)
    np.add.at(counts, (np.arange(len(pattern)) % folds, which), 1)
    asked = {}
    names = tuple(tuple(p for p, v in parties.items() if v == view) for view in views)
    for k, view in enumerate(views):
        at = np.concatenate([slots[name][asks[name]] for name in names[k]])
        left_out = np.concatenate([parts[name][asks[name]] for name in names[k]])[at >= 0]
        others = pattern[at[at >= 0]] & ~(1 << k)
        pairs = set(zip(others.tolist(), left_out.tolist(), strict=True))
        asked[view] = tuple(sorted((bits, part) for bits, part in pairs if bits))
    widths, factors, targets = (tuple(sizes[name][k] for name in views) for k in range(3))
    informing = tuple(groups[view] for view in views)
    sized = widths, factors, targets
    plan = Plan(views, count, *sized, patterns, counts, asked, names, informing)
    return plan, slots, pattern


def _people(
    parties: Mapping[str, str],
    tokens: Mapping[str, Sequence[bytes]],
    present: Mapping[str, Bool[np.ndarray, " ids"]],
) -> dict[str, list[object]]:
    """Return who each party's tokens are: the same person wherever they are equal.

    A person whose row two sites of one view have is another person at the second of them, whom
    nobody else knows. Nobody is told: leaving the row out would tell the site that another has it.
    """
    with_row: dict[str, set[bytes]] = {view: set() for view in parties.values()}
    people: dict[str, list[object]] = {}
    for name, view in parties.items():
        known = with_row[view]
        people[name] = [
            (token, name) if has_row and token in known else token
            for token, has_row in zip(tokens[name], present[name].tolist(), strict=True)
        ]
        known.update(t for t, has_row in zip(tokens[name], present[name], strict=True) if has_row)
    return people
