"""The attack from files to files, and `cofill attack mean`."""

import json
from importlib.metadata import EntryPoint

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from cofill.attack import MEAN_ATTACKS
from cofill.attack._leak import exact_interval
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
    assert right > 0.9 > facts["judged"]["floor"]["clusters"]
    assert facts["judged"]["ceiling"]["supervised"] > 0.9
    assert "mix" in facts["judged"]["measured"]


@pytest.mark.parametrize("method", ["best", "discriminant"])
def test_a_mean_that_tells_no_share_asks_for_it_in_a_sentence(files, capsys, method):
    frame = pd.read_parquet(files / "r.parquet")
    everybody = frame.iloc[:, :10].mean()
    far = (everybody + 50 * frame.iloc[:, :10].std()).to_dict()
    (files / "far.json").write_text(json.dumps({"mean": far}))
    assert call(files, "--method", method, mean="far.json") == 2
    fault = capsys.readouterr().err
    assert "standard deviations from the records' own" in fault
    assert "state the share of the class (--prior)" in fault
    assert not (files / "guesses.parquet").exists()
    (files / "all.json").write_text(json.dumps({"mean": everybody.to_dict()}))
    assert call(files, "--method", method, mean="all.json") == 0
    assert "state it if you know it (--prior)" in capsys.readouterr().out


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


def test_a_share_that_is_not_given_is_estimated_and_shown(files, capsys):
    frame = pd.read_parquet(files / "r.parquet")
    mean = frame[frame["label"] == "benign"].iloc[:, :10].mean().to_dict()
    (files / "alone.json").write_text(json.dumps(mean))
    assert call(files, *JUDGED, "--json", mean="alone.json") == 0
    facts = json.loads(capsys.readouterr().out)
    low, high = facts["prior_interval_95"]
    assert low <= 0.627 <= high
    assert low <= facts["prior"] <= high
    assert facts["judged"]["all"]["accuracy"] > 0.85
    assert call(files, "--overwrite", mean="alone.json") == 0
    assert "share of positives, from the mean: " in capsys.readouterr().out
    assert call(files, "--overwrite", "--json") == 0
    assert json.loads(capsys.readouterr().out)["prior_interval_95"] is None


