"""Arithmetic of two computing sites on shares, with triples from a dealer.

A *masked* matrix is X = E + U: both computing sites know E, each knows a share of U, the dealer
knows U and never sees E. Its owner sends E; a value that was computed is masked by opening its
shares less a fresh U. The product of two masked matrices needs no message,

    X Y = E F + E V + U F + U V,

because the dealer has handed out shares of U V beforehand: site 0 draws its share from a key, site
1 gets the rest as words. Dividing by a power of two (`truncate`) opens a value under a uniform mask
r whose quotient the dealer has shared. As long as the value is below 2^62 it is off by less than
one unit in the last place, never fails, and is right on average: the quotients of x + r and of r
differ by x / 2^bits rounded up or down, up with the probability of the fraction.

A computation is written once, as a generator over a `Computer`: it yields the shares to open in
each round and gets the opened values back. The two computing sites run it on values; the dealer
runs it on masks, where it draws every triple that they will need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Shaped, UInt32, UInt64

from cofill.codec import storable
from cofill.errors import DataError
from cofill.shares._random import derive, random_rotation, random_words
from cofill.shares._ring import (
    from_words,
    halves_shape,
    multiply,
    pack_halves,
    to_words,
    unpack_halves,
)
from cofill.shares._spectra import (
    Spectrum,
    from_triangle,
    pack_spectrum,
    size_of,
    spectrum_of,
    unpack_spectrum,
)

Words = Shaped[np.ndarray, "..."]
"""Words of 64 bits; a trusted machine, which tests compare with, has plain numbers instead."""

Named = dict[str, Words]
Bits = int | Mapping[str, int]
"""How many bits go: of all values, or by label."""
Result = TypeVar("Result")
Rounds = Generator[Named, Named, Result]
"""A computation: yields shares by label, receives the opened values of the same labels."""

_HALF = np.uint64(2**62)  # moves values of either sign into the lower half of the ring
_TOP = np.uint64(63)

AGREED = "/agreed"
"""End of the label of words that one computing site tells the other, which answers `NOTHING`."""
NOTHING = np.zeros(1, np.uint64)
_LOW = np.uint64(2**63 - 1)


@storable
@dataclass(frozen=True, eq=False)
class Masked:
    """A matrix whose mask the dealer knows: E, and this party's part of U (the dealer's is U)."""

    public: Words
    mask: Words

    @property
    def T(self) -> Masked:  # noqa: N802  as NumPy calls it
        """The transposed matrix."""
        return Masked(self.public.T, self.mask.T)

    def __add__(self, other: Masked) -> Masked:
        return Masked(self.public + other.public, self.mask + other.mask)

    def __getitem__(self, index: Any) -> Masked:
        return Masked(self.public[index], self.mask[index])

    @staticmethod
    def beside(parts: list[Masked]) -> Masked:
        """Return matrices side by side."""
        return Masked(
            np.hstack([part.public for part in parts]), np.hstack([part.mask for part in parts])
        )

    @staticmethod
    def below(parts: list[Masked]) -> Masked:
        """Return matrices one below the other."""
        return Masked(
            np.vstack([part.public for part in parts]), np.vstack([part.mask for part in parts])
        )


@dataclass(frozen=True, eq=False)
class Weighted:
    """A masked matrix with weights of its rows that only the dealer knows: shares of w and w U."""

    value: Masked
    weight: Words
    mask: Words


def bits_of(label: str, bits: Bits) -> int:
    """Return how many bits of a label's values go."""
    return bits if isinstance(bits, int) else bits[label]


