"""What a result was made with: versions of the libraries and the machine, without importing them.

No host or user name: a record is meant to be shown to others.
"""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("cofill", "numpy", "scipy", "scikit-learn", "jax", "jaxlib", "equinox", "optax")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed libraries that results depend on.

    Examples
    --------
    >>> sorted(versions())[:2]
    ['cofill', 'equinox']
    """
    known = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            continue
    return known


def machine(accelerator: str | None = None) -> dict[str, str | int | float | None]:
    """Return the processor, its usable cores, the memory and the system.

    Parameters
    ----------
    accelerator
        Name of the GPU that was used. Not looked for, since asking would start the driver.

    Examples
    --------
    >>> list(machine(accelerator="NVIDIA H200"))
    ['cpu', 'cores', 'memory_gib', 'platform', 'accelerator']
    """
    try:
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):  # not a Unix
        memory = None
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only; counts what may be used
    return {
        "cpu": _cpu_model(),
        "cores": len(affinity(0)) if affinity else os.cpu_count() or 1,
        "memory_gib": memory,
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
