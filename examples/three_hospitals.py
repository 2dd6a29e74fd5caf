"""Three hospitals with different columns about the same patients each complete their table."""

import numpy as np

import cofill
from cofill.nets import FusionSettings

patients = cofill.load("wdbc").views  # 569 patients, three views of ten features
incomplete, hidden = cofill.drop_rows(patients, 0.3, key=0)  # each hospital lacks 30 % of them

# Linear fusions are fast; leave `fusion` out to do what `cofill complete` does.
sites = cofill.CooperativeReconstruction(fusion=FusionSettings(hidden=()), interval=0.9)
completed = sites.fit(incomplete).complete(incomplete)

print(f"{'hospital':<10}{'known':>8}{'filled':>8}{'error':>8}{'inside the 90 % interval':>26}")
for name in patients:
    rows = hidden[name]
    truth = patients.aligned(name)[rows]
    cells = completed.cells[name][rows]
    spread = np.nanstd(incomplete[name].cells, axis=0)
    error = np.nanmean(((cells - truth) / spread) ** 2)  # 1 is as good as the mean
    inside = (completed.lower[name][rows] <= truth) & (truth <= completed.upper[name][rows])
    known, filled = len(incomplete[name]), int(rows.sum())
    print(f"{name:<10}{known:>8}{filled:>8}{error:>8.2f}{inside.mean():>25.0%}")
print(f"\nwhat left a site: {sites.ledger_}")
