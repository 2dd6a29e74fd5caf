"""`cofill cluster`: files in, groups and a map out, one sentence for bad input."""

import json

import numpy as np
import pandas as pd
import pytest

from cofill.cli._app import run


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    place = rng.permutation(60)
    middle = np.repeat([[0.0, 0.0], [8.0, 8.0]], 30, axis=0)[place]
    for site, people in (("north", slice(0, 40)), ("south", slice(40, 60))):
        cells = middle[people] + rng.normal(size=middle[people].shape)
        frame = pd.DataFrame(cells, columns=["a", "b"])
        frame.insert(0, "person", np.arange(60)[people])
        frame.to_csv(tmp_path / f"{site}.csv", index=False)
    return tmp_path, place >= 30


def arguments(folder, *more):
    views = [f"--view={site}/lab={folder}/{site}.csv" for site in ("north", "south")]
    return ["cluster", *views, "--id=person", f"--out={folder}/groups", *more]


def test_groups_of_two_sites_are_found_written_and_drawn(tables, capsys):
    folder, truth = tables
    assert run(arguments(folder, "--k=2", "-q")) == 0
    assert capsys.readouterr().out == ""
    assignments = pd.read_csv(folder / "groups" / "assignments.csv")
    assert list(assignments.columns) == ["site", "person", "cluster", "confidence"]
    agree = (assignments["cluster"].to_numpy() == truth[assignments["person"]]).mean()
    assert agree in (0.0, 1.0)
    picture = (folder / "groups" / "map.svg").read_text()
    assert picture.startswith("<svg")
    assert "group 0" in picture
    assert "group 1" in picture


@pytest.mark.full
def test_the_number_of_groups_is_chosen_and_told(tables, capsys):
    folder, _ = tables
    assert run(arguments(folder, "--json")) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["k"] == 2
    assert sorted(output["sizes"]) == [30, 30]
    assert output["choice_of_k"]["method"] == "stability"
    assert output["files"] == ["assignments.csv", "clustering.json", "map.svg"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--k=1"], "k must be at least 2, got 1"),
        (["--k=100"], "100"),
        (["--method=magic"], "method must be one of 'kmeans', 'deep'"),
        (["--view=lab=x.csv"], "either every view is named 'site/view', or none is"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(tables, capsys, more, words):
    folder, _ = tables
    assert run(arguments(folder, *more)) == 2
    output = capsys.readouterr().err
    assert words in output
    assert "\n" not in output.strip()
    assert not (folder / "groups").exists()
