"""Collecting an experiment's figures while it runs, and what it runs with and on."""

import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Real

from cofill.errors import SettingError
from cofill.metrics._json import plain
from cofill.metrics._record import (
    ResultRecord,
    checked_key,
    checked_seeds,
    checked_series,
    checked_value,
)

_PACKAGES = ("cofill", "numpy", "scipy", "scikit-learn", "jax", "jaxlib", "equinox", "optax")


class Recorder:
    """Collects one value per seed for each figure and makes the record of them.

    The clock starts when the recorder is made.

    Parameters
    ----------
    name, seeds
        What is run, and the repeats: different whole numbers.
    settings
        Everything needed to run it again: a mapping, data classes inside are fine.
    accelerator
        Name of the GPU, where one is used.

    Examples
    --------
    >>> recorder = Recorder("wdbc", seeds=[0, 3], settings={"width": 15})
    >>> recorder.add("mwm", "mse", "mean", [0.22, 0.24])
    >>> recorder.add("mwm", "mse", "worst", 0.30, seed=3)
    >>> record = recorder.finish()
    >>> record.values["mwm/mse/worst"], record.summary["mwm/mse/all"]["mean"]
    ([None, 0.3], 0.27)
    """

    def __init__(
        self,
        name: str,
        *,
        seeds: Iterable[int] | Int[np.ndarray, " seeds"],
        settings: Mapping[str, Any] | None = None,
        accelerator: str | None = None,
    ) -> None:
        self.name = name
        self.seeds = checked_seeds(seeds)
        self._settings = plain({} if settings is None else settings, "settings")
        self._machine = machine(accelerator)
        self._values: dict[str, dict[int, float | None]] = {}
        self._extra: dict[str, Any] = {}
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._clock = time.perf_counter()

    def add(
        self,
        method: str,
        metric: str,
        where: str,
        value: int | float | np.number | Sequence[Any] | Real[np.ndarray, " seeds"] | None,
        *,
        seed: int | np.integer | None = None,
    ) -> None:
        """Add a figure: a value for every seed, in their order, or the value of one `seed`."""
        key = checked_key(f"{method}/{metric}/{where}")
        several = isinstance(value, Sequence | np.ndarray)
        if several == (seed is not None):
            raise SettingError(
                f"{key!r} needs a list with a value for each seed, or one value and its seed, "
                f"got {'a list and a seed' if several else 'one value without a seed'}."
            )
        if seed is None:
            series = checked_series(key, value, len(self.seeds))  # pyright: ignore[reportArgumentType]
            new = dict(zip(self.seeds, series, strict=True))
        elif seed in self.seeds:
            new = {int(seed): checked_value(key, value)}
        else:
            raise SettingError(f"{key!r} has no seed {seed}; it must be one of the recorder's.")
        taken = sorted(new.keys() & self._values.get(key, {}).keys())
        if taken:
            raise SettingError(f"{key!r} already has a value for the seed {taken[0]}; add it once.")
        self._values.setdefault(key, {}).update(new)

    def note(self, name: str, value: Any) -> None:
        """Add something that is not a figure, such as a curve or a mask, under `extra`."""
        if name in self._extra:
            raise SettingError(f"the note {name!r} is already there; give this one another name.")
        self._extra[name] = plain(value, name)

    def finish(self) -> ResultRecord:
        """Return the record; seeds without a value have None."""
        return ResultRecord(
            name=self.name,
            settings=self._settings,
            seeds=self.seeds,
            versions=versions(),
            machine=self._machine,
            started=self._started,
            duration_s=round(time.perf_counter() - self._clock, 3),
            values={k: [v.get(s) for s in self.seeds] for k, v in self._values.items()},
            extra=self._extra,
        )


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed libraries that results depend on."""
    known = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            continue
    return known


def machine(accelerator: str | None = None) -> dict[str, str | int | float | None]:
    """Return the processor, its usable cores, the memory and the system.

    No host or user name: a record is meant to be shown to others. The accelerator is named by the
    caller, since asking for it would start the driver.
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
