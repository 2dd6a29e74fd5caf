"""Codes are no encryption: measure how well a hospital that receives them recovers the rows."""

import tempfile
from pathlib import Path

import cofill
from cofill.attack import DecoderSettings
from cofill.audit import CodeAuditSettings, audit_ledger, read_evidence
from cofill.cooperate import CodeDefence
from cofill.nets import FusionSettings
from cofill.privacy import SentLog

patients = cofill.load("wdbc").views.select(["mean", "worst"])  # two hospitals
linear = FusionSettings(hidden=())  # a quick look: linear decoders attack, linear fusions complete
attacks = CodeAuditSettings(pairs=(100,), decoders=DecoderSettings(repeats=1, fusion=linear))
defences = {
    "codes as they are": None,
    "three numbers a code": CodeDefence(width=3),
    "one number a code": CodeDefence(width=1),
    "noise, ε = 10": CodeDefence(epsilon=10.0),
}

print("Hospital `worst` knows the rows at `mean` of 100 people and predicts those of other people,")
print("from its own rows, and from its own rows and the codes it receives. R² of the predictions:")
print(f"{'codes of `mean`':<22}{'own rows':>10}{'and codes':>11}  {'verdict':<14}{'error':>6}")
for name, defence in defences.items():
    incomplete, hidden = cofill.drop_rows(patients, 0.3, key=0)
    sites = cofill.CooperativeReconstruction(
        defence=defence, fusion=linear, on_unreconstructable="fill"
    )
    with tempfile.TemporaryDirectory() as folder:
        sites.sent = SentLog(Path(folder))  # keep what the hospitals send, to attack exactly that
        cells = sites.fit(incomplete).complete(incomplete).cells["worst"]
        evidence = read_evidence([sites.sent], views=dict(incomplete.items()), codes=attacks)
    audit = audit_ledger(sites.ledger_, evidence)
    codes = next(r for r in audit.releases if r.kind == "codes" and r.sender == "mean")
    leak = next(x for x in codes.leaks if x.figure == "R²" and x.control is not None)
    # The price of the defence: the error of rows that are completed from such codes.
    truth = patients.aligned("worst")
    error = (((cells - truth) / truth.std(axis=0)) ** 2)[hidden["worst"]].mean()
    verdict = codes.individual
    print(f"{name:<22}{leak.control:>10.2f}{leak.attack:>11.2f}  {verdict:<14}{error:>6.2f}")
print("\nerror: squared error of rows that `worst` completes; 1 is as good as the mean.")
