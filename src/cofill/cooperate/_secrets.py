"""Where secrets of sites in one process come from."""

from __future__ import annotations

import os

SEEDED_SECRETS = "COFILL_SEEDED_SECRETS"


def has_seeded_secrets() -> bool:
    """Whether masks and blinded ids of sites in one process follow from the seed.

    Somebody has to ask for it, by ``COFILL_SEEDED_SECRETS=1``: whoever knows the seed of such a run
    can take the masks off everything that it has sent. Tests do, which compare runs bit for bit.
    """
    return os.environ.get(SEEDED_SECRETS) == "1"
