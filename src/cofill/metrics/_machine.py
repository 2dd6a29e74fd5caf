"""What a result was made with: versions of the libraries and the machine, without importing them.

No host or user name: a record is meant to be shown to others.
"""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "cofill",
    "numpy",
    "scipy",
    "scikit-learn",
    "jax",
    "jaxlib",
    "equinox",
    "optax",
)


def versions() -> dict[str, str]:
    """Versions of Python and of the installed libraries that results depend on.

    Examples
    --------
    >>> sorted(versions())[:2]
    ['cofill', 'equinox']
    """
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine(accelerator: str | None = None) -> dict[str, str | int | float | None]:
    """Describe the processor, its cores, the memory and the system.

    Parameters
    ----------
    accelerator
        Name of the GPU that was used. Not looked for, since asking would start the driver.

    Examples
    --------
    >>> list(machine(accelerator="NVIDIA H200"))
    ['cpu', 'cores', 'memory_gib', 'platform', 'accelerator']
    """
    return {
        "cpu": _cpu_model(),
        "cores": _usable_cores(),
        "memory_gib": _memory_gib(),
        "platform": f"{platform.system()} {platform.machine()}",
        "accelerator": accelerator,
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.processor() or platform.machine() or "unknown"


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None
