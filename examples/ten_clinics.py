"""Ten clinics hold incomplete pairs of images of other people: they train one model together."""

import numpy as np

import cofill

digits = cofill.load("digits").views  # 1,797 images of 8 × 8 pixels, and their edges
order = np.random.default_rng(0).permutation(digits.n_individuals)
held_out, own = digits.take(np.sort(order[:297])), digits.take(np.sort(order[297:]))
holed, _ = cofill.drop_rows(own, 0.3, key=0)
clinics = cofill.by_row(holed, 10, key=0)  # other people at each clinic

model = cofill.FederatedCompletion(
    rounds=6, batch=8, learning_rate=3e-3, network={"fine": 0, "width": 64, "blocks": 2}
)
model.fit_sites(clinics)

print(f"{'to make':<10}{'mean image':>12}{'after 6 rounds':>16}   squared error, people nobody had")
for made in ("edge", "image"):
    nothing = held_out.hide({made: np.ones(held_out.n_individuals, bool)})
    truth, mean = held_out[made].cells, np.nanmean(holed[made].cells, axis=0)
    scale = truth.var()
    by_mean = np.mean((truth - mean) ** 2) / scale
    by_model = np.mean((model.complete(nothing).cells[made] - truth) ** 2) / scale
    print(f"{made:<10}{by_mean:>12.2f}{by_model:>16.2f}")
done = model.complete_sites(clinics)
filled = [sum(own.counts(v)["reconstructed_rows"] for v in digits) for own in done.values()]
print(f"\nimages filled at the clinics: {sum(filled)}, {min(filled)} or more each")
print(f"what crossed a border: {model.ledger_}")
