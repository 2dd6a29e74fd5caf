"""Ten clinics with incomplete pairs of images of different people train one model together."""

import numpy as np

import cofill

digits = cofill.load("digits").views  # 1,797 images of 8 × 8 pixels, and their edges
order = np.random.default_rng(0).permutation(digits.n_individuals)
held_out, training = digits.take(np.sort(order[:297])), digits.take(np.sort(order[297:]))
incomplete, _ = cofill.drop_rows(training, 0.3, key=0)
clinics = cofill.by_row(incomplete, 10, key=0)  # different people at each clinic

model = cofill.FederatedCompletion(
    rounds=6, batch=8, epochs=2, network={"patch": 2, "width": 64, "blocks": 2, "shift": 1}
)
model.fit_sites(clinics)

print(f"{'missing':<10}{'mean image':>12}{'after 6 rounds':>16}   squared error, held-out people")
for view in ("edge", "image"):
    hidden = held_out.hide({view: np.ones(held_out.n_individuals, bool)})
    truth, mean = held_out[view].cells, np.nanmean(incomplete[view].cells, axis=0)
    scale = truth.var()
    by_mean = np.mean((truth - mean) ** 2) / scale
    by_model = np.mean((model.complete(hidden).cells[view] - truth) ** 2) / scale
    print(f"{view:<10}{by_mean:>12.2f}{by_model:>16.2f}")
completed = model.complete_sites(clinics).values()
filled = [sum(site.counts(v)["reconstructed_rows"] for v in digits) for site in completed]
print(f"\nimages filled at the clinics: {sum(filled)}, {min(filled)} or more each")
print(f"what left a site: {model.ledger_}")
