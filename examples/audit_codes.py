"""Codes are no encryption: what a hospital that gets them can make of the rows behind them."""

import cofill
from cofill.attack import DecoderSettings
from cofill.audit import CodeAuditSettings, audit_ledger, evidence_of
from cofill.cooperate import CodeDefence
from cofill.nets import FusionSettings

patients = cofill.load("wdbc").views.select(["mean", "worst"])  # two hospitals
linear = FusionSettings(hidden=())  # a quick look: linear decoders attack, linear fusions complete
attacks = CodeAuditSettings(pairs=(100,), decoders=DecoderSettings(repeats=1, fusion=linear))
defences = {
    "codes as they are": None,
    "three numbers a code": CodeDefence(width=3),
    "one number a code": CodeDefence(width=1),
    "noise, ε = 10": CodeDefence(epsilon=10.0),
}

print("Hospital `worst` knows the rows at `mean` of 100 people and guesses the other people's, by")
print("its own rows and by the codes it gets. R² of the guesses:")
print(f"{'codes of `mean`':<22}{'own rows':>10}{'and codes':>11}  {'verdict':<14}{'error':>6}")
for name, defence in defences.items():
    holed, hidden = cofill.drop_rows(patients, 0.3, key=0)
    sites = cofill.CooperativeReconstruction(defence=defence, fusion=linear)
    evidence = evidence_of(dict(holed.items()), sites, codes=attacks)
    audit = audit_ledger(evidence.ledger, evidence)
    codes = next(r for r in audit.releases if r.kind == "codes" and r.sender == "mean")
    leak = next(x for x in codes.leaks if x.figure == "R²" and x.control is not None)
    # What the defence costs: the error of rows that are completed from such codes.
    made = sites.set_params(on_unreconstructable="fill").fit(holed).complete(holed).cells["worst"]
    truth = patients.aligned("worst")
    error = (((made - truth) / truth.std(axis=0)) ** 2)[hidden["worst"]].mean()
    verdict = codes.individual
    print(f"{name:<22}{leak.control:>10.2f}{leak.attack:>11.2f}  {verdict:<14}{error:>6.2f}")
print("\nerror: squared error of rows that `worst` completes; 1 is as good as the mean.")
