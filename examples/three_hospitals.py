"""Three hospitals know different things of the same patients: each completes its own table."""

import numpy as np

import cofill
from cofill.nets import FusionSettings

patients = cofill.load("wdbc").views  # 569 patients, three views of ten features
holed, hidden = cofill.drop_rows(patients, 0.3, key=0)  # each hospital lacks 30 % of them

# Linear fusions are a quick look; leave `fusion` out for what `cofill complete` does.
sites = cofill.CooperativeReconstruction(fusion=FusionSettings(hidden=()), interval=0.9)
done = sites.fit(holed).complete(holed)

print(f"{'hospital':<10}{'known':>8}{'filled':>8}{'error':>8}{'inside the 90 % interval':>26}")
for name in patients:
    rows = hidden[name]
    truth = patients.aligned(name)[rows]
    made = done.cells[name][rows]
    spread = np.nanstd(holed[name].cells, axis=0)
    error = np.nanmean(((made - truth) / spread) ** 2)  # 1 is as good as the mean
    inside = (done.lower[name][rows] <= truth) & (truth <= done.upper[name][rows])
    known, filled = len(holed[name]), int(rows.sum())
    print(f"{name:<10}{known:>8}{filled:>8}{error:>8.2f}{inside.mean():>25.0%}")
print(f"\nwhat crossed a border: {sites.ledger_}")
