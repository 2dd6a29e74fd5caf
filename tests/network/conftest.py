"""Small views, fast settings, and a federation in one process: places without a network."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from cofill.completion import Completed
from cofill.cooperate import CooperativeReconstruction
from cofill.federate import FederatedCompletion, FederatedProtocol
from cofill.nets import FusionSettings, TrainSettings
from cofill.network._config import FederationConfig, Member, SiteConfig, ViewSource
from cofill.network._fields import validate
from cofill.network._identity import Identity
from cofill.network._local import trial_policy
from cofill.network._order import RunOrder, Schedule, new_run, schedule_of
from cofill.network._policy import SitePolicy
from cofill.network._run_coordinator import RunCoordinator
from cofill.network._site_runner import SiteRunner
from cofill.protocol import COORDINATOR, Membership
from cofill.views import MultiView, View, to_table, write_table

# Codes, plain updates and sums: what these tests send needs the operator's word.
OPEN = validate(SitePolicy, tomllib.loads(trial_policy()), "the policy of a trial")

CANARY = 7_700_000.0
"""Raw cells are around this; no code, scaled cell or count is near it."""

FAST = {
    "alignment": "hash",  # as in one process, and quick
    "fusion": {"hidden": [], "folds": 3},
    "encoder_training": {"epochs": 30, "learning_rate": 0.01},
}


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


def marked_views(n: int = 90, names: str = "abc", *, whole: bool = False) -> MultiView:
    """Related views whose ids and cells can be recognised wherever they turn up.

    A quarter of the people is missing from every view unless views are `whole`.
    """
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, 2))
    ids = np.array([f"CANARY-{k:05d}" for k in range(n)])
    views = []
    for k, name in enumerate(names):
        there = whole | (np.arange(n) % 4 != k)
        cells = CANARY + 1000 * (z @ rng.normal(size=(2, 3)) + 0.1 * rng.normal(size=(n, 3)))
        views.append(View(name, ids[there], cells[there]))
    return MultiView(views)


def advance(coordinator: RunCoordinator, runners: Mapping[str, SiteRunner], *, stop: int) -> None:
    """Run the steps before a number over sites in this process."""
    while coordinator.next < stop:
        for name in coordinator.schedule.actors(coordinator.next):
            if name == COORDINATOR:
                coordinator.act()
            else:
                messages = coordinator.messages_for(name)
                coordinator.receive(name, runners[name].act(coordinator.next, messages))
        coordinator.advance()


def run_in_process(coordinator: RunCoordinator, runners: Mapping[str, SiteRunner]) -> None:
    """Run all steps over sites in this process: the network driver without a network."""
    advance(coordinator, runners, stop=coordinator.schedule.report + 1)
    coordinator.end()


@pytest.fixture(scope="session")
def marked() -> MultiView:
    """The views that can be recognised."""
    return marked_views()


@pytest.fixture(scope="session")
def whole() -> Completed:
    """Return what the estimator makes of the same views with the same settings."""
    estimator = CooperativeReconstruction(
        fusion=FusionSettings(hidden=(), folds=3),
        encoder_training=TrainSettings(epochs=30, learning_rate=0.01),
    )
    return estimator.fit_complete(marked_views())


@dataclass
class Here:
    """Places of one process, and the coordinator's post office."""

    base: Path
    views: MultiView
    federation: FederationConfig
    identities: dict[str, Identity]
    configs: dict[str, SiteConfig]
    order: RunOrder
    is_reproducible: bool = False
    """Whether what sites draw follows from the seed, to compare with an estimator."""

    def schedule(self) -> Schedule:
        schedule = schedule_of(self.order, self.federation)
        if not self.is_reproducible:
            return schedule
        protocol: Any = schedule.protocol
        return replace(schedule, protocol=replace(protocol, is_reproducible=True))

    def place(self, name: str, **changes: Any) -> SiteRunner:
        config = replace(self.configs[name], **changes)
        return SiteRunner(self.schedule(), self.identities[name], config, self.base / name / "home")

    def office(self) -> RunCoordinator:
        home = self.base / "coordinator" / "home"
        return RunCoordinator(self.schedule(), self.identities["coordinator"], home)

    def results(self, name: str) -> Path:
        return self.configs[name].results / self.order.run

    def ledger(self, name: str) -> Path:
        return self.base / name / "home" / "ledger.jsonl"