class Computer(ABC):
    """One party of a computation: a computing site, or the dealer."""

    @abstractmethod
    def input(self, owner: str, label: str, public: Words) -> Masked:
        """Return an input that its owner has masked (`mask_input`)."""

    @abstractmethod
    def rotation(self, label: str, size: int, bits: int) -> Masked:
        """Return an orthogonal matrix that only the dealer, who drew it, knows: E is zero."""

    @abstractmethod
    def product(self, label: str, left: Masked, right: Masked) -> Words:
        """Return shares of a matrix product."""

    @abstractmethod
    def symmetric_product(self, label: str, left: Masked, right: Masked, blur: int) -> Words:
        """Return shares of the upper triangle of a product that is symmetric, row by row.

        Its last ``blur`` bits are uniform noise of the dealer, around zero: they would tell of
        rounding in the factors.
        """

    @abstractmethod
    def weigh(self, label: str, weights: str, value: Masked) -> Weighted:
        """Return a matrix whose rows have weights by name, which the dealer knows."""

    @abstractmethod
    def weighted_product(self, label: str, left: Weighted, right: Weighted) -> Words:
        """Return shares of Xᵀ W Y = Eᵀ (w F + w V) + (w U)ᵀ F + Uᵀ W V."""

    @abstractmethod
    def weighted(self, value: Weighted) -> Words:
        """Return shares of a matrix with its rows times their weights."""

    @abstractmethod
    def times(self, label: str, left: Masked, right: Masked) -> Words:
        """Return shares of a product cell by cell."""

    @abstractmethod
    def mask(self, shares: Named) -> Rounds[dict[str, Masked]]:
        """Open shares under fresh masks."""

    @abstractmethod
    def truncate(self, shares: Named, bits: Bits) -> Rounds[Named]:
        """Return shares of values divided by 2^bits, bits at most 32, off by less than one unit."""

    @abstractmethod
    def open(self, shares: Named) -> Rounds[Named]:
        """Return the values of shares, for both computing sites to see."""

    @abstractmethod
    def scaled(self, matrix: Words, share: Words) -> Words:
        """Return shares of a product with a matrix that both computing sites know."""

    @abstractmethod
    def weighted_squares(self, label: str, weights: str, value: Masked) -> Words:
        """Return shares of sums over rows of squared cells, rows weighted as the dealer knows.

        Σ w (E + U)² = Σ w E² + 2 Σ E w U + Σ w U²: the dealer shares w, w U and Σ w U².
        """

    @abstractmethod
    def share(self, value: Masked) -> Words:
        """Return shares of a masked matrix."""

    def constant(self, values: Float[np.ndarray, ...], bits: int) -> Masked:
        """Return a matrix that everybody knows."""
        words = self.encode(values, bits)
        return Masked(words, np.zeros_like(words))

    def multiple(self, factor: int, share: Words) -> Words:
        """Return shares times a whole number that both computing sites know."""
        return share * np.uint64(factor)

    def zeros(self, shape: tuple[int, ...]) -> Words:
        """Return shares of zeros."""
        return np.zeros(shape, np.uint64)

    def encode(self, values: Float[np.ndarray, ...], bits: int) -> Words:
        """Return known numbers in fixed point."""
        return to_words(values, bits)

    def decode(self, words: Words, bits: int) -> Float[np.ndarray, ...]:
        """Return opened numbers."""
        return from_words(words, bits)

    @abstractmethod
    def spectra(self, opened: Named, bits: int) -> Rounds[dict[str, Spectrum]]:
        """Return eigenvalues and eigenvectors of opened upper triangles, at both sites alike.

        Libraries and processors differ in signs and last digits, and shares that two sites multiply
        by different matrices add up to noise: one of them computes, and tells the other.
        """


