"""A folder with one record of every kind, small and made up, and the report of it."""

import json

import numpy as np
import pandas as pd
import pytest

from cofill.cli._app import run
from cofill.metrics import ResultRecord, packed_images
from cofill.privacy import Box, Gate, Ledger, LedgerEntry, MeanDefence
from cofill.report import write_report

IDS = [f"PATIENT-{k:03d}" for k in range(60)]
SECTIONS = (
    "summary", "completed", "errors", "masks", "distributions", "agreement", "images", "rounds",
    "clusters", "federation", "releases", "attacks", "audit", "others",
)  # fmt: skip

LEAK = {
    "name": "inversion", "threat": "a site with 100 pairs", "figure": "R²", "scope": "individual",
    "floor": 0.0, "control": 0.3, "attack": 0.91, "interval": [0.88, 0.93], "ceiling": 1.0,
    "verdict": "near-total", "advantage": 0.87, "notes": [],
}  # fmt: skip
AUDIT = {
    "format": "cofill-audit",
    "version": 1,
    "title": "the trial",
    "verdict": "near-total",
    "scale": "From none seen to near-total.",
    "releases": [
        {
            "kind": "codes", "sender": "clinic", "receiver": "lab", "what": "codes",
            "verdict": {"individual": "near-total", "population": "not attacked"},
            "refuted": True, "change": "Send narrower codes.", "reason": "", "leaks": [LEAK],
            "claim": {"epsilon": 0.01, "delta": 1e-5, "by": "a paper"},
            "proof": {
                "epsilon": 1.2, "delta": 1e-5, "confidence": 0.999, "true_rate": 0.5,
                "false_rate": 0.1, "trials": 1000, "how": "telling two neighbours apart",
            },
            "individuals": 45, "bytes": 2880, "personal": True, "notes": ["all were attacked"],
            "anonymity": [
                {"step": 0.0, "people": 45, "groups": 45, "smallest": 1, "k": 5, "share_below": 1.0}
            ],
        },
        {
            "kind": "public-keys", "sender": "lab", "receiver": "clinic", "what": "keys",
            "verdict": {"individual": "nothing about a person", "population": "not attacked"},
            "refuted": False, "change": "Nothing.", "reason": "made from nobody's record",
            "leaks": [], "claim": None, "proof": None,
            "individuals": 0, "bytes": 64, "personal": False, "notes": [], "anonymity": [],
        },
    ],
    "curves": [
        {
            "name": "noise", "strength": "ε", "x": [0.1, 1, 10], "leak": [0.5, 0.6, 0.9],
            "leak_name": "accuracy", "utility": [0.9, 0.4, 0.1], "utility_name": "error",
            "utility_is_error": True, "low": [0.4, 0.5, 0.8], "high": [0.6, 0.7, 1.0],
            "floor": 0.5, "labels": [], "notes": ["one draw"],
        }
    ],
    "spent": {}, "settings": {}, "notes": ["two releases"], "versions": {}, "duration_s": 1.0,
}  # fmt: skip
CLUSTERING = {
    "format": "cofill-clustering", "version": 1, "settings": {}, "individuals": {"north": 60},
    "k": 3, "sizes": [30, 20, 10], "mean_confidence": 0.9,
    "choice_of_k": {
        "method": "gap",
        "table": [
            {"k": 2, "score": 0.1, "error": 0.01, "chosen": False},
            {"k": 3, "score": 0.4, "error": None, "chosen": True},
        ],
    },
    "released_bytes": {}, "versions": {}, "duration_s": 1.0,
}  # fmt: skip
ATTACK = {
    "method": "best", "records": 60, "features": 3, "prior": 0.3, "noise": "laplace:0.04",
    "expected_accuracy": 0.9, "outcome": "ok", "notes": ["the prior was given"],
    "judged": {
        "measured": "contributors: leak about individuals",
        "all": {"individuals": 60, "accuracy": 0.95, "interval_95": [0.86, 0.99]},
        "floor": {"larger_class": 0.7, "clusters": 0.8}, "ceiling": {"supervised": 0.97},
    },
}  # fmt: skip
OUTCOME = {
    "run": "trial-1", "experiment": "cooperate", "settings": {}, "state": "finished", "why": "",
    "metrics": {"clinic": {"site": "north", "observed_rows": 45, "mean_r2": 0.7}},
}  # fmt: skip


def tables(folder):
    rng = np.random.default_rng(0)
    trait = rng.normal(size=60)
    clinic = {"person": IDS, "age": np.rint(50 + 10 * trait).astype(int), "weight": 70 + 5 * trait}
    lab = {"person": IDS, "marker": trait * 2, "group": np.where(trait > 0, "x", "y")}
    pd.DataFrame(clinic)[:45].to_csv(folder / "clinic.csv", index=False)
    pd.DataFrame(lab)[15:].to_csv(folder / "lab.csv", index=False)
    views = [f"--view={name}={folder / name}.csv" for name in ("clinic", "lab")]
    done = ["--out", str(folder / "completed"), "--method", "knn", "--evaluate", "--quiet"]
    hidden = ["--share", "0.25", "--repeats", "8", "--compare", "mean"]
    assert run(["complete", "--id", "person", *views, *done, *hidden]) == 0


def trial_ledger():
    ledger = Ledger([LedgerEntry("send", "codes", "clinic", "lab", 45, 2880, None, {})])
    noisy = MeanDefence(Box(0.0, 1.0), 1.0).release(
        np.full((45, 2), 0.5), sender="lab", receiver="clinic"
    )
    Gate(ledger).pass_on(noisy, "release")
    return ledger


def pictures():
    rng = np.random.default_rng(1)
    grey = packed_images((255 * rng.random((3, 4, 4))).astype(np.uint8))
    packed = {"image": grey, "edge": grey, "image from edge": grey}
    return ResultRecord(
        "fed",
        seeds=[0, 1],
        values={"fed-best/psnr/x2y": [20.0, 21.0], "fed-vigan/psnr/x2y": [15.0, None]},
        settings={"experiment": "digits & edges", "methods": {"fed-best": "one network"}},
        extra={
            "images": {"fed-best": {"20 rounds": packed}},
            "curves": {"fed-best": [{"round": k, "all": 900.0 / (k + 1)} for k in range(5)]},
        },
    )


@pytest.fixture(scope="session")
def everything(tmp_path_factory):
    """A folder that has something for each section."""
    folder = tmp_path_factory.mktemp("trial")
    tables(folder)
    path = folder / "completed" / "completion.json"
    facts = json.loads(path.read_text())
    facts["masks"] = {"lab": {"clinic": {"marker": 0.9, "group": -0.4}}}
    facts["curve"] = [{"round": k, "sites": 2, "pixels": 1 / (k + 1)} for k in range(6)]
    path.write_text(json.dumps(facts))
    trial_ledger().save(folder / "ledger.jsonl")
    pictures().write(folder / "fed.json")
    for name, content in {
        "audit/audit.json": AUDIT,
        "groups/clustering.json": CLUSTERING,
        "attack.json": ATTACK,
        "metrics.json": OUTCOME,
        "strange.json": {"format": "something-else", "secret": IDS[0]},
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    (folder / "broken.json").write_text('{"half": ')
    (folder / "groups" / "map.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    return folder


@pytest.fixture(scope="session")
def report_file(everything):
    return write_report(everything)
