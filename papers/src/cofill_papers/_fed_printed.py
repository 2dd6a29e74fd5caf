"""What the thesis prints of each epoch and round: squared errors on the scale from 0 to 255."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["THESIS_TABLES", "PrintedCurve"]

_ROUNDS = (1, 5, 10, 15, 20, 25, 30, 35, 40)


class PrintedCurve(NamedTuple):
    """One table: what is measured, of which method and which figure of its curve, and the errors.

    ``phase`` is the phase of pre-training whose epochs these are; None for a table of rounds.
    """

    title: str
    method: str
    figure: str
    errors: Mapping[int, float]
    phase: str | None = None


def _rounds(*errors: float) -> dict[int, float]:
    return dict(zip(_ROUNDS, errors, strict=True))


THESIS_TABLES: Mapping[str, PrintedCurve] = {
    "4.3": PrintedCurve(
        "autoencoder, epochs of pre-training",
        "local-pretraining",
        "autoencoder",
        {1: 21971.125, 5: 7345.722, 10: 5659.752, 15: 5229.051, 20: 4844.809},
        phase="autoencoder",
    ),
    "4.4": PrintedCurve(
        "generators, epochs of pre-training",
        "local-pretraining",
        "generators_all",
        {1: 8184.782, 2: 4448.527, 3: 3260.162, 4: 2595.971, 5: 2026.374},
        phase="cycle",
    ),
    "4.5": PrintedCurve(
        "Fed-VIGAN, rounds",
        "fed-faithful",
        "all",
        _rounds(
            4955.038,
            2458.345,
            2232.054,
            2168.372,
            2020.933,
            1881.179,
            1770.581,
            1748.304,
            1773.149,
        ),
    ),
    "4.6": PrintedCurve(
        "generators of Fed-VIGAN, rounds",
        "fed-faithful",
        "generators_all",
        _rounds(
            2254.691,
            2576.486,
            3600.572,
            3894.330,
            4089.021,
            4018.345,
            4193.732,
            4592.809,
            5131.218,
        ),
    ),
    "4.7": PrintedCurve(
        "VIGAN in one place, rounds",
        "central-faithful",
        "all",
        _rounds(
            3860.845,
            2187.176,
            1987.941,
            1872.982,
            1740.152,
            1663.809,
            1627.561,
            1563.130,
            1555.901,
        ),
    ),
    "4.8": PrintedCurve(
        "VIGAN of one site, rounds",
        "local-faithful",
        "all",
        _rounds(
            5111.133,
            4429.878,
            4306.743,
            3374.955,
            3109.872,
            2887.180,
            2913.811,
            2781.563,
            2676.680,
        ),
    ),
    "4.10": PrintedCurve(
        "federated pix2pix, rounds",
        "fed-pix2pix-faithful",
        "all",
        _rounds(
            7821.098,
            5634.761,
            4566.375,
            4223.936,
            3872.971,
            3508.650,
            2875.126,
            2475.994,
            2337.901,
        ),
    ),
}
