"""The package: what it exports, what importing it costs."""

import subprocess
import sys

import cofill.privacy


def test_everything_public_is_exported_by_name_and_in_order():
    names = cofill.privacy.__all__
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    for name in names:
        assert hasattr(cofill.privacy, name)
    public = {
        name
        for name, value in vars(cofill.privacy).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("cofill.")
    }
    assert public <= set(names)


def test_importing_it_loads_no_accountant_and_no_cryptography():
    code = "import sys, cofill.privacy; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = shown.stdout.split()
    assert "cofill.privacy" in loaded
    assert not {"dp_accounting", "cryptography", "scipy", "jax"} & set(loaded)