def test_wrong_shares_are_tried_if_asked(files, capsys):
    more = ("--priors", "0.3,0.627", "--method", "discriminant")
    assert call(files, *JUDGED, *more, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    wrong, right = facts["sensitivity"]
    assert (wrong["prior"], right["prior"]) == (0.3, 0.627)
    assert wrong["accuracy"] < right["accuracy"]
    assert right["accuracy"] == pytest.approx(facts["judged"]["all"]["accuracy"], abs=1e-4)
    assert call(files, *more, "--overwrite") == 0
    shown = capsys.readouterr().out
    assert "with the share 30.0%: ok, guessed positive" in shown
    assert ", accuracy" not in shown


def test_attacks_are_listed(capsys):
    assert run(["attack", "list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names[:2] == ["best", "likelihood"]
    assert run(["attack", "list", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in entries] == names
    assert all(entry["summary"] for entry in entries)


def test_an_installed_package_can_bring_an_attack(files, monkeypatch, capsys):
    point = EntryPoint("mine", "cofill.attack:KMeansFloor", MEAN_ATTACKS.group)
    monkeypatch.setitem(MEAN_ATTACKS._plugins, "mine", point)
    assert call(files, "--method", "mine", "--json") == 0
    assert json.loads(capsys.readouterr().out)["method"] == "mine"
    assert run(["attack", "list"]) == 0
    assert "\nmine " in capsys.readouterr().out


# --- several classes --------------------------------------------------------------------------


@pytest.fixture
def wines(tmp_path):
    data = load_wine(as_frame=True)
    frame = data.data / data.data.std()
    means = {f"c{k}": frame[data.target == k].mean().to_dict() for k in range(3)}
    frame["kind"] = [f"c{k}" for k in data.target]
    frame["number"] = data.target.astype(float)
    frame.to_parquet(tmp_path / "r.parquet")
    (tmp_path / "mean.json").write_text(json.dumps({"means": means}))
    priors = {"c0": 0.33, "c1": 0.4}
    some = {"means": {k: means[k] for k in priors}, "priors": priors, "noise": "gaussian:0.01"}
    (tmp_path / "some.json").write_text(json.dumps(some))
    return tmp_path


def test_several_means_guess_every_class(wines, capsys):
    assert call(wines, "--truth", "kind", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    truth = pd.read_parquet(wines / "r.parquet")["kind"]
    guesses = pd.read_parquet(wines / "guesses.parquet")
    kinds = ["c0", "c1", "c2"]
    assert list(guesses) == ["row", "guess", "probability", *(f"probability_{k}" for k in kinds)]
    assert (guesses["guess"] == truth).mean() == facts["judged"]["all"]["accuracy"] > 0.95
    assert facts["judged"]["floor"]["larger_class"] == pytest.approx(71 / 178, abs=1e-4)
    shares = truth.value_counts(normalize=True)
    assert facts["priors"] == pytest.approx({k: shares[k] for k in kinds}, abs=1e-3)
    np.testing.assert_allclose(guesses[[f"probability_{k}" for k in kinds]].sum(axis=1), 1)
    assert call(wines, "--overwrite", "--method", "likelihood") == 0
    assert "guessed to be in 3 classes" in capsys.readouterr().out


def test_classes_without_a_mean_are_the_rest(wines, capsys):
    assert call(wines, "--truth", "kind", "--json", mean="some.json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert set(facts["guessed"]) == {"c0", "c1", "rest"}
    assert facts["judged"]["all"]["accuracy"] > 0.9
    assert facts["noise"] == "gaussian:0.01"


SEVERAL = {
    "prior": ({}, ["--prior", "0.3"], "--prior and --priors are for the mean of one class"),
    "method": ({}, ["--method", "growpu"], "attacked by best or likelihood"),
    "other classes": ({}, ["--truth", "number"], "got others in 178 of 178 rows"),
    "sum": ({"priors": {"c0": 0.7, "c1": 0.3, "c2": 0.3}}, [], "must not exceed 1 in all"),
    "names": ({"priors": {"c0": 0.7}}, [], "of the same classes"),
    "list": ({"priors": [0.3, 0.3, 0.3]}, [], "priors as {class: share, …}"),
    "NaN share": ({"priors": {"c0": float("nan")}}, [], "share of class 'c0' must be a finite"),
    "NaN": ({"means": {"a": {"ash": float("nan")}}}, [], "must be a finite number"),
    "columns": ({"means": {"a": {"ash": 1}, "b": {"hue": 1}}}, [], "the same columns"),
    "nothing": ({"means": {"a": {}}}, [], "{class: {column: value, …}, …}"),
}


@pytest.mark.parametrize("case", SEVERAL)
def test_bad_means_of_classes_are_one_sentence(wines, case, capsys):
    change, options, words = SEVERAL[case]
    content = json.loads((wines / "mean.json").read_text()) | change
    (wines / "mean.json").write_text(json.dumps(content))
    assert call(wines, *options) == 2
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1
    assert not (wines / "guesses.parquet").exists()


BAD = {
    "priors": (["--priors", "0.2;0.3"], "shares between commas"),
    "a prior of many": (["--priors", "0.2,3"], "got 3.0"),
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
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1
    assert not (files / "guesses.parquet").exists()


MEANS = {
    "not JSON": ("{", "not a readable JSON file"),
    "empty": ("{}", "must hold a mean"),
    "no number": ('{"mean": {"mean radius": null}}', "must be a finite number"),
    "NaN": ('{"mean": {"mean radius": NaN}}', "must be a finite number"),
    "other columns": ('{"mean": {"salary": 1.0, "mean radius": 14.0}}', "has no column 'salary'"),
    "text column": ('{"mean": {"label": 1.0, "mean radius": 14.0}}', "must hold numbers"),
    "prior in words": ('{"mean": {"mean radius": 14.0}, "prior": "half"}', "the prior must be"),
    "noise of no kind": ('{"mean": {"mean radius": 14.0}, "noise": 0.1}', "noise must be text"),
}


@pytest.mark.parametrize("case", MEANS)
def test_bad_means(files, case, capsys):
    text, words = MEANS[case]
    (files / "bad.json").write_text(text)
    assert call(files, "--prior", "0.5", mean="bad.json") == 2
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


# --- several released means of one class, sums, categories ----------------------------------------


@pytest.fixture
def years(tmp_path):
    """People of three years; the class is nearly independent of what is known of them."""
    rng = np.random.default_rng(4)
    count = 240
    frame = pd.DataFrame({f"f{k}": rng.normal(size=count) for k in range(45)})
    frame["trade"] = rng.choice(["baker", "smith", "nurse"], count)
    frame["year"] = 2019 + np.arange(count) % 3
    frame["label"] = (rng.random(count) < 0.4).astype(int)
    frame.to_parquet(tmp_path / "r.parquet")
    return tmp_path


def released(frame, form):
    numbers = [c for c in frame if c.startswith("f")]
    trades = frame["trade"].value_counts().to_dict()
    if form == "mean":
        shares = {name: count / len(frame) for name, count in trades.items()}
        return frame[numbers].mean().to_dict() | {"trade": shares}
    return frame[numbers].sum().to_dict() | {"trade": trades}


def right_of(years, capsys, content):
    (years / "mean.json").write_text(json.dumps(content))
    code = call(years, "--truth", "label", "--method", "likelihood", "--overwrite", "--json")
    assert code == 0
    return json.loads(capsys.readouterr().out)["judged"]["all"]["accuracy"]


def test_means_by_year_give_away_more_than_one_mean(years, capsys):
    frame = pd.read_parquet(years / "r.parquet")
    inside = frame[frame["label"] == 1]
    one = {"mean": released(inside, "mean"), "prior": len(inside) / len(frame)}
    by_year = {str(year): part for year, part in inside.groupby("year")}
    counts = {year: len(part) for year, part in by_year.items()}
    means = {year: released(part, "mean") for year, part in by_year.items()}
    sums = {year: released(part, "sum") for year, part in by_year.items()}
    alone = right_of(years, capsys, one)
    together = right_of(years, capsys, {"by": "year", "means": means, "counts": counts})
    assert alone < 0.85 < 0.95 < together
    # Sums and counts say the same as means and shares.
    assert right_of(years, capsys, {"by": "year", "sums": sums, "counts": counts}) == together
    total = {"sum": released(inside, "sum"), "count": len(inside)}
    assert right_of(years, capsys, total) == pytest.approx(alone, abs=0.01)


def test_overlapping_classes_are_attacked_one_by_one(years, capsys):
    frame = pd.read_parquet(years / "r.parquet")
    other = frame["f0"] + frame["f1"] > 0
    groups = {"ill": frame[frame["label"] == 1], "old": frame[other]}
    content = {
        "means": {name: released(part, "mean") for name, part in groups.items()},
        "counts": {name: len(part) for name, part in groups.items()},
        "overlapping": True,
    }
    (years / "mean.json").write_text(json.dumps(content))
    assert call(years, "--method", "likelihood", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    guesses = pd.read_parquet(years / "guesses.parquet")
    assert list(guesses)[1:] == ["guess_ill", "probability_ill", "guess_old", "probability_old"]
    assert (guesses["guess_old"] == other).mean() > 0.95
    assert facts["guessed"]["old"] == guesses["guess_old"].sum()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"counts": None}, "counts or priors of the class in each group"),
        ({"by": 3}, "by must name the column"),
        ({"by": "city"}, "has no column 'city'"),
        ({"means": None, "sums": {"2019": {"f0": 1.0}}, "counts": {}}, "needs the count"),
        ({"means": {"2019": {"f0": 0.1}}, "counts": {"2019": 30}}, "a group with a mean"),
        ({"means": {"1900": {"f0": 0.1}}, "counts": {"1900": 30}}, "which no record has"),
        ({"means": {"2019": {"trade": 0.1}}, "counts": {"2019": 30}}, "shares of its categories"),
    ],
)
def test_bad_means_of_groups_are_one_sentence(years, capsys, change, words):
    frame = pd.read_parquet(years / "r.parquet")
    parts = {str(year): part for year, part in frame[frame["label"] == 1].groupby("year")}
    content = {
        "by": "year",
        "means": {year: released(part, "mean") for year, part in parts.items()},
        "counts": {year: len(part) for year, part in parts.items()},
    } | change
    content = {key: value for key, value in content.items() if value is not None}
    (years / "mean.json").write_text(json.dumps(content))
    assert call(years) == 2
    fault = capsys.readouterr().err
    assert words in fault
    assert fault.count("\n") == 1
    assert not (years / "guesses.parquet").exists()