def row_sites(
    n: int = 90, sites: Sequence[str] = "abc", whole: bool = False
) -> dict[str, MultiView]:
    """Sites with other individuals each, two related views, some rows missing."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(n, 2))
    both = {
        name: CANARY + 1000 * (z @ rng.normal(size=(2, width)) + 0.1 * rng.normal(size=(n, width)))
        for name, width in (("u", 3), ("v", 2))
    }
    held = {}
    for k, site in enumerate(sites):
        own = np.arange(n) % len(sites) == k
        views = []
        for j, (name, cells) in enumerate(both.items()):
            there = own if whole else own & (np.arange(n) // len(sites) % 5 != j)
            ids = [f"CANARY-{i:05d}" for i in np.flatnonzero(there)]
            views.append(View(name, ids, cells[there]))
        held[site] = MultiView(views)
    return held


def _identities(names: tuple[str, ...]) -> dict[str, Identity]:
    fresh = {name: Identity.fresh(name) for name in names}
    public = {name: identity.public for name, identity in fresh.items()}
    return {
        name: replace(one, others={n: k for n, k in public.items() if n != name})
        for name, one in fresh.items()
    }


ROUNDS = {
    "rounds": 3,
    "secure": False,
    "batch": 8,
    "network": {"width": 8, "blocks": 1},
    "local": {"moments": "keep"},
    "seed": 5,
}


def estimator_for(settings: dict[str, Any]) -> FederatedCompletion:
    """Return the estimator that an order of rounds describes, sites trained one by one."""
    members = Membership(dict.fromkeys("abc", ("u", "v")), ("u", "v"))
    design = FederatedProtocol.from_settings(settings, members).design
    return FederatedCompletion(
        model=design.model,
        network=design.network,
        local=design.local,
        settings=design.settings,
        strategy=design.strategy,
        seed=design.seed,
    )


def federation_by_row(
    base: Path,
    experiment: str = "federate",
    settings: dict[str, Any] | None = None,
    held: dict[str, MultiView] | None = None,
    views: dict[str, tuple[str, ...]] | None = None,
) -> Here:
    """Write a federation split by row into a folder; its places are in this process."""
    held = row_sites() if held is None else held
    own = {name: tuple(held[name]) for name in held} if views is None else views
    members = tuple(Member(name, name, own[name]) for name in held)
    federation = FederationConfig("test", "localhost", 8002, members, shared=("u", "v"))
    configs = {}
    for name in held:
        folder = base / name
        folder.mkdir()
        for view in own[name]:
            write_table(to_table(held[name][view]), folder / f"{view}.parquet")
        configs[name] = SiteConfig(
            {v: ViewSource(str(folder / f"{v}.parquet"), "id") for v in own[name]},
            folder / "results",
            policy=OPEN,
        )
    chosen = ROUNDS if settings is None else settings
    order = RunOrder(new_run(), experiment, chosen)
    first = next(iter(held.values()))
    return Here(base, first, federation, _identities((*held, "coordinator")), configs, order)


def federation_by_view(
    base: Path, views: MultiView | None = None, sites: dict[str, tuple[str, ...]] | None = None
) -> Here:
    """Write a federation split by view into a folder, sites named as given.

    Rows of a view that several sites hold are dealt out to them in turn.
    """
    views = marked_views() if views is None else views
    sites = sites or {name: (name,) for name in views}
    members = tuple(Member(name, name, held) for name, held in sites.items())
    holders: dict[str, list[str]] = {}
    for name, held in sites.items():
        for view in held:
            holders.setdefault(view, []).append(name)
    shared = tuple(view for view, names in holders.items() if len(names) > 1)
    federation = FederationConfig("test", "localhost", 8002, members, id_type="text", shared=shared)
    identities = _identities((*sites, "coordinator"))
    people = base / "people.csv"
    people.write_text("id\n" + "\n".join(views.ids.tolist()) + "\n")
    configs = {}
    for name, held in sites.items():
        (base / name).mkdir()
        for view in held:
            rows = np.arange(len(views[view])) % len(holders[view])
            part = views[view].take(rows == holders[view].index(name))
            write_table(to_table(part), base / name / f"{view}.parquet")
        configs[name] = SiteConfig(
            {v: ViewSource(str(base / name / f"{v}.parquet"), "id") for v in held},
            base / name / "results",
            people=ViewSource(str(people), "id"),
            policy=OPEN,
        )
    order = RunOrder(new_run(), "cooperate", FAST)
    return Here(base, views, federation, identities, configs, order)


@pytest.fixture
def rows_here(tmp_path) -> Callable[..., Here]:
    """Return a maker of federations split by row, in one process."""
    return partial(federation_by_row, tmp_path)


@pytest.fixture
def here(tmp_path) -> Callable[..., Here]:
    """Return a maker of federations split by view, in one process."""
    return partial(federation_by_view, tmp_path)
