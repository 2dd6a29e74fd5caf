"""The trusted machine of the ideal: the same computation on plain numbers, seen by nobody."""

from __future__ import annotations

import numpy as np

from cofill.shares import Computer, Masked, Weighted, from_triangle, spectrum_of


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
        return {k: np.ldexp(s, -bits) for k, s in shares.items()}

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
