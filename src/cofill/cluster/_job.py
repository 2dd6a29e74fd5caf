"""One job from files to files: completed views in, everybody's group out, all or nothing."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cofill.cluster._clusterer import AbstractClusterer
from cofill.cluster._estimator import DeepClustering, FederatedKMeans
from cofill.cluster._map import PlaneMap, plane_map
from cofill.cluster._map_picture import map_picture
from cofill.cluster._rows import ONE
from cofill.errors import SettingError
from cofill.files import check_new_folder, new_folder, write_json
from cofill.metrics import versions
from cofill.views import (
    MultiView,
    Source,
    read_views,
    write_table,
)

__all__ = ["CLUSTERERS", "ClusterJob", "ClusterResult", "run_cluster"]

CLUSTERERS: Mapping[str, Callable[..., AbstractClusterer]] = {
    "kmeans": FederatedKMeans,
    "deep": DeepClustering,
}
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class ClusterJob:
    """What to group, how, and where the result goes; checked when made.

    Parameters
    ----------
    sources
        ``{view: source}`` for one site, or ``{"site/view": source}`` for several: a CSV or Parquet
        file, ``URL#table`` or ``URL#SELECT …``. Views must be complete.
    id
        The id column, the same in every source.
    out
        A folder that does not exist yet.
    k
        Number of groups; None chooses it.
    method
        ``"kmeans"`` or ``"deep"``.
    settings
        Settings of the method.
    kinds, ignore, id_type
        See `MultiView.from_frames`.
    seed
        Start of all randomness.

    Examples
    --------
    >>> ClusterJob({"north/lab": "n.csv", "south/lab": "s.csv"}, id="id", out="groups").site_names
    ('north', 'south')
    """

    sources: Mapping[str, str]
    id: str
    out: str
    k: int | None = None
    method: str = "kmeans"
    settings: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    ignore: Sequence[str] = ()
    id_type: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.sources:
            raise SettingError("there is no view; give at least one as --view NAME=SOURCE")
        for name in self.sources:
            if not _NAME.fullmatch(name):
                raise SettingError(
                    "a view's name must be letters, digits, '_', '-' or '.', after 'site/' where "
                    f"there are several sites, got {name!r}"
                )
        if len({"/" in name for name in self.sources}) > 1:
            raise SettingError("either every view is named 'site/view', or none is")
        for source in self.sources.values():
            Source(source)
        if self.method not in CLUSTERERS:
            known = ", ".join(CLUSTERERS)
            raise SettingError(f"method must be one of {known}, got {self.method!r}")
        if self.k is not None and self.k < 2:
            raise SettingError(f"k must be at least 2, got {self.k}")
        self.clusterer()

    @property
    def site_names(self) -> tuple[str, ...]:
        """The sites, in order."""
        return tuple(dict.fromkeys(n.split("/")[0] if "/" in n else ONE for n in self.sources))

    def clusterer(self) -> AbstractClusterer:
        """Return the estimator that the job asks for."""
        made = CLUSTERERS[self.method]
        known = set(made().get_params(deep=False)) - {"k", "seed"}
        for name in self.settings:
            if name not in known:
                raise SettingError(
                    f"method {self.method!r} has no setting {name!r}; its settings: "
                    f"{', '.join(sorted(known))}"
                )
        return made(self.k, seed=self.seed, **self.settings)


@dataclass(frozen=True, eq=False)
class ClusterResult:
    """What a job made: the fitted estimator, where the files are, and what can be told of it."""

    clusterer: AbstractClusterer
    out: str
    files: tuple[str, ...]
    facts: Mapping[str, Any]


def run_cluster(
    job: ClusterJob, progress: Callable[[str, float], None] | None = None
) -> ClusterResult:
    """Run a job; after an error or an interrupt nothing of it remains on disk.

    The folder gets ``assignments`` (id, cluster from 0, confidence; the site where there are
    several), as CSV or Parquet like the first source, ``clustering.json``, and ``map.svg``, a map
    of the groups, where there are enough individuals for one.
    """
    started = time.perf_counter()
    check_new_folder(Path(job.out))
    if progress is not None:
        progress("read", 0.0)
    views = _read(job)
    several = "/" in next(iter(job.sources))
    given: Any = views if several else views[ONE]
    clusterer = job.clusterer().fit(given, progress=progress)
    table = _assignments(job, views, clusterer, several)
    facts = _facts(job, views, clusterer, time.perf_counter() - started)
    picture = map_picture(_map(given, clusterer, job.seed))
    ending = Source(next(iter(job.sources.values()))).result_ending
    with new_folder(Path(job.out)) as folder:
        write_table(table, folder / f"assignments{ending}")
        write_json(folder / "clustering.json", facts, sync=False)
        if picture is not None:
            (folder / "map.svg").write_text(picture, encoding="utf-8")
        files = tuple(sorted(path.name for path in folder.iterdir()))
    return ClusterResult(clusterer, job.out, files, facts)


def _read(job: ClusterJob) -> dict[str, MultiView]:
    own: dict[str, dict[str, str]] = {site: {} for site in job.site_names}
    for name, source in job.sources.items():
        site, _, view = name.rpartition("/")
        own[site or ONE][view] = source
    return {
        site: read_views(
            sources, id=job.id, kinds=job.kinds, ignore=job.ignore, id_type=job.id_type
        )
        for site, sources in own.items()
    }


def _map(given: Any, clusterer: AbstractClusterer, seed: int) -> PlaneMap:
    codes = clusterer.codes(given)
    if isinstance(codes, dict):
        codes = np.concatenate(list(codes.values()))
    return plane_map(codes, clusterer.labels_, seed=seed)


def _assignments(
    job: ClusterJob, views: Mapping[str, MultiView], clusterer: AbstractClusterer, several: bool
) -> pa.Table:
    columns: dict[str, Any] = {
        job.id: np.concatenate([own.ids for own in views.values()]),
        "cluster": clusterer.labels_,
        "confidence": np.round(clusterer.confidence_, 6),
    }
    if several:
        names = [site for site, own in views.items() for _ in range(own.n_individuals)]
        columns = {"site": names, **columns}
    return pa.table(columns)


def _facts(
    job: ClusterJob,
    views: Mapping[str, MultiView],
    clusterer: AbstractClusterer,
    duration: float,
) -> dict[str, Any]:
    """Say what was done, in counts: no id, no cell, no password."""
    settings = asdict(job)
    settings["sources"] = {name: Source(s).label for name, s in job.sources.items()}
    settings["settings"] = {name: str(value) for name, value in job.settings.items()}
    sizes = np.bincount(clusterer.labels_, minlength=clusterer.k_)
    told = Counter()
    for entry in clusterer.ledger_:
        told[entry.kind] += entry.bytes
    found = clusterer.selection_
    learned = {
        name: getattr(clusterer, f"{name}_")
        for name in ("inertia", "objective", "restart", "n_iter", "cost")
        if hasattr(clusterer, f"{name}_")
    }
    return {
        "format": "cofill-clustering",
        "version": 1,
        "settings": settings,
        "individuals": {site: own.n_individuals for site, own in views.items()},
        "k": clusterer.k_,
        "sizes": sizes.tolist(),
        "mean_confidence": round(float(clusterer.confidence_.mean()), 4),
        "choice_of_k": None if found is None else {"method": found.method, "table": found.table()},
        **{
            n: v if not isinstance(v, float) or np.isfinite(v) else None for n, v in learned.items()
        },
        "released_bytes": dict(told),
        "versions": versions(),
        "duration_s": round(duration, 3),
    }
