"""Patients with gaps are completed, then four sites find groups of them without showing a row."""

import numpy as np

import cofill
from cofill.metrics import nmi, purity
from cofill.nets import FusionSettings

data = cofill.load("wdbc")
holed, _ = cofill.drop_rows(data.views, 0.3, key=0)  # 30 % of the rows of each view are missing
completers = {
    "the mean of the column": cofill.MeanCompleter(),
    "cooperative reconstruction": cofill.CooperativeReconstruction(
        fusion=FusionSettings(hidden=()), on_unreconstructable="fill"
    ),
}
completed = {name: made.fit(holed).complete(holed).views for name, made in completers.items()}
completed["nothing was missing"] = data.views

print(f"{'gaps filled by':<28}{'groups':>16}{'purity':>8}{'NMI':>6}")
for name, views in completed.items():
    sites = cofill.by_row(views, 4, key=0)  # other patients at each site
    found = cofill.FederatedKMeans(k=2, seed=0).fit(sites)
    truth = np.concatenate(
        [data.labels[np.searchsorted(data.views.ids, own.ids)] for own in sites.values()]
    )
    sizes = " and ".join(map(str, sorted(np.bincount(found.labels_), reverse=True)))
    same = nmi(truth, found.labels_)
    print(f"{name:<28}{sizes:>16}{purity(truth, found.labels_):>8.2f}{same:>6.2f}")
print(f"\nwhat crossed a border: {found.ledger_}")
