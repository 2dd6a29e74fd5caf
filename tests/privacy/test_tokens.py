"""Ordering and finding tokens, against sets and sorted lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill.privacy import _tokens, blind, in_order, no_tokens, rows_of, union

PEOPLE = st.lists(st.integers(0, 40), unique=True, max_size=30)


def tokens_of(people: list[int]) -> np.ndarray:
    return blind(np.array(people, dtype=np.int64), b"k")


@given(PEOPLE, PEOPLE)
def test_positions_are_those_of_a_dictionary(people, wanted):
    at = {person: k for k, person in enumerate(people)}
    result = rows_of(tokens_of(people), tokens_of(wanted))
    assert result.tolist() == [at.get(person, -1) for person in wanted]


@given(PEOPLE, PEOPLE, PEOPLE)
def test_a_union_names_everyone_once_in_sorted_order(first, second, third):
    result = union(tokens_of(p) for p in (first, second, third))
    assert result.tolist() == sorted(tokens_of(sorted({*first, *second, *third})).tolist())


@given(PEOPLE)
def test_the_order_is_that_of_the_digits(people):
    tokens = tokens_of(people)
    np.testing.assert_array_equal(in_order(tokens), np.sort(tokens))


@pytest.mark.parametrize("beginning", [b"0" * 16, b"f" * 16])
def test_tokens_that_begin_alike_are_told_apart(beginning):
    tokens = np.array([beginning + bytes(f"{k:016x}", "ascii") for k in (3, 1, 2)], "S32")
    other = np.array([beginning + b"0" * 15 + b"9"], "S32")
    assert rows_of(tokens, tokens[::-1]).tolist() == [2, 1, 0]
    assert rows_of(tokens, other).tolist() == [-1]
    assert in_order(tokens).tolist() == sorted(tokens.tolist())


def test_nobody_is_found_among_nobody():
    assert rows_of(no_tokens(), tokens_of([1])).tolist() == [-1]
    assert rows_of(tokens_of([1]), no_tokens()).tolist() == []
    assert len(union([])) == 0


def test_the_order_of_many_tokens_is_kept_while_they_are_there(monkeypatch):
    orders = {}
    monkeypatch.setattr(_tokens, "_ORDERS", orders)
    monkeypatch.setattr(_tokens, "_MANY", 3)
    tokens = tokens_of(range(50))
    assert rows_of(tokens, tokens[7:9]).tolist() == [7, 8]
    assert len(orders) == 1
    assert rows_of(tokens, tokens[::-1]).tolist() == list(range(50))[::-1]
    assert len(orders) == 1
    assert rows_of(in_order(tokens), tokens[:0]).tolist() == []
    few = tokens_of(range(2))
    rows_of(few, few)
    assert len(orders) == 1
    del tokens
    assert not orders
