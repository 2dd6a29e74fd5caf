"""The examples run, are short, and print a table."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def run(path, folder):
    return subprocess.run(
        [sys.executable, str(path)], cwd=folder, capture_output=True, text=True, check=False
    )


def test_there_are_six_short_ones():
    assert len(EXAMPLES) == 6
    for path in EXAMPLES:
        assert len(path.read_text(encoding="utf-8").splitlines()) < 60, path.name


@pytest.mark.full
def test_the_quickest_runs(tmp_path):
    path = next(p for p in EXAMPLES if p.stem == "released_mean")
    process = run(path, tmp_path)
    assert process.returncode == 0, process.stderr
    shares = {
        line[:32].strip(): float(line[32:46].rstrip("% "))
        for line in process.stdout.splitlines()[1:6]
    }
    plain, nothing = shares["the mean of the ill"], shares["nothing is released"]
    assert plain > 90 > nothing
    assert shares["with noise, ε = 0.1"] < 0.5 * (plain + nothing)
    assert "differential privacy" in process.stdout


@pytest.mark.full
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_runs_and_leaves_nothing_behind(path, tmp_path):
    process = run(path, tmp_path)
    assert process.returncode == 0, process.stderr
    assert len(process.stdout.splitlines()) >= 4
    assert list(tmp_path.iterdir()) == []
