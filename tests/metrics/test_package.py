"""The package as a whole: what it exports, and that importing it is cheap."""

import subprocess
import sys

from cofill import metrics


def test_everything_exported_is_listed():
    public = {
        name
        for name, value in vars(metrics).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("cofill")
    }
    assert public == set(metrics.__all__)
    assert metrics.__all__ == sorted(metrics.__all__)


def test_import_loads_no_heavy_library():
    heavy = "import sys, cofill.metrics; print({'jax', 'scipy', 'sklearn'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
