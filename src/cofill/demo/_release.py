"""Third chapter: the mean of some patients' images is released, and what that gives away.

The attacker has everybody's image but not the class (odd digits). They attack the plain mean, then
means with noise: by the sensitivity of a whole record, which is a guarantee, and with the paper's
noise for each coordinate alone, which is a weaker guarantee than it claims.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cofill.audit import Audit, MeanAuditSettings, audit_mean
from cofill.privacy import Box
from cofill.views import load

_GREY = Box(0.0, 16.0)  # grey levels of the scanner, whoever is scanned


def release(out: Path, *, seed: int) -> Audit:
    """Audit the release of a class mean before it happens; writes the folder ``release``."""
    digits = load("digits")
    settings = MeanAuditSettings(
        mechanisms=("gaussian", "laplace per coordinate"),
        epsilons=(0.1, 0.3, 1.0, 3.0, 10.0),
        coordinate_epsilons=(0.001, 0.01, 0.1),
        repeats=1,
        draws=20_000,
        seed=seed,
    )
    odd = np.asarray(digits.labels) % 2 == 1
    audit = audit_mean(digits.views["image"].cells, odd, _GREY, settings=settings)
    audit.write(out / "release")
    return audit
