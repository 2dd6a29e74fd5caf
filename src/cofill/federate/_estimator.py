"""`FederatedCompletion`: individuals completed by a model that sites trained without sharing a row.

The estimator drives `FederatedProtocol` with all parties in one process, over the very steps that a
network would carry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cofill.completion import AbstractCompleter, Completed, Progress, silent
from cofill.errors import DataError, SettingError
from cofill.federate._design import Design, RoundSettings, make_design
from cofill.federate._effort import ROUNDS, default_effort, require_effort
from cofill.federate._learner import AbstractLearner
from cofill.federate._local import LocalSettings
from cofill.federate._protocol import METHOD, FederatedProtocol
from cofill.federate._rounds import final_weights
from cofill.federate._strategies import AbstractStrategy
from cofill.privacy import Budget, Ledger
from cofill.protocol import (
    Checkpoint,
    Federation,
    LocalData,
    Membership,
    run_protocol,
    views_with_columns,
)
from cofill.views import MultiView, by_row


@dataclass(kw_only=True, eq=False, repr=False)
class FederatedCompletion(AbstractCompleter):
    """Completes missing cells and modalities by a model that sites learn together, in rounds.

    Parameters
    ----------
    model
        ``"best"``: tables from sums over all sites' people (`SummedTable`), images by a network.
        Whatever is set about training (``batch``, ``strategy``, ``network``, noise …), tables of
        more than 100 encoded columns and tables of very few people ask for a network too.
        ``"network"``, ``"vigan"``, ``"pix2pix"``, another name in `LEARNERS`, or a learner's class.
    sites
        How many sites `fit` deals the individuals of one `MultiView` out to. `fit_sites` takes
        the sites' own views.
    effort
        ``"quick"``, ``"normal"`` or ``"thorough"``: how large a network of images is and how many
        rounds there are. None for normal where there is an accelerator, else quick. Networks of
        images are judged by rows that sites hold out, and rounds end when these find no better one.
    rounds
        How often the sites' models are averaged; None for what the effort says.
    secure
        Whether only sums over the sites are opened, which takes three sites or more; see
        `RoundSettings`. One site alone has nobody to hide from. For research in one process
        ``False`` saves the time of the masks: the model is the same but for rounding.
    epsilon, delta
        For tables: what a site's sums may tell of one of its rows. They are then learned in one
        round, from sums with noise (`NoisyTable`). None for sums without noise.
    epochs, batch, learning_rate
        Of a site between two rounds; None for what suits the model.
    strategy
        ``"fedavg"``, ``"fedprox"``, ``"fedadam"``, ``"fedyogi"``, ``"scaffold"``, another name in
        `STRATEGIES`, or a strategy.
    network
        Fields of the model's learner: ``width``, ``blocks``, ``shift``, ``cycle`` for ``"best"``,
        ``architecture``, ``adversarial`` and weights of losses for the others.
    local, settings
        All settings of training and rounds, for those who want to set more (who takes part, public
        bounds, noise that hides a site or, in ``local``, a row); they take the place of the
        separate ones.
    budget
        What each site may spend on privacy over all its releases; None for no limit. The gate ends
        a fit that would go beyond.
    checkpoint
        Folder in which every round is saved, and from which an interrupted fit goes on.
    seed
        Of everything that is drawn.

    Attributes
    ----------
    weights_
        The common model, as one vector.
    site_ids_
        Whom each site knows: they are completed by the site's own candidates too.
    curve_
        Per round the sites' losses, weighted by their rows.
    ledger_
        What crossed a border.
    notes_
        Sites that were left out, and why.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(60, 3))
    >>> both = MultiView.from_arrays({"a": a, "b": a @ rng.normal(size=(3, 2))})
    >>> holes = both.hide({"b": np.arange(60) < 20})
    >>> model = FederatedCompletion(sites=3, rounds=8, batch=4, network={"width": 16, "blocks": 1})
    >>> completed = model.fit(holes).complete(holes)
    >>> completed.views.is_complete
    True
    """

    name: ClassVar[str] = METHOD
    pools_rows: ClassVar[bool] = False

    model: str | type[AbstractLearner] = "best"
    sites: int = 1
    effort: str | None = None
    rounds: int | None = None
    secure: bool = True
    epsilon: float | int | None = None
    delta: float | int = 1e-5
    epochs: int = 1
    batch: int | None = None
    learning_rate: float | int | None = None
    strategy: str | Mapping[str, Any] | AbstractStrategy = "fedavg"
    network: Mapping[str, Any] | None = None
    local: LocalSettings | None = None
    settings: RoundSettings | None = None
    budget: Budget | None = None
    checkpoint: str | Path | None = None
    seed: int = 0

    def fit_sites(
        self,
        held: Mapping[str, MultiView],
        *,
        progress: Progress | None = None,
        on_round: Callable[[int, FederatedCompletion], None] | None = None,
    ) -> FederatedCompletion:
        """Learn from the views of several sites.

        Parameters
        ----------
        held
            Each site's views; the same columns everywhere, other individuals at each site.
        progress
            Called with what is done and the share done.
        on_round
            Called after each round with its number and this estimator, which can complete with
            the model of that round.
        """
        fit_sites_many([self], [held], progress=progress, on_round=on_round)
        return self

    def _fit(self, views: MultiView, progress: Progress) -> None:
        if self.sites < 1:
            raise SettingError(f"sites must be at least 1, got {self.sites}")
        self.fit_sites(self.deal(views), progress=progress)

    def deal(self, views: MultiView) -> Mapping[str, MultiView]:
        """Return the views of each of the `sites` that `fit` deals individuals out to."""
        return {"site_1": views} if self.sites == 1 else by_row(views, self.sites, key=self.seed)

    def protocol(self, members: Membership) -> FederatedProtocol:
        """Return the protocol that these parameters describe."""
        return FederatedProtocol(members, self._design(len(members.sites)))

    def _design(self, sites: int) -> Design:
        effort = default_effort() if self.effort is None else self.effort
        require_effort(effort)
        rounds = ROUNDS[effort] if self.rounds is None else self.rounds
        settings = self.settings or RoundSettings(
            rounds=rounds, secure=self.secure, epsilon=self.epsilon, delta=self.delta
        )
        if sites == 1:
            settings = replace(settings, secure=False)
        training = {name: getattr(self, name) for name in ("batch", "learning_rate")}
        training["epochs"] = None if self.epochs == 1 else self.epochs
        options = {"network": self.network, "local": self.local, "seed": self.seed}
        return make_design(
            self.model, self.strategy, settings, sites, effort=effort, training=training, **options
        )

    def _predict(self, views: MultiView, progress: Progress) -> Mapping[str, np.ndarray]:
        sites: list[Any] = list(self.federation_.sites.values())
        common = replace(sites[0], correction=None)
        cells = common.complete(self.weights_, views, progress)
        for site in sites:
            if site.correction is not None:  # what a site knows of its own people
                is_own = np.isin(views.ids, self.site_ids_[site.name])
                for name, known_there in site.complete(self.weights_, views).items():
                    cells[name][is_own] = known_there[is_own]
        return cells

    def complete_sites(self, held: Mapping[str, MultiView]) -> dict[str, Completed]:
        """Complete each site's own individuals, in modalities that it lacks too."""
        check_is_fitted(self, "features_")
        completed = {}
        for site, held_views in held.items():
            views = views_with_columns(dict(held_views), self.columns_)
            party: Any = self.federation_.sites.get(site)
            if party is None:
                completed[site] = self.complete(views)
                continue
            cells = {} if views.is_complete else party.complete(self.weights_, views)
            completed[site] = Completed.merge(views, cells, method=METHOD, notes=self.notes_)
        return completed

    def _read(self, federation: Federation[Any], site_ids: dict[str, np.ndarray]) -> None:
        """Take over what the parties have learned."""
        coordinator = federation.coordinator
        sites: list[Any] = list(federation.sites.values())
        self.federation_ = federation
        self.site_ids_ = site_ids
        self.learner_ = sites[0].learner
        self.scalers_ = dict(sites[0].scalers)
        self.columns_ = sites[0].columns
        self.features_ = {name: scaler.features for name, scaler in self.scalers_.items()}
        self.weights_ = final_weights(coordinator)
        self.curve_ = [dict(entry) for entry in coordinator.curve]
        self.notes_ = (*coordinator.notes, *(note for site in sites for note in site.notes))
        self.ledger_: Ledger = federation.ledger


