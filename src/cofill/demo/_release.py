"""Third chapter: a hospital releases the mean of the sick, and what that gives away.

The attacker has everybody's measurements but not who is sick. He attacks the plain mean, then means
with noise: by the sensitivity of a whole record, which is a guarantee, and with the paper's noise
for each coordinate alone, which is a weaker one than it says.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cofill.audit import Audit, MeanAuditSettings, audit_mean
from cofill.privacy import Box
from cofill.views import load

__all__ = ["release"]

# The most that a measurement of its kind can be, in round figures that nobody was looked at for.
_HIGHEST = {
    "mean": (40, 50, 250, 4000, 0.25, 0.5, 0.6, 0.3, 0.4, 0.15),
    "error": (5, 6, 30, 800, 0.05, 0.2, 0.5, 0.08, 0.1, 0.05),
    "worst": (50, 60, 350, 6000, 0.3, 1.5, 1.5, 0.4, 0.8, 0.3),
}


def release(out: Path, *, seed: int) -> Audit:
    """Audit the release of a class mean before it happens; writes the folder ``release``."""
    patients = load("wdbc")
    rows = np.hstack([patients.views[name].cells for name in _HIGHEST])
    highest = tuple(top for tops in _HIGHEST.values() for top in tops)
    settings = MeanAuditSettings(epsilons=(0.1, 1.0, 10.0), repeats=2, draws=20_000, seed=seed)
    audit = audit_mean(rows, np.asarray(patients.labels) == 1, Box(0.0, highest), settings=settings)
    audit.write(out / "release")
    return audit
