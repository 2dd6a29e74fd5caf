"""The trusted machine of the ideal: the same computation on plain numbers, seen by nobody."""

from __future__ import annotations

import numpy as np

from cofill.cooperate._private_learner import PREDICTED_BITS, ask, learn
from cofill.shares import Computer, Masked, Weighted, bits_of, from_triangle, spectrum_of


class PlainComputer(Computer):
    """Words are floating-point numbers times 2^bits here; masks are zero."""

    def input(self, owner, label, public):
        return Masked(public, np.zeros(public.shape))

    def rotation(self, label, size, bits):
        return self.constant(np.eye(size), bits)

    def product(self, label, left, right):
        return left.public @ right.public

    def symmetric_product(self, label, left, right, blur):
        product = left.public @ right.public
        return product[np.triu_indices(len(product))]

    def weigh(self, label, weights, value):
        return Weighted(value, self.weights[weights][:, None], value.mask)

    def weighted_product(self, label, left, right):
        return left.value.public.T @ (right.weight * right.value.public)

    def weighted(self, value):
        return value.weight * value.value.public

    def times(self, label, left, right):
        return left.public * right.public

    def mask(self, shares):
        yield shares
        return {k: Masked(s, np.zeros(s.shape)) for k, s in shares.items()}

    def truncate(self, shares, bits):
        yield shares
        return {k: np.ldexp(s, -bits_of(k, bits)) for k, s in shares.items()}

    def open(self, shares):
        yield shares
        return shares

    def scaled(self, matrix, share):
        return matrix @ share

    def __init__(self, weights=None):
        self.weights = weights or {}

    def weighted_squares(self, label, weights, value):
        return (self.weights[weights][: len(value.public), None] * value.public**2).sum(axis=0)

    def share(self, value):
        return value.public

    def multiple(self, factor, share):
        return factor * share

    def zeros(self, shape):
        return np.zeros(shape)

    def encode(self, values, bits):
        return np.ldexp(values, bits)

    def decode(self, words, bits):
        return np.ldexp(words, -bits)

    def spectra(self, opened, bits):
        yield opened
        return {
            k: spectrum_of(from_triangle(self.decode(words, bits))) for k, words in opened.items()
        }


def run(computation):
    """Return what a computation on plain numbers comes to."""
    shares = next(computation)
    while True:
        try:
            shares = computation.send(shares)
        except StopIteration as stop:
            return stop.value


# --- a whole run in plain arithmetic --------------------------------------------------------------


def slots_and_patterns(sites):
    slots, patterns = {}, None
    for name, site in sites.items():
        placed = site.placed
        k = placed.plan.views.index(site.view.name)
        rows = site.view.positions(site.ids)
        slots[name] = np.empty(len(site.view), int)
        slots[name][rows[rows >= 0]] = placed.slots[rows >= 0]
        patterns = np.zeros(placed.plan.slots, int) if patterns is None else patterns
        patterns[slots[name]] |= 1 << k
    return slots, patterns, placed.plan


def plain_inputs(sites, slots, plan, computer, *, asking):
    inputs = {}
    for parties in plan.parties:
        views = [sites[name].table for name in parties]
        rows = np.concatenate([slots[name] for name in parties])
        ids = np.arange(len(rows))  # a person whose row is at two sites is there twice
        whole = views[0].with_rows(ids, np.vstack([view.cells for view in views]))
        model = sites[parties[0]].fitted
        table = model.inputs(whole, rows, plan, computer, asking=asking)
        for name in parties:
            share = 1.0 if name == parties[0] else 0.0
            inputs |= {f"{name}/{label}": share * words for label, words in table.items()}
    return inputs


def plain_targets(model, asked):
    """Return, by party, the targets that a trusted machine predicts for whom it asked about.

    It takes each view's rows as one table, wherever they are.
    """
    least = model.min_overlap
    slots, patterns, known = slots_and_patterns(model.sites_)
    machine = PlainComputer(known.weights(patterns, least))
    inputs = plain_inputs(model.sites_, slots, known, machine, asking=False)
    learned, _ = run(learn(machine, known, inputs, least))
    slots, patterns, plan = slots_and_patterns(asked)
    for k, (view, parties) in enumerate(zip(plan.views, plan.parties, strict=True)):
        left_out = np.full(plan.slots, -1)
        for site in map(asked.get, parties):
            rows = site.view.positions(site.ids)
            left_out[site.placed.slots] = np.where(rows < 0, 0, np.append(site.parts, 0)[rows])
        for bits, part in plan.asked[view]:
            chosen = (left_out == part) & (patterns & ~(1 << k) == bits)
            machine.weights[f"asked/{view}/{bits}/{part}"] = chosen
    inputs = plain_inputs(asked, slots, plan, machine, asking=True)
    choices = model.federation_.coordinator.choices
    predicted = run(ask(machine, plan, inputs, learned, known, choices, least))
    return {
        name: machine.decode(
            predicted[site.view.name][site.placed.slots[site.predicted.at]], PREDICTED_BITS
        )
        * np.sqrt(plan.slots)
        for name, site in asked.items()
        if site.predicted is not None
    }