def fit_sites_many(
    estimators: Sequence[FederatedCompletion],
    held: Sequence[Mapping[str, MultiView]],
    *,
    progress: Progress | None = None,
    on_round: Callable[[int, FederatedCompletion], None] | None = None,
) -> None:
    """Fit several estimators of equal settings and other seeds as one batch.

    Each has its own views in ``held``; see `FederatedCompletion.fit_sites`.
    """
    progress = progress or silent
    fits = [_Fit(e, views) for e, views in zip(estimators, held, strict=True)]
    designs = [fit.protocol.design for fit in fits]
    if len({repr((d.model, d.network, d.locals, d.settings)) for d in designs}) > 1:
        raise SettingError("estimators that are fitted together must have the same settings")
    protocol, last = fits[0].protocol, len(fits[0].protocol.steps) - 1
    fit_by_design = {id(fit.protocol.design): fit for fit in fits}

    def report_progress(_: str, share: float) -> None:
        number = min(int(share * (last + 1) + 1e-9), last)
        progress(protocol.describe_progress(number), share)

    def after_step(number: int, federation: Federation[Any]) -> None:
        if not protocol.ends_round(number) and number != last:
            return
        if federation.coordinator.finished and number != last:
            return
        fit = fit_by_design[id(federation.coordinator.design)]
        if fit.checkpoint is not None:
            fit.checkpoint.save(federation)
        if on_round is not None and number != last:
            fit.read(federation)
            on_round(federation.coordinator.round - 1, fit.estimator)

    federations = [fit.federation for fit in fits]
    run_protocol(protocol, federations, progress=report_progress, after_step=after_step)
    progress("rounds done", 1.0)
    for fit in fits:
        fit.read()


