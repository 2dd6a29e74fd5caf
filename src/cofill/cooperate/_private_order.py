"""The coordinator's part of a private alignment: tokens of all sites in one order of slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int

from cofill.cooperate._private_plan import Plan


def common_order(
    tokens: Mapping[str, Sequence[bytes]],
    present: Mapping[str, Bool[np.ndarray, " ids"]],
    asks: Mapping[str, Bool[np.ndarray, " ids"]],
    sizes: Mapping[str, tuple[int, int, int]],
    folds: int,
    generator: np.random.Generator,
    most: int | None = None,
) -> tuple[Plan, dict[str, Int[np.ndarray, " ids"]], Int[np.ndarray, " slots"]]:
    """Return the plan, each view's slots in the order of its tokens, and each slot's pattern.

    Slots are drawn at random, so that a slot tells nothing of its person; a fold is every
    `folds`-th slot. ``present`` says of whom a view has a row, ``asks`` whose cells it asks for,
    ``sizes`` are its numbers of features, factors and targets. Of more than ``most`` people so many
    have a slot, drawn by chance, and the others -1.
    """
    views = tuple(tokens)
    everyone = {
        token: k
        for k, token in enumerate(dict.fromkeys(token for name in views for token in tokens[name]))
    }
    count = min(len(everyone), most or len(everyone))
    shuffled = generator.permutation(len(everyone))
    shuffled[shuffled >= count] = -1
    slots = {
        name: shuffled[np.array([everyone[token] for token in tokens[name]], dtype=np.int64)]
        for name in views
    }
    pattern = np.zeros(count, np.int64)
    for k, name in enumerate(views):
        at = slots[name][present[name]]
        pattern[at[at >= 0]] |= 1 << k
    patterns, which = np.unique(pattern, return_inverse=True)
    people = np.zeros((folds, len(patterns)), np.int64)
    np.add.at(people, (np.arange(len(pattern)) % folds, which), 1)
    asked = {}
    for k, name in enumerate(views):
        at = slots[name][asks[name]]
        others = np.unique(pattern[at[at >= 0]] & ~(1 << k))
        asked[name] = tuple(int(bits) for bits in others if bits)
    widths, factors, targets = (tuple(sizes[name][k] for name in views) for k in range(3))
    plan = Plan(views, count, widths, factors, targets, patterns, people, asked)
    return plan, slots, pattern