@dataclass(frozen=True, eq=False)
class ComputingSite(Computer):
    """A computing site: number 0 or 1, its key from the dealer, and the words dealt to it."""

    number: int
    key: bytes = field(repr=False)
    dealt: Mapping[str, Words] = field(default_factory=dict, repr=False)

    def input(self, owner: str, label: str, public: Words) -> Masked:
        return Masked(public, random_words(derive(self.key, owner), label, public.shape))

    def rotation(self, label: str, size: int, bits: int) -> Masked:
        share = self._share(f"{label}/rotation", (size, size))
        return Masked(np.zeros_like(share), share)

    def product(self, label: str, left: Masked, right: Masked) -> Words:
        cross = self._cross(left, right)
        return cross + self._triple(label, cross.shape)

    def symmetric_product(self, label: str, left: Masked, right: Masked, blur: int) -> Words:
        cross = self._cross(left, right)
        triangle = cross[np.triu_indices(len(cross))]
        return triangle + self._triple(label, triangle.shape)

    def _cross(self, left: Masked, right: Masked) -> Words:
        """Return this site's share of E F + E V + U F."""
        cross = np.zeros((len(left.public), right.public.shape[1]), np.uint64)
        if left.public.any():  # of a rotation it is zero
            cross += multiply(left.public, self.share(right))
        if right.public.any():
            cross += multiply(left.mask, right.public)
        return cross

    def weigh(self, label: str, weights: str, value: Masked) -> Weighted:
        rows, columns = value.public.shape
        weight = self._share(f"{weights}/weights", (rows, 1))
        return Weighted(value, weight, self._share(f"{label}/weighed", (rows, columns)))

    def weighted_product(self, label: str, left: Weighted, right: Weighted) -> Words:
        others = right.weight * right.value.public + right.mask
        cross = multiply(left.value.public.T, others)
        cross += multiply(left.mask.T, right.value.public)
        return cross + self._triple(label, cross.shape)

    def weighted(self, value: Weighted) -> Words:
        return value.weight * value.value.public + value.mask

    def times(self, label: str, left: Masked, right: Masked) -> Words:
        others = right.mask + right.public if self.number == 0 else right.mask
        cross = left.public * others + left.mask * right.public
        return cross + self._triple(label, cross.shape)

    def mask(self, shares: Named) -> Rounds[dict[str, Masked]]:
        masks = {k: random_words(self.key, f"{k}/mask", s.shape) for k, s in shares.items()}
        opened = yield {k: share - masks[k] for k, share in shares.items()}
        return {k: Masked(opened[k], masks[k]) for k in shares}

    def truncate(self, shares: Named, bits: Bits) -> Rounds[Named]:
        first = np.uint64(self.number == 0)
        opened = yield {
            k: share + random_words(self.key, f"{k}/pad", share.shape) + first * _HALF
            for k, share in shares.items()
        }
        quotients: Named = {}
        for k, value in opened.items():
            gone = np.uint64(bits_of(k, bits))
            unit, top = np.uint64(2**63) >> gone, value >> _TOP
            known = ((value & _LOW) >> gone) + top * unit - (_HALF >> gone)
            quotients[k] = first * known - self._share(f"{k}/upper", value.shape)
            # Of the pad's top bit the last bits alone count: they are shifted to the very top.
            carry = self._share(f"{k}/top", halves_shape(value.size))
            carry = unpack_halves(carry, value.shape).astype(np.uint64)
            quotients[k] -= (top * carry) << (np.uint64(64) - gone)
        return quotients

    def open(self, shares: Named) -> Rounds[Named]:
        return (yield shares)

    def scaled(self, matrix: Words, share: Words) -> Words:
        return multiply(matrix, share)

    def spectra(self, opened: Named, bits: int) -> Rounds[dict[str, Spectrum]]:
        words: Named = dict.fromkeys((f"{k}{AGREED}" for k in opened), NOTHING)
        if self.number == 0:
            # The other site adds nothing to them.
            for k, triangle in opened.items():
                matrix = from_triangle(self.decode(triangle, bits))
                words[f"{k}{AGREED}"] = pack_spectrum(spectrum_of(matrix))
        agreed = yield words
        return {
            k: unpack_spectrum(k, agreed[f"{k}{AGREED}"], size_of(triangle))
            for k, triangle in opened.items()
        }

    def weighted_squares(self, label: str, weights: str, value: Masked) -> Words:
        rows, columns = value.public.shape
        weight = self._share(f"{label}/weights", (rows, 1))
        product = self._share(f"{label}/product", (rows, columns))
        known = (value.public * (weight * value.public + product + product)).sum(axis=0)
        return known + self._share(f"{label}/squares", (columns,))

    def share(self, value: Masked) -> Words:
        return value.mask + value.public if self.number == 0 else value.mask

    def _triple(self, label: str, shape: tuple[int, ...]) -> Words:
        return self._share(f"{label}/triple", shape)

    def _share(self, label: str, shape: tuple[int, ...]) -> Words:
        if self.number == 0:
            return random_words(self.key, label, shape)
        return self._dealt(label, shape)

    def _dealt(self, label: str, shape: tuple[int, ...]) -> Words:
        words = self.dealt.get(label)
        if words is None or words.shape != shape:
            raise DataError(
                f"the dealer's words for {label!r} must have the shape {shape}, got "
                f"{None if words is None else words.shape}; start a new run"
            )
        return words


