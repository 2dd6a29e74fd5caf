"""The package as a whole: what importing it costs, what it exports."""

import subprocess
import sys

import pytest

import cofill

HEAVY = ["jax", "equinox", "sklearn", "pyarrow", "pandas", "scipy", "sqlalchemy", "rich"]


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import cofill", [*HEAVY, "numpy"]),
        ("from cofill import MultiView, View, load", ["jax", "equinox", "sklearn", "scipy"]),
        ("import cofill.metrics", ["jax", "equinox", "sklearn", "scipy"]),
        ("import cofill.cli", ["jax", "equinox", "sklearn", "pyarrow", "scipy"]),
        ("import cofill.completion", ["jax", "equinox"]),
    ],
)
def test_importing_loads_only_what_is_needed(statement, absent):
    code = f"import sys; {statement}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "cofill" in loaded
    assert [m for m in absent if m in loaded] == []


def test_every_exported_name_is_there():
    for name in cofill.__all__:
        assert getattr(cofill, name).__module__.startswith("cofill.")
    assert set(cofill.__all__) <= set(dir(cofill))
    with pytest.raises(AttributeError, match="nonesuch"):
        _ = cofill.nonesuch
