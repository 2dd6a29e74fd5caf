"""README.md and docs/results.md show the records' figures; the README is short and runs."""

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
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_figures_are_those_of_the_records():
    check = subprocess.run(
        [sys.executable, "-m", "bench.results", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert check.returncode == 0, check.stdout + check.stderr


@pytest.mark.parametrize(
    "page",
    [
        "<!-- begin figure -->\n1\n",
        "<!-- begin other -->\n1\n<!-- end other -->\n",
        "<!-- begin figure -->\n<!-- end figure -->\n" * 2,
        "no marker\n",
    ],
)
def test_a_page_whose_markers_do_not_fit_is_refused(page, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from bench.results import fill_blocks

    with pytest.raises(SystemExit, match="block"):
        fill_blocks(page, {"figure": lambda: "2"})


def test_a_block_is_replaced_and_what_surrounds_it_stays(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from bench.results import fill_blocks

    page = "before\n> <!-- begin figure -->\n> 1\n> <!-- end figure -->\nafter\n"
    assert fill_blocks(page, {"figure": lambda: "> 2"}) == page.replace("1", "2")


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 120
    assert len(README.split()) <= 1000


def test_the_first_screen_says_how_to_complete_two_csv_files():
    screen = "\n".join(README.splitlines()[:40])
    assert re.search(r"^cofill complete --view \w+=\w+\.csv --view \w+=\w+\.csv", screen, re.M)
    assert "make demo" in screen


def test_links_of_the_readme_lead_to_files():
    targets = re.findall(r"\]\(([^)]+)\)", README)
    assert len(targets) > 8
    assert [t for t in targets if not (ROOT / t).exists()] == []


@pytest.mark.full
def test_the_python_example_runs():
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    names: dict = {}
    exec(example[1], names)
    assert names["completed"].views.is_complete


@pytest.mark.full
def test_every_command_of_cofill_works_as_printed(tmp_path):
    """In one empty folder, with tables under the names that the README uses."""
    incomplete, _ = drop_rows(load("wdbc").views, 0.3, key=0)
    for view, name in (("mean", "clinic.csv"), ("worst", "lab.csv")):
        table = to_table(incomplete[view])
        names = ["person" if n == "id" else f"{view} {n}" for n in table.column_names]
        write_table(table.rename_columns(names), tmp_path / name)
    _write_released(tmp_path)
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("cofill ")]
    assert len(lines) >= 5
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for line in lines:
        process = subprocess.run(
            ["bash", "-c", line],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, f"{line}\n{process.stderr}"
    written = {p.name for p in tmp_path.iterdir()}
    assert {"completed", "apart", "trial", "guesses.csv", "audit"} <= written


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
