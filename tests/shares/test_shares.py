"""Arithmetic on shares against plain arithmetic, and what each party's words look like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest
from threadpoolctl import threadpool_info, threadpool_limits

from cofill.errors import DataError
from cofill.shares import (
    ComputingSite,
    Dealer,
    _alignment,
    blind_ids,
    from_words,
    input_keys,
    mask_input,
    multiply,
    multiply_points,
    points_of,
    run_as_dealer,
    split_points,
    to_words,
)
from cofill.shares._ring import few_threads

_KEYS = (b"0" * 32, b"1" * 32)
_BITS = 20


def run(program, inputs):
    """Run a computation of two sites and their dealer; return results and all words each saw."""
    dealer = Dealer(_KEYS, b"d" * 32)
    zeros = {label: np.zeros(words.shape, np.uint64) for label, words in inputs.items()}
    run_as_dealer(program(dealer, zeros))
    masked = {k: mask_input(input_keys(_KEYS, "owner"), k, words) for k, words in inputs.items()}
    sites = [ComputingSite(0, _KEYS[0]), ComputingSite(1, _KEYS[1], dealer.dealt)]
    programs = [program(site, masked) for site in sites]
    seen = [*masked.values(), *dealer.dealt.values()]
    shares = [next(p) for p in programs]
    while True:
        seen += [words for share in shares for words in share.values()]
        opened = {k: shares[0][k] + shares[1][k] for k in shares[0]}
        results = []
        for k, p in enumerate(programs):
            try:
                shares[k] = p.send(opened)
            except StopIteration as stop:
                results.append(stop.value)
        if results:
            return results[0] + results[1], seen


def products(computer, inputs):
    """(X Y ∘ X Y) / 2^40: a matrix product, a truncation, a product of cells, another one."""
    x, y = (computer.input("owner", k, inputs[k]) for k in ("x", "y"))
    share = computer.product("xy", x, y)
    share = (yield from computer.truncate({"t": share}, _BITS))["t"]
    xy = (yield from computer.mask({"m": share}))["m"]
    square = computer.times("square", xy, xy)
    return (yield from computer.truncate({"s": square}, _BITS))["s"]


@given(seed=st.integers(0, 2**32), inner=st.integers(1, 9))
@settings(max_examples=25)
def test_products_on_shares_are_plain_products(seed, inner):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(0, 3, (4, inner)), rng.normal(0, 3, (inner, 5))
    result, _ = run(products, {"x": to_words(x, _BITS), "y": to_words(y, _BITS)})
    assert from_words(result, _BITS) == pytest.approx((x @ y) ** 2, abs=1e-2, rel=1e-4)


@given(
    values=st.lists(st.integers(-(2**62) + 1, 2**62 - 1), min_size=1, max_size=20),
    bits=st.integers(1, 32),
)
@settings(max_examples=60)
def test_truncation_is_exact_but_for_one_unit_up_to_the_largest_value(values, bits):
    def program(computer, inputs):
        x = computer.input("owner", "x", inputs["x"])
        share = computer.times("one", x, computer.input("owner", "one", inputs["one"]))
        return (yield from computer.truncate({"x": share}, bits))["x"]

    words = np.array(values, np.int64).view(np.uint64)
    ones = np.ones(len(values), np.uint64)
    result, _ = run(program, {"x": words, "one": ones})
    errors = [
        int(quotient) - (value >> bits)
        for quotient, value in zip(result.view(np.int64), values, strict=True)
    ]
    assert set(errors) <= {-1, 0, 1}


@given(seed=st.integers(0, 2**32), shape=st.tuples(*[st.integers(1, 6)] * 3))
@settings(max_examples=30)
def test_products_of_words_are_numpys(seed, shape):
    rng = np.random.default_rng(seed)
    rows, inner, columns = shape
    left = rng.integers(0, 2**64, (rows, 700 * inner), dtype=np.uint64)
    right = rng.integers(0, 2**64, (700 * inner, columns), dtype=np.uint64)
    assert (multiply(left, right) == left @ right).all()


def test_every_word_that_a_party_sees_is_uniform_whatever_the_data():
    for scale in (0.0, 1.0, 1000.0):
        x = scale * np.ones((40, 30))
        _, seen = run(products, {"x": to_words(x, _BITS), "y": to_words(x.T, _BITS)})
        for words in seen:
            if words.size > 200 and words.max() > 1:
                top = words.ravel().astype(np.float64) / 2.0**64
                assert kstest(top, "uniform").pvalue > 1e-7


def test_a_symmetric_product_is_blurred_below_its_last_bits_and_no_further():
    blur, size = 24, 30

    def program(computer, inputs):
        x = computer.input("owner", "x", inputs["x"])
        return computer.symmetric_product("xx", x, x.T, blur)
        yield

    rng = np.random.default_rng(0)
    x = rng.integers(-(2**20), 2**20, (size, 5))
    dealer = Dealer(_KEYS, b"d" * 32)
    words = x.view(np.uint64)
    keys = input_keys(_KEYS, "owner")
    with pytest.raises(StopIteration):
        next(program(dealer, {"x": np.zeros_like(words)}))
    total = np.zeros(size * (size + 1) // 2, np.uint64)
    for site in (ComputingSite(0, _KEYS[0]), ComputingSite(1, _KEYS[1], dealer.dealt)):
        with pytest.raises(StopIteration) as stop:
            next(program(site, {"x": mask_input(keys, "x", words)}))
        total += stop.value.value
    noise = total.view(np.int64) - (x @ x.T)[np.triu_indices(size)]
    assert kstest(noise / 2.0**blur + 0.5, "uniform").pvalue > 1e-7


def test_a_rotation_is_shared_by_words_that_are_uniform_at_either_site():
    dealer = Dealer(_KEYS, b"d" * 32)
    rotation = dealer.rotation("q", 30, _BITS)
    sites = ComputingSite(0, _KEYS[0]), ComputingSite(1, _KEYS[1], dealer.dealt)
    parts = [site.rotation("q", 30, _BITS) for site in sites]
    assert not any(part.public.any() for part in parts)
    for part in parts:
        assert kstest(part.mask.ravel() / 2.0**64, "uniform").pvalue > 1e-7
    turned = from_words(parts[0].mask + parts[1].mask, _BITS)
    np.testing.assert_array_equal(turned, from_words(rotation.mask, _BITS))
    np.testing.assert_allclose(turned @ turned.T, np.eye(30), atol=30 * 2.0**-_BITS)


def test_numbers_too_large_for_fixed_point_are_refused():
    with pytest.raises(DataError, match="below 2\\^42"):
        to_words(np.array([2.0**43]), 20)


def test_dealt_words_of_a_wrong_shape_are_refused():
    site = ComputingSite(1, _KEYS[1], {"xy/triple": np.zeros((2, 2), np.uint64)})
    x = site.input("owner", "x", np.zeros((3, 3), np.uint64))
    with pytest.raises(DataError, match="must have the shape"):
        site.product("xy", x, x)


def test_many_ids_are_blinded_by_several_processes_to_the_same_points(monkeypatch):
    ids = np.array([f"person {k}" for k in range(25)])
    alone = blind_ids(ids, b"s" * 32)
    assert alone == multiply_points(points_of(ids), b"s" * 32)
    monkeypatch.setattr(_alignment, "_LEAST_A_PROCESS", 8)
    monkeypatch.setattr(_alignment.os, "cpu_count", lambda: 2)
    began = []
    popen = _alignment.subprocess.Popen

    class Counted(popen):
        def __init__(self, command, **options):
            assert not any("73" * 32 in word for word in command)  # the secret is no argument
            began.append(command)
            super().__init__(command, **options)

    monkeypatch.setattr(_alignment.subprocess, "Popen", Counted)
    assert blind_ids(ids, b"s" * 32) == alone
    assert len(began) == 1
    with pytest.raises(DataError, match="holds something that is no point"):
        multiply_points(alone[: 20 * 32] + bytes(32), b"t" * 32)


def test_no_point_tells_a_bit_of_its_id():
    # A multiple of a point of the twist is on the twist: who passed one on would tell which it was.
    prime, points = 2**255 - 19, points_of(np.arange(64))
    for listed in (points, multiply_points(points, b"s" * 32)):
        for point in split_points(listed):
            x = int.from_bytes(point, "little")
            assert pow(x**3 + 486662 * x**2 + x, (prime - 1) // 2, prime) == 1


def test_values_of_one_round_lose_bits_by_label():
    values = {"a": np.array([[3.0, -5.5]]), "b": np.array([[100.25]])}
    bits = {"a": 4, "b": 11}

    def program(computer, inputs):
        shares = {k: computer.share(computer.input("owner", k, inputs[k])) for k in values}
        return (yield from computer.truncate(shares, bits))

    dealer = Dealer(_KEYS, b"d" * 32)
    words = {k: to_words(v, _BITS) for k, v in values.items()}
    run_as_dealer(program(dealer, {k: np.zeros_like(w) for k, w in words.items()}))
    masked = {k: mask_input(input_keys(_KEYS, "owner"), k, w) for k, w in words.items()}
    sites = ComputingSite(0, _KEYS[0]), ComputingSite(1, _KEYS[1], dealer.dealt)
    programs = [program(site, masked) for site in sites]
    first, second = (next(p) for p in programs)
    opened, totals = {k: first[k] + second[k] for k in values}, dict.fromkeys(values, 0)
    for one in programs:
        with pytest.raises(StopIteration) as stop:
            one.send(opened)
        totals = {k: totals[k] + share for k, share in stop.value.value.items()}
    for k, value in values.items():
        left = _BITS - bits[k]
        np.testing.assert_allclose(from_words(totals[k], left), value, atol=2.0**-left)


def test_small_products_are_kept_to_one_thread_and_large_ones_are_not():
    def threads() -> set[int]:
        return {library["num_threads"] for library in threadpool_info()}

    with threadpool_limits(2):
        with few_threads(10**6):
            assert threads() == {1}
        with few_threads(10**10):
            assert threads() == {2}
        assert threads() == {2}
