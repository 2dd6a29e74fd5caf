"""`FederatedCompletion`: individuals completed by a model that sites trained without sharing a row.

The estimator plays all parties in one process, over the very steps that a network would carry:
sites agree on scales (`_survey`), train in rounds (`_rounds`), and each completes its own
individuals with the common model. ``model`` chooses what is trained: ``"best"`` (one network for
any number of modalities), ``"vigan"`` or ``"pix2pix"`` (as the thesis trains them).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cofill.completion import AbstractCompleter, Completed, Progress, silent
from cofill.errors import SettingError
from cofill.federate._checkpoint import fingerprint_of, restore, store
from cofill.federate._completion_net import CompletionNet
from cofill.federate._learner import AbstractLearner
from cofill.federate._local import LocalSettings
from cofill.federate._parties import RoundSettings, RowSite, require_lessons
from cofill.federate._rounds import run_rounds
from cofill.federate._rows import Rows, Shape, rows_of
from cofill.federate._strategies import AbstractStrategy, make_strategy
from cofill.federate._survey import SURVEY, Design, check_sites, survey_of
from cofill.federate._vigan import VIGAN, Pix2Pix
from cofill.privacy import Budget, Ledger
from cofill.protocol import Federation, run_steps
from cofill.views import MultiView, by_row

__all__ = ["FederatedCompletion", "fit_sites_many"]

_MODELS = ("best", "vigan", "pix2pix")


class FederatedCompletion(AbstractCompleter):
    """Completes missing modalities by a model that sites train together, in rounds.

    Parameters
    ----------
    model
        ``"best"``, ``"vigan"`` or ``"pix2pix"``.
    sites
        How many sites `fit` deals the individuals of one `MultiView` out to. `fit_sites` takes
        the sites' own views.
    rounds
        How often the sites' models are averaged.
    epochs, batch, learning_rate
        Of a site between two rounds; None for what suits the model.
    strategy
        ``"fedavg"``, ``"fedprox"``, ``"fedadam"``, ``"fedyogi"``, ``"scaffold"``, or a strategy.
    network
        Fields of the model's learner: ``width``, ``blocks``, ``fine``, ``cycle`` for ``"best"``,
        ``architecture``, ``adversarial`` and weights of losses for the others.
    local, settings
        All settings of training and rounds, for those who want to set more (who takes part, secure
        sums, noise that hides a site or, in ``local``, a row); they take the place of the separate
        ones.
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
    >>> done = model.fit(holes).complete(holes)
    >>> done.views.is_complete
    True
    """

    name = "federated"
    pools_rows = False

    def __init__(
        self,
        *,
        model: Literal["best", "vigan", "pix2pix"] = "best",
        sites: int = 1,
        rounds: int = 40,
        epochs: int = 1,
        batch: int | None = None,
        learning_rate: float | int | None = None,
        strategy: str | AbstractStrategy = "fedavg",
        network: Mapping[str, Any] | None = None,
        local: LocalSettings | None = None,
        settings: RoundSettings | None = None,
        budget: Budget | None = None,
        checkpoint: str | Path | None = None,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.sites = sites
        self.rounds = rounds
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.strategy = strategy
        self.network = network
        self.local = local
        self.settings = settings
        self.budget = budget
        self.checkpoint = checkpoint
        self.seed = seed

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
        held = {"site_1": views} if self.sites == 1 else by_row(views, self.sites, key=self.seed)
        self.fit_sites(held, progress=progress)

    def _design(self, held: Mapping[str, MultiView]) -> Design:
        first = next(iter(held.values()))
        if self.model not in _MODELS:
            raise SettingError(f"model must be one of {', '.join(_MODELS)}, got {self.model!r}")
        return Design(
            features={name: view.features for name, view in first.items()},
            image_shapes={name: view.image_shape for name, view in first.items()},
            learner=self._learner,
            local=self.local or self._local(),
            settings=self.settings or RoundSettings(rounds=self.rounds),
            strategy=make_strategy(self.strategy),
            seed=self.seed,
        )

    def _local(self) -> LocalSettings:
        """Return settings of training that suit the model."""
        usual = (
            LocalSettings(batch=8, learning_rate=3e-3, moments="reset")
            if self.model == "best"
            else LocalSettings(batch=32, learning_rate=1e-3, first_moment=0.5, moments="reset")
        )
        given = {"batch": self.batch, "learning_rate": self.learning_rate}
        if make_strategy(self.strategy).controls:
            usual = replace(usual, optimizer="sgd", learning_rate=0.05, momentum=0.0)
        return replace(
            usual, epochs=self.epochs, **{n: v for n, v in given.items() if v is not None}
        )

    def _learner(self, shape: Shape) -> AbstractLearner:
        given = dict(self.network or {})
        makes = {"best": CompletionNet, "vigan": VIGAN, "pix2pix": Pix2Pix}[self.model]
        known = [n for n in makes.__dataclass_fields__ if n != "shape"]
        wrong = next((n for n in given if n not in known), None)
        if wrong is not None:
            raise SettingError(
                f"network: there is no setting {wrong!r} of model {self.model!r}; there is "
                f"{', '.join(known)}"
            )
        return makes(shape, **given)

    def _predict(self, views: MultiView, progress: Progress) -> Mapping[str, np.ndarray]:
        made = {}
        rows = rows_of(views, self.scalers_, self.learner_.shape)
        for k, (name, columns) in enumerate(self.learner_.shape.slices.items()):
            progress(f"completing {name}", k / len(views))
            wanted = np.asarray(~rows.known[:, columns].all(axis=1))
            cells = np.full((views.n_individuals, len(views[name].features)), np.nan)
            if wanted.any():
                made_rows, told = self._from_others(rows, k, wanted)
                scaler = self.scalers_[name]
                decoded = scaler.decode(made_rows[:, columns].astype(np.float64), clip=True)
                # Nothing but this modality is known of some: they get what is usual here.
                usual = views[name].typical()
                alone = ~told[:, None] & ~np.isnan(usual)
                cells[wanted] = np.where(alone, usual, decoded)
            made[name] = cells
        return made

    def _from_others(
        self, rows: Rows, modality: int, wanted: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return whole rows made from the other modalities, and who has any other.

        Rows of those who have none are of zeros: the mean of numbers.
        """
        present = rows.present[wanted].copy()
        present[:, modality] = False
        known = rows.known[wanted] & present[:, self.learner_.shape.owner]
        shown = Rows(np.where(known, rows.cells[wanted], 0).astype(np.float32), known, present)
        made = self.learner_.complete(self.weights_, shown)
        told = np.asarray(present.any(axis=1))
        return np.where(told[:, None], made, 0.0), told

    def reconstruct(self, views: MultiView, name: str) -> np.ndarray:
        """Return everybody's row of one modality as the others tell it, in the user's units."""
        check_is_fitted(self, "features_")
        self._check_schema(views)
        rows = rows_of(views, self.scalers_, self.learner_.shape)
        columns = self.learner_.shape.slices[name]
        everybody = np.ones(views.n_individuals, dtype=bool)
        modality = self.learner_.shape.names.index(name)
        made = self._from_others(rows, modality, everybody)[0][:, columns]
        return self.scalers_[name].decode(made.astype(np.float64), clip=True)

    def complete_sites(
        self, held: Mapping[str, MultiView], *, progress: Progress | None = None
    ) -> dict[str, Completed]:
        """Complete each site's own individuals."""
        return {
            site: self.complete(views, progress=progress)
            for site, views in check_sites(held).items()
        }

    def _read(self, federation: Federation[RowSite]) -> None:
        """Take over what the parties have learned."""
        party, site = federation.coordinator, next(iter(federation.sites.values()))
        self.federation_ = federation
        self.learner_ = site.learner
        self.scalers_ = dict(site.scalers)
        self.features_ = {name: scaler.features for name, scaler in self.scalers_.items()}
        self.weights_ = party.weights
        self.curve_ = [dict(entry) for entry in party.curve]
        own = (note for site in federation.sites.values() for note in site.notes)
        self.notes_ = (*party.notes, *own)
        self.ledger_: Ledger = federation.ledger


