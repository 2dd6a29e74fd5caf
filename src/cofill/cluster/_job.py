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

from cofill.cluster._estimator import AbstractClusterer, DeepClustering, FederatedKMeans
from cofill.cluster._map import map_picture, plane_map
from cofill.cluster._multiview_estimator import MultiViewClustering
from cofill.cluster._protocol import Progress, describe_groups
from cofill.cluster._rows import ONLY_SITE
from cofill.errors import SettingError
from cofill.files import check_new_folder, new_folder, write_json
from cofill.metrics import versions
from cofill.nets import require_at_least
from cofill.privacy import require_one_of
from cofill.settings import typed_settings
from cofill.views import MultiView, Source, read_views, require_formulas, write_table

CLUSTERERS: Mapping[str, Callable[..., AbstractClusterer]] = {
    "kmeans": FederatedKMeans,
    "deep": DeepClustering,
    "views": MultiViewClustering,
}
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class ClusterJob:
    """What to group, how, and where the result goes; checked when made.

    Parameters
    ----------
    sources
        ``{view: source}`` for one site, or ``{"site/view": source}`` for several: a CSV or Parquet
        file, ``URL#table`` or ``URL#SELECT …``. Views must be complete, but for ``"views"``.
    id
        The id column, the same in every source; a single source needs none.
    out
        A folder that does not exist yet.
    k
        Number of groups; None chooses it.
    method
        ``"kmeans"``, ``"deep"``, or ``"views"`` for individuals who lack views.
    settings
        Settings of the method.
    kinds, ignore, id_type, reading
        See `MultiView.from_frames`; ``reading`` has further fields of `ColumnRules`.
    formulas
        ``"escape"``: texts of text files that a spreadsheet would compute get an apostrophe in
        front; ``"keep"``: they are written as they are.
    seed
        Start of all randomness.

    Examples
    --------
    >>> ClusterJob({"north/lab": "n.csv", "south/lab": "s.csv"}, id="id", out="groups").names_sites
    True
    """

    sources: Mapping[str, str]
    id: str | None
    out: str
    k: int | None = None
    method: str = "kmeans"
    settings: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    ignore: Sequence[str] = ()
    id_type: str | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    formulas: str = "escape"
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
        require_one_of("method", self.method, tuple(CLUSTERERS))
        require_at_least(self, k=2)
        require_formulas(self.formulas)
        self.clusterer()

    @property
    def names_sites(self) -> bool:
        """Whether views are given by site."""
        return "/" in next(iter(self.sources))

    def clusterer(self) -> AbstractClusterer:
        """Return the estimator that the job asks for."""
        estimator = CLUSTERERS[self.method]
        owner = f"method {self.method!r}"
        settings = typed_settings(owner, estimator, self.settings, leave=("k", "seed"))
        return estimator(self.k, seed=self.seed, **settings)


@dataclass(frozen=True, eq=False)
class ClusterResult:
    """The fitted estimator of a job, the files that it wrote, and facts that name nobody."""

    clusterer: AbstractClusterer
    out: str
    files: tuple[str, ...]
    facts: Mapping[str, Any]


def run_cluster(job: ClusterJob, progress: Progress | None = None) -> ClusterResult:
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
    data: Any = views if job.names_sites else views[ONLY_SITE]
    clusterer = job.clusterer().fit(data, progress=progress)
    table, figures = describe_groups(
        {site: site_views.ids for site, site_views in views.items()},
        clusterer.labels_,
        clusterer.confidence_,
        clusterer.k_,
        job.id or "row",
        name_sites=job.names_sites,
    )
    codes = clusterer.codes(data)
    if job.names_sites:
        codes = np.concatenate(list(codes.values()))
    picture = map_picture(plane_map(codes, clusterer.labels_, seed=job.seed))
    facts = {
        "format": "cofill-clustering",
        "version": 1,
        "settings": _describe_job(job),
        "individuals": {site: site_views.n_individuals for site, site_views in views.items()},
        **figures,
        **_describe_fit(clusterer),
        "versions": versions(),
        "duration_s": round(time.perf_counter() - started, 3),
    }
    ending = Source(next(iter(job.sources.values()))).result_ending
    with new_folder(Path(job.out)) as folder:
        write_table(table, folder / f"assignments{ending}", job.formulas)
        write_json(folder / "clustering.json", facts, sync=False)
        if picture is not None:
            (folder / "map.svg").write_text(picture, encoding="utf-8")
        files = tuple(sorted(path.name for path in folder.iterdir()))
    return ClusterResult(clusterer, job.out, files, facts)


def _read(job: ClusterJob) -> dict[str, MultiView]:
    sources: dict[str, dict[str, str]] = {}
    for name, source in job.sources.items():
        site, _, view = name.rpartition("/")
        sources.setdefault(site or ONLY_SITE, {})[view] = source
    rules: dict[str, Any] = {
        "kinds": job.kinds,
        "ignore": job.ignore,
        "id_type": job.id_type,
        **job.reading,
    }
    return {site: read_views(views, id=job.id, **rules) for site, views in sources.items()}


def _describe_job(job: ClusterJob) -> dict[str, Any]:
    """Return the job's settings; databases without user or password."""
    labels = {name: Source(source).label for name, source in job.sources.items()}
    settings = {name: str(value) for name, value in job.settings.items()}
    return {**asdict(job), "sources": labels, "settings": settings}


def _describe_fit(clusterer: AbstractClusterer) -> dict[str, Any]:
    """Return the choice of k, what the method learned in figures, and the bytes that left."""
    selection = clusterer.selection_
    choice = selection and {"method": selection.method, "table": selection.table()}
    facts: dict[str, Any] = {"choice_of_k": choice}
    for name in ("inertia", "objective", "restart", "n_iter", "cost"):
        if hasattr(clusterer, f"{name}_"):
            value = getattr(clusterer, f"{name}_")
            # JSON has no NaN.
            facts[name] = None if isinstance(value, float) and not np.isfinite(value) else value
    released = Counter[str]()
    for entry in clusterer.ledger_:
        released[entry.kind] += entry.bytes
    return {**facts, "released_bytes": dict(released)}
