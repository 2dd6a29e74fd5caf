"""Annotated array shapes are checked while tests run: arguments, results, a dataclass's fields."""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from cofill.federate._rows import Rows
from cofill.metrics import purity


def test_an_argument_of_another_shape_is_refused():
    with pytest.raises(TypeCheckError):
        purity(np.zeros((2, 2), int), np.zeros(2, int))


def test_arguments_whose_sizes_must_agree_are_compared():
    with pytest.raises(TypeCheckError):
        purity(np.zeros(3, int), np.zeros(2, int))


def test_a_field_of_another_shape_is_refused():
    with pytest.raises(TypeCheckError):
        Rows(np.zeros((3, 2)), np.zeros((3, 2), bool), np.zeros((4, 1), bool))
