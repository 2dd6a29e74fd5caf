"""Exact sums: totals of numbers of any size, flags of anybody, and nothing else in the words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.errors import DataError
from cofill.privacy import ExactSums, NumbersAndFlags


@given(
    numbers=st.lists(
        st.lists(st.integers(-(2**120), 2**120), min_size=2, max_size=2), min_size=1, max_size=6
    ),
    flags=st.lists(st.booleans(), min_size=6, max_size=6),
)
@settings(max_examples=50)
def test_the_total_is_exact_and_flags_are_anybodys(numbers, flags):
    code = ExactSums(2, 1, digits=8, sites=6)
    words = np.zeros(code.length, np.uint64)
    for own_numbers, flag in zip(numbers, flags, strict=False):
        words += code.encode(NumbersAndFlags(own_numbers, np.array([flag])))
    total = code.decode(words)
    assert total.numbers == [sum(column) for column in zip(*numbers, strict=True)]
    assert total.flags.tolist() == [any(flags[: len(numbers)])]


def test_the_largest_numbers_of_all_sites_do_not_wrap():
    code = ExactSums(1, 0, digits=4, sites=1000)
    extreme = 2**63 - 1
    for number in (extreme, -extreme - 1):
        words = sum(code.encode(NumbersAndFlags([number], np.zeros(0, bool))) for _ in range(1000))
        assert code.decode(np.asarray(words, np.uint64)).numbers == [1000 * number]
    with pytest.raises(DataError, match=r"within ±2\^63"):
        code.encode(NumbersAndFlags([extreme + 1], np.zeros(0, bool)))


def test_sums_of_digits_do_not_tell_who_carried():
    # 0xFFFF + 1 carries and 0x8000 + 0x8000 too, 0x10000 + 0 does not: the same total.
    code = ExactSums(1, 0, digits=3, sites=2)

    def second_digits(one, other):
        def encode(number):
            return code.encode(NumbersAndFlags([number], np.zeros(0, bool))).view(np.int64)

        sums = [encode(one) + encode(other) for _ in range(200)]
        return np.array([digits[1] for digits in sums], float)

    carried, not_carried = second_digits(0xFFFF, 1), second_digits(0x10000, 0)
    assert len(set(carried)) == len(set(not_carried)) == 200
    spread = np.std(carried)
    assert spread > 2**38  # one carry more or less is lost in it
    assert abs(carried.mean() - not_carried.mean()) < 0.5 * spread


def test_a_raised_flag_looks_random_whoever_and_however_many_raised_it():
    code, no_numbers = ExactSums(0, 1, sites=9), []
    raised, lowered = (NumbersAndFlags(no_numbers, np.array([flag])) for flag in (True, False))
    one = [int(code.encode(raised)[0]) for _ in range(300)]
    many = [sum(int(code.encode(raised)[0]) for _ in range(9)) % 2**64 for _ in range(300)]
    for words in (one, many):
        assert len(set(words)) == 300
        assert np.mean(words) == pytest.approx(2**63, rel=0.15)
    assert code.encode(lowered).tolist() == [0]
