"""Annotated array shapes are checked while tests run: arguments, results, a dataclass's fields."""

from contextlib import suppress

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from cofill.errors import DataError
from cofill.federate._rows import Rows
from cofill.metrics import purity


def call_often(truth, groups):
    """Call a function fifty times in turn: of so many calls at least one is checked."""
    for _ in range(50):
        with suppress(DataError):  # what the function itself says of them
            purity(truth, groups)


def test_an_argument_of_another_shape_is_refused():
    with pytest.raises(TypeCheckError):
        call_often(np.zeros((2, 2), int), np.zeros(2, int))


def test_arguments_whose_sizes_must_agree_are_compared():
    with pytest.raises(TypeCheckError):
        call_often(np.zeros(3, int), np.zeros(2, int))


def test_a_field_of_another_shape_is_refused():
    with pytest.raises(TypeCheckError):
        Rows(np.zeros((3, 2)), np.zeros((3, 2), bool), np.zeros((4, 1), bool))