@dataclass(frozen=True, eq=False)
class Dealer(Computer):
    """The dealer: both computing sites' keys, a key of its own, and the words it has to hand out.

    ``weights`` are weights of rows, by name, that it alone knows; ``dealt`` are words for site 1,
    since site 0 draws all of its own from its key. Shares are zeros here: it knows masks and no
    value.
    """

    keys: tuple[bytes, bytes] = field(repr=False)
    own_key: bytes = field(repr=False)
    weights: Mapping[str, UInt64[np.ndarray, " rows"]] = field(default_factory=dict, repr=False)
    dealt: Named = field(default_factory=dict, repr=False)

    def input(self, owner: str, label: str, public: Words) -> Masked:
        keys = input_keys(self.keys, owner)
        return Masked(public, _sum_of(keys, label, public.shape))

    def rotation(self, label: str, size: int, bits: int) -> Masked:
        words = to_words(random_rotation(self.own_key, label, size), bits)
        self._deal(f"{label}/rotation", words)
        return Masked(np.zeros_like(words), words)

    def product(self, label: str, left: Masked, right: Masked) -> Words:
        return self._deal(f"{label}/triple", multiply(left.mask, right.mask))

    def symmetric_product(self, label: str, left: Masked, right: Masked, blur: int) -> Words:
        product = multiply(left.mask, right.mask)
        triangle = product[np.triu_indices(len(product))]
        noise = random_words(self.own_key, f"{label}/blur", triangle.shape) >> np.uint64(64 - blur)
        return self._deal(f"{label}/triple", triangle + noise - np.uint64(2 ** (blur - 1)))

    def weigh(self, label: str, weights: str, value: Masked) -> Weighted:
        weight = self.weights[weights][:, None]
        self._deal(f"{weights}/weights", weight)
        self._deal(f"{label}/weighed", weight * value.mask)
        return Weighted(value, weight, weight * value.mask)

    def weighted_product(self, label: str, left: Weighted, right: Weighted) -> Words:
        return self._deal(f"{label}/triple", multiply(left.mask.T, right.value.mask))

    def weighted(self, value: Weighted) -> Words:
        return np.zeros(value.mask.shape, np.uint64)

    def times(self, label: str, left: Masked, right: Masked) -> Words:
        return self._deal(f"{label}/triple", left.mask * right.mask)

    def mask(self, shares: Named) -> Rounds[dict[str, Masked]]:
        yield shares
        return {k: Masked(s, _sum_of(self.keys, f"{k}/mask", s.shape)) for k, s in shares.items()}

    def truncate(self, shares: Named, bits: Bits) -> Rounds[Named]:
        yield shares
        for k, share in shares.items():
            pad = _sum_of(self.keys, f"{k}/pad", share.shape)
            gone, top = np.uint64(bits_of(k, bits)), pad >> _TOP
            unit = np.uint64(2**63) >> gone
            self._deal(f"{k}/upper", ((pad & _LOW) >> gone) - top * unit)
            self._deal_halves(f"{k}/top", top.astype(np.uint32))
        return shares

    def open(self, shares: Named) -> Rounds[Named]:
        yield shares
        return shares

    def scaled(self, matrix: Words, share: Words) -> Words:
        return np.zeros((len(matrix), share.shape[1]), np.uint64)

    def spectra(self, opened: Named, bits: int) -> Rounds[dict[str, Spectrum]]:
        yield opened
        sizes = {k: size_of(triangle) for k, triangle in opened.items()}
        return {k: (np.ones(n), np.zeros((n, n))) for k, n in sizes.items()}

    def weighted_squares(self, label: str, weights: str, value: Masked) -> Words:
        weight = self.weights[weights][: len(value.mask), None]
        self._deal(f"{label}/weights", weight)
        self._deal(f"{label}/product", weight * value.mask)
        return self._deal(f"{label}/squares", (weight * value.mask**2).sum(axis=0))

    def share(self, value: Masked) -> Words:
        return np.zeros(value.mask.shape, np.uint64)

    def _deal(self, label: str, value: Words) -> Words:
        self.dealt[label] = value - random_words(self.keys[0], label, value.shape)
        return np.zeros(value.shape, np.uint64)

    def _deal_halves(self, label: str, halves: UInt32[np.ndarray, ...]) -> None:
        shape = halves_shape(halves.size)
        first = random_words(self.keys[0], label, shape).view(np.uint32)
        self.dealt[label] = (pack_halves(halves).view(np.uint32) - first).view(np.uint64)


def input_keys(keys: tuple[bytes, bytes], owner: str) -> tuple[bytes, bytes]:
    """Return the keys of an owner's masks, which the dealer tells it."""
    return derive(keys[0], owner), derive(keys[1], owner)


def mask_input(keys: tuple[bytes, bytes], label: str, words: Words) -> Words:
    """Return E of an input: its words less a mask that no computing site knows."""
    return words - _sum_of(keys, label, words.shape)


def _sum_of(keys: tuple[bytes, bytes], label: str, shape: tuple[int, ...]) -> Words:
    return random_words(keys[0], label, shape) + random_words(keys[1], label, shape)


def run_as_dealer(computation: Rounds[Result]) -> Result:
    """Return what a computation on masks comes to; the dealer then has all it must hand out."""
    shares = next(computation)
    while True:
        try:
            shares = computation.send(shares)
        except StopIteration as stop:
            return stop.value
