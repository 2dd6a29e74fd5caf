"""`--set`: what a method lists can be given, and what it cannot take is one sentence at once."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest

from cofill.audit import ViewAuditSettings
from cofill.audit._view_trial import DefenceFigures
from cofill.audit._views import choose
from cofill.cli._app import run
from cofill.completion import METHODS, CompletionJob, make
from cofill.cooperate import CodeDefence
from cofill.errors import InputError, SettingError
from cofill.settings import describe_settings


@pytest.fixture
def tables(tmp_path):
    """Write two related tables with gaps; return their folder."""
    trait = np.random.default_rng(0).normal(size=(80, 1))
    a = pd.DataFrame(trait * [1, 2, 3], columns=["x", "y", "z"]).rename_axis("id")
    b = pd.DataFrame(trait * [3, 1], columns=["u", "v"]).rename_axis("id")
    a[:70].to_csv(tmp_path / "a.csv")
    b[10:].to_csv(tmp_path / "b.csv")
    return tmp_path


def complete(folder, *more):
    views = [word for name in "ab" for word in ("--view", f"{name}={folder / name}.csv")]
    return run(["complete", *views, "--id", "id", "--out", str(folder / "done"), "-q", *more])


WRONG = {
    'cooperative defence={"widht": 3}': "defence has no setting 'widht'; did you mean 'width'?",
    "cooperative defence=3": "defence must be a table of width, pilot,",
    'cooperative defence={"width": 0}': "defence: width must be",
    "cooperative fusion=abc": "fusion must be a table of hidden,",
    "cooperative budget=1": "budget must be a table of epsilon,",
    "cooperative budget={}": "budget needs the setting 'epsilon'",
    "cooperative threshold=abc": "threshold must be a number, got 'abc'",
    "cooperative min_overlap=abc": "min_overlap must be a whole number, got 'abc'",
    "cooperative min_overlap=2.5": "min_overlap must be a whole number, got 2.5",
    "cooperative method=magic": "method must be one of",
    "federated rounds=abc": "rounds must be a whole number or null, got 'abc'",
    "federated rounds=true": "rounds must be a whole number or null, got True",
    'federated network={"width": "wide"}': "width must be a whole number or null, got 'wide'",
    'federated strategy={"name": "fedprox", "proximal": "far"}': "proximal must be a number",
    "federated strategy=fedmagic": "there is no strategy 'fedmagic'",
    "knn n_neighbors=0": "n_neighbors must be a whole number of at least 1, got 0",
    "knn weights=heavy": "weights must be 'uniform' or 'distance', got 'heavy'",
    "pooled effort=much": "effort must be",
    "cooperative seed=1": "give it as --seed",
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_setting_is_one_sentence_before_training(tables, capsys, case):
    method, setting = case.split(" ", 1)
    assert complete(tables, "--method", method, "--set", setting) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert WRONG[case] in sentence
    assert not (tables / "done").exists()


def test_a_negative_seed_is_refused(tables, capsys):
    assert complete(tables, "--seed", "-1") == 2
    assert "--seed" in capsys.readouterr().err
    with pytest.raises(SettingError, match="seed must be 0 or more, got -1"):
        CompletionJob({"a": "a.csv"}, None, "done", seed=-1)


@pytest.mark.parametrize("method", METHODS.names)
@pytest.mark.parametrize("value", ["abc", -1, 1.5, {"no": 1}, [1], None, True])
def test_any_value_of_any_setting_is_taken_or_refused_in_words(method, value):
    for setting in describe_settings(METHODS.load(method)):
        try:
            completer = make(method, **{setting.name: value})
        except InputError as error:
            assert setting.name in str(error)  # noqa: PT017
        else:
            assert type(getattr(completer, setting.name)) is not list


@pytest.mark.parametrize("method", METHODS.names)
def test_defaults_can_be_given_and_are_documented(method):
    for setting in describe_settings(METHODS.load(method)):
        make(method, **{setting.name: setting.default})
        assert setting.meaning, f"{method}: {setting.name} has no meaning in the docstring"


def test_tables_become_settings_objects(tables):
    settings = ('defence={"width": 2}', "fusion={hidden=[]}", 'budget={"epsilon": 5}')
    words = [word for setting in settings for word in ("--set", setting)]
    assert complete(tables, "--method", "cooperative", *words) == 0
    facts = json.loads((tables / "done" / "completion.json").read_text())
    assert facts["settings"]["settings"]["defence"] == {"width": 2}


def test_what_an_audit_advises_can_be_copied_and_run(tables):
    names = ("worst_leak", "leak_outside_pilot", "inferred")
    figures = {"interval": (0.0, 0.0), "worst_view": "a", **dict.fromkeys(names, 0.0)}
    figures |= {"growth": 0.1, "growth_interval": (0.0, 0.0)}
    trial = {n: DefenceFigures(leak=k, **figures) for n, k in (("no defence", 0.9), ("pilot", 0.1))}
    defences = {"pilot": CodeDefence(pilot=30, adversary=True, epsilon=5.0, noise="laplace")}
    _, advice, _ = choose(trial, trial, defences, ViewAuditSettings())
    words = shlex.split(re.search(r"--set '[^']*'", advice).group())
    small = 'fusion={"hidden":[4],"members":1,"fold_members":1,"folds":2,"steps":2}'
    words += ["--set", small, "--set", 'encoder_training={"epochs":2}']
    assert complete(tables, "--separate", "--method", "cooperative", *words) == 0
