"""Arithmetic and alignment in which nothing is shown: secret shares, triples, blinded points.

**Threat model.** Parties follow the protocol and look at everything they receive (semi-honest).
Two sites compute; the coordinator deals. No single party learns anything from the words it sees:
inputs, shares, openings under masks and dealt words are uniform and independent of the data. The
dealer must not collude with a computing site, nor the two computing sites with each other: either
pair could take the masks off. In the alignment no two sites may pool what they saw, and the
coordinator may not pool with a site. A party that deviates is stopped by checks of shapes and
ranges only; a wrong input gives a wrong result to those who asked for it.

All keys come from the operating system; everything else is drawn from them by AES-256.
"""

from cofill.shares._alignment import blind_ids, multiply_points, points_of, split_points
from cofill.shares._engine import (
    AGREED,
    NOTHING,
    Computer,
    ComputingSite,
    Dealer,
    Masked,
    Rounds,
    Weighted,
    Words,
    bits_of,
    input_keys,
    mask_input,
    run_as_dealer,
)
from cofill.shares._random import derive, random_words
from cofill.shares._ring import from_words, multiply, to_words
from cofill.shares._spectra import from_triangle, spectrum_of

__all__ = [
    "AGREED",
    "NOTHING",
    "Computer",
    "ComputingSite",
    "Dealer",
    "Masked",
    "Rounds",
    "Weighted",
    "Words",
    "bits_of",
    "blind_ids",
    "derive",
    "from_triangle",
    "from_words",
    "input_keys",
    "mask_input",
    "multiply",
    "multiply_points",
    "points_of",
    "random_words",
    "run_as_dealer",
    "spectrum_of",
    "split_points",
    "to_words",
]
