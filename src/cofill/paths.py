"""Where cofill keeps things on this machine: data sets, compiled programs, keys."""

import os
import sys
import warnings
from pathlib import Path

__all__ = ["compiled_folder", "data_folder", "keep_compiled_programs", "keys_folder"]


def data_folder() -> Path:
    """Return the folder of the data sets: ``$COFILL_DATA``, else the user's cache folder."""
    chosen = os.environ.get("COFILL_DATA")
    return Path(chosen).expanduser() if chosen else _user_cache() / "data"


def compiled_folder() -> Path:
    """Return the folder of compiled programs: ``$COFILL_CACHE``, else the user's cache."""
    chosen = os.environ.get("COFILL_CACHE")
    return (Path(chosen).expanduser() if chosen else _user_cache()) / "jax"


def keys_folder() -> Path:
    """Return the folder of keys: ``$COFILL_KEYS``, else the user's own, beside no site's files."""
    chosen = os.environ.get("COFILL_KEYS") or "~/.config/cofill/keys"
    return Path(chosen).expanduser()


def keep_compiled_programs() -> None:
    """Have JAX keep what it compiles, so that a second run need not compile again.

    Commands and tests call this; importing cofill never does. Works before and after JAX is
    imported, does not import it, and leaves a cache folder that the user has chosen alone. JAX
    compiles anew what another process is just writing, or was killed while it wrote; it need not
    warn of that.
    """
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    settings = {
        "jax_compilation_cache_dir": str(compiled_folder()),
        # Small networks compile in a second; a second each time is what this is to save.
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    jax = sys.modules.get("jax")
    if jax is None:
        for name, value in settings.items():
            os.environ.setdefault(name.upper(), str(value))
    elif jax.config.jax_compilation_cache_dir is None:
        for name, value in settings.items():
            jax.config.update(name, value)


def _user_cache() -> Path:
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "cofill"
