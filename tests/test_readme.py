"""The README shows what the records hold, and its Python example runs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cofill.views import drop_rows, load, to_table, write_table

ROOT = Path(__file__).parents[1]


def test_figures_are_those_of_the_records():
    check = subprocess.run(
        [sys.executable, "-m", "bench.readme", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert check.returncode == 0, check.stdout + check.stderr


@pytest.mark.full
def test_the_python_example_runs():
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert example is not None
    names: dict = {}
    exec(example[1], names)
    assert names["done"].views.is_complete


@pytest.mark.full
def test_every_command_of_cofill_works_as_printed(tmp_path):
    """In one empty folder, with tables under the names that the README uses."""
    holed, _ = drop_rows(load("wdbc").views, 0.3, key=0)
    for view, name in (("mean", "clinic.csv"), ("worst", "lab.parquet")):
        table = to_table(holed[view])
        names = ["person" if n == "id" else f"{view} {n}" for n in table.column_names]
        write_table(table.rename_columns(names), tmp_path / name)
    _write_released(tmp_path)
    found = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [line for block in found for line in block.splitlines() if line.startswith("cofill ")]
    assert len(lines) >= 4
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for line in lines:
        ran = subprocess.run(
            ["bash", "-c", line],
            cwd=tmp_path,
            env={**os.environ, "PATH": places},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, f"{line}\n{ran.stderr}"
    assert {"completed", "trial", "guesses.csv", "audit"} <= {p.name for p in tmp_path.iterdir()}


def _write_released(folder: Path) -> None:
    """Write records and the mean of three in ten of them."""
    rng = np.random.default_rng(0)
    ill = np.arange(500) < 150
    rows = rng.normal(size=(500, 4)) + ill[:, None]
    names = [f"c{k}" for k in range(4)]
    lines = [",".join(map(str, row)) for row in rows.round(6).tolist()]
    (folder / "records.csv").write_text("\n".join([",".join(names), *lines]) + "\n")
    mean = dict(zip(names, rows[ill].mean(axis=0).tolist(), strict=True))
    (folder / "mean.json").write_text(json.dumps(mean))
