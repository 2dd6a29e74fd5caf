"""The attack from files to files, and `cofill attack mean`."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from cofill.attack._job import exact_interval
from cofill.cli._app import run


@pytest.fixture
def files(tmp_path):
    data = load_breast_cancer(as_frame=True)
    frame = data.data.iloc[:, :10].copy()
    benign = data.target == 1
    inside = np.arange(len(frame)) % 2 == 0
    mean = frame[benign & inside].mean().to_dict()
    frame["person"] = [f"p{k:04d}" for k in range(len(frame))]
    frame["label"] = np.where(benign, "benign", "malignant")
    frame["inside"] = inside
    frame.to_parquet(tmp_path / "r.parquet")
    frame.to_csv(tmp_path / "r.csv", index=False)
    (tmp_path / "mean.json").write_text(json.dumps({"mean": mean, "prior": 0.627}))
    return tmp_path


def call(files, *more, records="r.parquet", mean="mean.json", out="guesses.parquet"):
    where = ["--records", files / records, "--mean", files / mean, "--out", files / out]
    return run(["attack", "mean", *map(str, where), *more])


JUDGED = ("--truth", "label", "--positive", "benign", "--id", "person")


def test_guesses_are_written_and_judged(files, capsys):
    assert call(files, *JUDGED, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    guesses = pd.read_parquet(files / "guesses.parquet")
    assert list(guesses) == ["person", "guess", "probability"]
    assert guesses["person"].iloc[0] == "p0000"
    assert (guesses["guess"] == (guesses["probability"] > 0.5)).all()
    truth = load_breast_cancer().target == 1
    right = float((guesses["guess"].to_numpy() == truth).mean())
    assert facts["judged"]["all"]["accuracy"] == pytest.approx(right, abs=1e-4)
    low, high = facts["judged"]["all"]["interval_95"]
    assert low < right < high
    assert right > 0.9 > facts["judged"]["floor"]["two_clusters"]
    assert facts["judged"]["ceiling"]["supervised"] > 0.9
    assert "mix" in facts["judged"]["measured"]


def test_contributors_and_others_are_told_apart(files, capsys):
    assert call(files, *JUDGED, "--contributed", "inside", records="r.csv", out="g.csv") == 0
    shown = capsys.readouterr().out
    assert "accuracy, contributors (285)" in shown
    assert "accuracy, others (284)" in shown
    assert "inference about a population" in shown
    assert "p0001" not in shown


@pytest.mark.parametrize("method", ["likelihood", "discriminant", "kmeans"])
def test_other_attacks(files, method, capsys):
    assert call(files, "--method", method, "-q") == 0
    assert capsys.readouterr().out == ""
    assert pd.read_parquet(files / "guesses.parquet")["guess"].sum() > 100


BAD = {
    "prior": (["--prior", "1.2"], "prior must be the share"),
    "noise": (["--noise", "laplace"], "kind:scale"),
    "method": (["--method", "magic"], "there is no attack 'magic'"),
    "truth": (["--truth", "cause"], "has no column 'cause'"),
    "positive": (["--truth", "label", "--positive", "gone"], "one kind only"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_one_sentence_and_leave_nothing(files, case, capsys):
    options, words = BAD[case]
    assert call(files, *options) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
    assert not (files / "guesses.parquet").exists()


MEANS = {
    "not JSON": ("{", "not a readable JSON file"),
    "empty": ("{}", "must hold a mean"),
    "no number": ('{"mean": {"mean radius": null}}', "must be a finite number"),
    "NaN": ('{"mean": {"mean radius": NaN}}', "must be a finite number"),
    "other columns": ('{"mean": {"salary": 1.0, "mean radius": 14.0}}', "has no column 'salary'"),
    "text column": ('{"mean": {"label": 1.0, "mean radius": 14.0}}', "must hold numbers"),
    "no prior": ('{"mean": {"mean radius": 14.0}}', "share of positives must be given"),
}


@pytest.mark.parametrize("case", MEANS)
def test_bad_means(files, case, capsys):
    text, words = MEANS[case]
    (files / "bad.json").write_text(text)
    prior = () if case == "no prior" else ("--prior", "0.5")
    assert call(files, *prior, mean="bad.json") == 2
    assert words in capsys.readouterr().err


def test_an_earlier_result_stays_unless_told(files, capsys):
    (files / "guesses.parquet").write_text("mine")
    assert call(files) == 2
    assert (files / "guesses.parquet").read_text() == "mine"
    assert call(files, "--overwrite") == 0
    assert not list(files.glob(".guesses*"))


def test_gaps_in_records_are_counted_not_shown(files, capsys):
    frame = pd.read_parquet(files / "r.parquet")
    frame.loc[3, "mean radius"] = None
    frame.to_parquet(files / "r.parquet")
    assert call(files) == 2
    assert "1 empty cells" in capsys.readouterr().err


@pytest.mark.parametrize(("right", "count"), [(0, 20), (7, 20), (20, 20)])
def test_exact_intervals_are_those_of_scipy(right, count):
    from scipy.stats import binomtest

    wanted = binomtest(right, count).proportion_ci(0.95, method="exact")
    assert exact_interval(right, count) == pytest.approx((wanted.low, wanted.high))
