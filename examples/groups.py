"""Complete the rows of patients, then group the patients at four sites without showing a row."""

import numpy as np

import cofill
from cofill.metrics import nmi, purity
from cofill.nets import FusionSettings

data = cofill.load("wdbc")
incomplete, _ = cofill.drop_rows(
    data.views, 0.3, key=0
)  # 30 % of the rows of each view are missing
completers = {
    "the mean of the column": cofill.MeanCompleter(),
    "cooperative reconstruction": cofill.CooperativeReconstruction(
        fusion=FusionSettings(hidden=()), on_unreconstructable="fill"
    ),
}
completed = {
    name: completer.fit(incomplete).complete(incomplete).views
    for name, completer in completers.items()
}
completed["nothing was missing"] = data.views

print(f"{'gaps filled by':<28}{'groups':>16}{'purity':>8}{'NMI':>6}")
for name, views in completed.items():
    sites = cofill.by_row(views, 4, key=0)  # different patients at each site
    groups = cofill.FederatedKMeans(k=2, seed=0).fit(sites)
    truth = np.concatenate(
        [data.labels[np.searchsorted(data.views.ids, site.ids)] for site in sites.values()]
    )
    sizes = " and ".join(map(str, sorted(np.bincount(groups.labels_), reverse=True)))
    information = nmi(truth, groups.labels_)
    print(f"{name:<28}{sizes:>16}{purity(truth, groups.labels_):>8.2f}{information:>6.2f}")
print(f"\nwhat left a site: {groups.ledger_}")