class _Fit:
    """One estimator with its protocol, and its federation where it begins or was interrupted."""

    def __init__(self, estimator: FederatedCompletion, held: Mapping[str, MultiView]) -> None:
        if not held:
            raise DataError("there is no site; give at least one with its views")
        for site, views in held.items():
            if not views.n_individuals:
                raise DataError(f"site {site!r} has no individual; leave it out")
        site_views = {site: tuple(views) for site, views in held.items()}
        shared = tuple(dict.fromkeys(name for names in site_views.values() for name in names))
        self.estimator = estimator
        self.site_ids = {site: np.asarray(views.ids) for site, views in held.items()}
        self.protocol = estimator.protocol(Membership(site_views, shared))
        data = {site: LocalData(site, dict(views)) for site, views in held.items()}
        sites: dict[str, Any] = {}
        for site_data in data.values():
            sites |= self.protocol.start_site(site_data)
        self.federation: Federation[Any] = Federation(
            sites,
            coordinator=self.protocol.start_coordinator(),
            budgets={} if estimator.budget is None else dict.fromkeys(sites, estimator.budget),
            sent=estimator.sent,
        )
        self.checkpoint: Checkpoint | None = None
        if estimator.checkpoint is not None:
            folder = Path(estimator.checkpoint)
            self.checkpoint = Checkpoint(folder, self.protocol, self.protocol.design, data)
            self.checkpoint.restore(self.federation)

    def read(self, federation: Federation[Any] | None = None) -> None:
        """Let the estimator take over what the parties have learned, as far as they have come."""
        self.estimator._read(federation or self.federation, self.site_ids)