def fit_sites_many(
    estimators: list[FederatedCompletion],
    held: list[Mapping[str, MultiView]],
    *,
    progress: Progress | None = None,
    on_round: Callable[[int, FederatedCompletion], None] | None = None,
) -> None:
    """Fit several estimators of equal settings and other seeds as one batch.

    Parameters
    ----------
    estimators, held
        One each: repeats of an experiment.
    progress, on_round
        As in `FederatedCompletion.fit_sites`.
    """
    held = [check_sites(one) for one in held]
    federations: list[Federation[RowSite]] = []
    for estimator, own in zip(estimators, held, strict=True):
        design = estimator._design(own)
        federation = survey_of(own, design, estimator.budget)
        run_steps(SURVEY, [federation])
        require_lessons(federation)
        federations.append(federation)
        if len({_alike(f) for f in federations}) > 1:
            raise SettingError("estimators that are fitted together must have the same settings")
    pairs = list(zip(estimators, federations, strict=True))
    marks = [fingerprint_of(f) if e.checkpoint else "" for e, f in pairs]
    for (estimator, federation), mark in zip(pairs, marks, strict=True):
        if estimator.checkpoint:
            restore(estimator.checkpoint, federation, mark)

    def read() -> None:
        for estimator, federation in pairs:
            estimator._read(federation)

    def after(number: int) -> None:
        for (estimator, federation), mark in zip(pairs, marks, strict=True):
            if estimator.checkpoint:
                store(estimator.checkpoint, federation, mark)
        if on_round is not None:
            read()
            for estimator in estimators:
                on_round(number, estimator)

    run_rounds(federations, progress=progress or silent, after=after)
    read()


def _alike(federation: Federation[RowSite]) -> tuple[Any, ...]:
    """Return what federations must share to run as one."""
    site = next(iter(federation.sites.values()))
    return site.learner, site.local, site.settings
