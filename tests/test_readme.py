"""The README shows what the records hold, and its Python example runs."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_figures_are_those_of_the_records():
    check = subprocess.run(
        [sys.executable, "-m", "bench.readme", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert check.returncode == 0, check.stdout + check.stderr


def test_the_python_example_runs():
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert example is not None
    names: dict = {}
    exec(example[1], names)
    assert names["done"].views.is_complete
