"""Cooperative reconstruction as an estimator: its sites run the protocol in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from cofill.completion import (
    AbstractCompleter,
    Completed,
    Progress,
    merged,
    require_draws,
    require_rows,
)
from cofill.cooperate._completion import (
    completed_views,
    decode_rows,
    draw_rows,
    interval_ends,
    masks_table,
    reconstructability_table,
    reconstructed_rows,
    site_notes,
)
from cofill.cooperate._defence import CodeDefence
from cofill.cooperate._protocol import CooperativeProtocol
from cofill.cooperate._secrets import has_seeded_secrets
from cofill.cooperate._settings import Architecture
from cofill.cooperate._site import CooperativeSite, ReconstructedRows
from cofill.cooperate._store import site_states, sites_from
from cofill.errors import DataError, SettingError
from cofill.nets import FusionSettings, TrainSettings
from cofill.privacy import Budget, Ledger, blind
from cofill.protocol import Federation, LocalData, Membership, run_protocol
from cofill.views import MultiView, View


@dataclass(kw_only=True, eq=False, repr=False)
class CooperativeReconstruction(AbstractCompleter):
    """Each site reconstructs the rows it lacks from codes that the other sites send (paper CRS).

    No row leaves its site: what crosses is in `ledger_`, and is blinded ids and autoencoder codes.
    Codes are no encryption; an audit tells how much of a row they give away, and `defence` what is
    done about it. The sites run the steps of `CooperativeProtocol`, in this process.

    Parameters
    ----------
    method
        ``"auto"`` (masked links or a fusion, by cross-validation inside each site), ``"masked"``
        (links that blend networks and ridge regression, masks from out-of-fold outputs),
        ``"fused"`` or ``"faithful"`` (the paper's links and masks).
    masks
        ``"closed"``, ``"gradient"`` (Eq. 6–7), ``"iteration"`` (Eq. 8) or ``"equal"``.
    mask_folds
        For ``"faithful"``: masks from rows that links did not learn from, in so many folds, each
        of which is another training of every link; 0 for the paper's masks.
    architecture
        A name of the paper's Table I, an `Architecture`, or None to choose by the data.
    on_unreconstructable, threshold
        Features whose out-of-sample R² is below `threshold` are named in the notes. ``"fill"``
        fills them with the best guess there is, and individuals whom no other site knows with the
        mean or the commonest value; ``"leave"`` leaves both empty.
    min_overlap, scale
        How many shared individuals a link needs; ``"standard"``, ``"robust"`` for heavy tails, or
        ``"none"``.
    interval
        Level of the intervals that `complete` adds, or None for none.
    fusion, encoder_training, link_training, defence
        How networks are trained, and what is done to codes before they leave (`CodeDefence`:
        nothing when left out).
    budget
        What each site may spend on its people; a release beyond it is refused. Only noisy codes
        cost something, the others have no guarantee.
    seed
        Start of all randomness in training. What blinds ids, and noise on codes, come from the
        operating system: whoever knew the seed could take them off. Over the network every site
        draws its encoder's first weights, too.

    Attributes
    ----------
    ledger_, notes_
        What crossed a border; links left out and features that cannot be reconstructed.

    Examples
    --------
    >>> import numpy as np
    >>> from cofill.views import MultiView
    >>> x = np.random.default_rng(0).normal(size=(80, 3))
    >>> both = MultiView.from_arrays({"a": x, "b": 2 * x}, presence={"b": np.arange(80) > 9})
    >>> model = CooperativeReconstruction(fusion=FusionSettings(hidden=())).fit(both)
    >>> done = model.complete(both)
    >>> bool(abs(done.cells["b"][:10] - 2 * x[:10]).mean() < 0.3)
    True
    """

    name = "cooperative"
    pools_rows = False

    method: str = "auto"
    masks: str = "closed"
    mask_folds: int = 0
    architecture: str | Architecture | None = None
    on_unreconstructable: str = "fill"
    threshold: float = 0.05
    min_overlap: int = 20
    scale: str = "standard"
    interval: float | None = None
    fusion: FusionSettings | None = None
    encoder_training: TrainSettings | None = None
    link_training: TrainSettings | None = None
    defence: CodeDefence | None = None
    budget: Budget | None = None
    seed: int = 0

    def protocol(self, view_names: Iterable[str]) -> CooperativeProtocol:
        """Return the protocol that these parameters describe, with one site per view."""
        parameters = self.get_params(deep=False)
        del parameters["budget"]  # the federation's, not a setting that sites share
        members = Membership({name: (name,) for name in view_names})
        protocol = CooperativeProtocol.from_settings(parameters, members)
        # In one process nobody tests ids of others, and an intersection takes far longer.
        local = {"is_local": True, "is_reproducible": has_seeded_secrets()}
        return replace(protocol, alignment="hash", **local)

    def start(self, views: MultiView) -> Federation[CooperativeSite]:
        """Return a federation of one site per view that is to learn, its secret agreed."""
        if len(views) < 2:
            raise DataError("there is one view only; sites can cooperate from two views on")
        if not any(views.overlaps().values()):
            raise DataError(
                "no individual is in more than one view, so no link can be learned; check that "
                "the views name individuals by the same ids"
            )
        protocol = self.protocol(views)
        sites = {}
        for name, view in views.items():
            sites |= protocol.start_site(LocalData(name, {name: view}))
        agreed = next(iter(sites.values())).secret
        sites = {name: replace(site, secret=agreed) for name, site in sites.items()}
        return self._federation(sites, protocol.learning.start)

    def _federation(
        self, sites: dict[str, CooperativeSite], next_step: int = 0, ledger: Ledger | None = None
    ) -> Federation[CooperativeSite]:
        """Return sites that stand before a step, each with the budget."""
        budgets = {} if self.budget is None else dict.fromkeys(sites, self.budget)
        ledger = Ledger() if ledger is None else ledger
        return Federation(sites, ledger, budgets=budgets, sent=self.sent, next_step=next_step)

    def _fit(self, views: MultiView, progress: Progress) -> None:
        fit_many([self], [views], progress=progress)

    def _learn_again(self, sites: dict[str, CooperativeSite]) -> CooperativeReconstruction:
        """Let fitted sites that have changed learn, and keep them."""
        protocol = self.protocol(sites)
        federation = self._federation(sites, protocol.learning.start, self.ledger_)
        run_protocol(protocol, [federation], until=protocol.learning.stop)
        for name, site in federation.sites.items():
            federation.sites[name] = replace(site, is_refining=False)
        self._take_over(federation)
        return self

    def _take_over(self, federation: Federation[CooperativeSite]) -> None:
        """Keep a federation that has learned."""
        if self.sent is not None:
            for site in federation.sites.values():
                self.sent.keep_keys(self.protocol(federation.sites).audit_keys(site))
        self.federation_ = federation
        self.ledger_: Ledger = federation.ledger
        self.features_ = {
            name: site.fitted_scaler.features for name, site in federation.sites.items()
        }
        self.notes_ = site_notes(federation.sites, self.protocol(federation.sites).policy)

    @property
    def sites_(self) -> Mapping[str, CooperativeSite]:
        """The fitted sites by the names of their views."""
        return self.federation_.sites

    @property
    def trained_(self) -> dict[str, int]:
        """How many encoders, links and fusions the present sites have trained so far."""
        counts: Counter[str] = Counter()
        for site in self.sites_.values():
            counts.update(site.trained)
        return dict(counts)

    def partial_fit(self, views: MultiView) -> CooperativeReconstruction:
        """Learn from more rows of the same views; only the new individuals' codes are sent.

        Encoders and scalers stay, links and fusions take a few steps over all rows, masks and
        ridge regressions are updated exactly. An id that a view has already keeps its old row.
        The first call is `fit`; a model that was loaded from a file must be fitted first.
        """
        if not hasattr(self, "features_"):
            return self.fit(views)
        self._check_schema(views)
        if not any(len(site.view) for site in self.sites_.values()):
            raise DataError("this model was loaded without its rows; fit it before partial_fit")
        sites = {}
        for name, site in self.sites_.items():
            old, new = site.view, views[name].take(site.view.positions(views[name].ids) < 0)
            ids = np.concatenate([old.ids, new.ids]) if len(new) else old.ids
            cells = np.concatenate([old.cells, new.cells])
            sites[name] = replace(site, view=old.with_rows(ids, cells), is_refining=True)
        return self._learn_again(sites)

    def add_view(self, view: View) -> CooperativeReconstruction:
        """Let a site join: learns its autoencoder, the links from and to it, masks and fusions."""
        check_is_fitted(self)
        if view.name in self.sites_:
            raise DataError(f"there is a view {view.name!r} already; remove it first")
        require_rows(MultiView([*(site.view for site in self.sites_.values()), view]))
        any_site = next(iter(self.sites_.values()))
        protocol = self.protocol([*self.sites_, view.name])
        protocol = replace(protocol, settings=any_site.settings, seed=any_site.seed)
        (joining,) = protocol.start_site(LocalData(view.name, {view.name: view})).values()
        old = self.sites_.items()
        sites = {name: replace(site, peers=(*site.peers, view.name)) for name, site in old}
        sites[view.name] = replace(joining, secret=any_site.secret)
        return self._learn_again(sites)

    def remove_view(self, name: str) -> CooperativeReconstruction:
        """Let a site leave: no network is trained but the fusions that used its codes."""
        check_is_fitted(self)
        if name not in self.sites_:
            raise SettingError(f"there is no view {name!r}; there is {', '.join(self.sites_)}")
        if len(self.sites_) < 3:
            raise DataError("two views are left; one alone cannot be reconstructed")
        sites = {}
        for other, site in self.sites_.items():
            if other != name:
                codes = {peer: c for peer, c in site.peer_codes.items() if peer != name}
                tokens = {peer: t for peer, t in site.peer_tokens.items() if peer != name}
                peers = tuple(peer for peer in site.peers if peer != name)
                sites[other] = replace(site, peers=peers, peer_codes=codes, peer_tokens=tokens)
        return self._learn_again(sites)

    def learned(self) -> dict[str, Any]:
        """Return what the sites have learned, for `save`; it holds no one's row."""
        return {"sites": site_states(self.sites_)}

    def restore(self, learned: Mapping[str, Any]) -> None:
        """Take over saved sites, which complete views and learn more only by a new fit."""
        self._take_over(self._federation(sites_from(learned["sites"])))

    def _complete(self, views: MultiView, progress: Progress) -> Completed:
        return self._completed(views, self._ask(views, progress=progress), self.interval)

    def _predict(self, views: MultiView, progress: Progress) -> dict[str, np.ndarray]:
        return dict(self._completed(views, self._ask(views, progress=progress)).cells)

    def draw(
        self, views: MultiView, n_draws: int = 5, *, key: int | Sequence[int] = 0
    ) -> list[Completed]:
        """Fill `views` several times, each time with other draws of what the cells could be.

        Analyse each result as if it were complete and pool the estimates by `rubin`. Numbers are
        predictions plus drawn residuals, coded cells are drawn from their probabilities.
        """
        later = self._later(views)
        require_draws(n_draws)
        expected, generator = self._ask(later.seen), np.random.default_rng(key)
        draws = []
        for _ in range(n_draws):
            rows = {n: draw_rows(self.sites_[n], expected[n], generator) for n in later.seen}
            draws.append(merged(later, self._completed(later.seen, rows)))
        return draws

    def _completed(
        self, views: MultiView, rows: Mapping[str, ReconstructedRows], interval: float | None = None
    ) -> Completed:
        """Return views whose gaps are filled with reconstructed rows."""
        policy = replace(self.protocol(self.sites_).policy, interval=interval)
        sites = {name: self.sites_[name] for name in views}
        return completed_views(views, self._tokens(views), sites, rows, policy, self.name)

    def reconstruct(
        self, views: MultiView, name: str, *, masks: str | None = None
    ) -> Float[np.ndarray, "individuals d"]:
        """Return a view's cells for everyone in `views`, made from the other views' codes alone.

        The view's own rows are not used, so that the result can be compared with them. `masks`
        weighs the links in another way than at fit.
        """
        self._check_views(views)
        rows = self._ask_about(views, name, masks)
        return decode_rows(self.sites_[name], rows, self._tokens(views))

    def intervals(
        self, views: MultiView, name: str, level: float = 0.9
    ) -> tuple[Float[np.ndarray, "individuals d"], Float[np.ndarray, "individuals d"]]:
        """Return the ends of intervals around what `reconstruct` returns, in the user's units.

        They hold a cell's true value with probability `level`, on average over rows that are
        missing as the known rows could have been. Coded and empty cells have none (NaN).
        """
        self._check_views(views)
        if not 0 < level < 1:
            raise SettingError(f"level must be between 0 and 1, got {level}")
        rows = self._ask_about(views, name)
        return interval_ends(self.sites_[name], rows, self._tokens(views), level)

    def _check_views(self, views: MultiView) -> None:
        check_is_fitted(self)
        self._check_schema(views)

    def _tokens(self, views: MultiView) -> np.ndarray:
        """Blind everyone's ids, once for all views: the sites share one secret."""
        return blind(views.ids, next(iter(self.sites_.values())).secret)

    def _ask_about(
        self, views: MultiView, name: str, masks: str | None = None
    ) -> ReconstructedRows:
        """Return what the other views' codes tell about everyone's row in one view."""
        hidden = views.hide({name: np.ones(views.n_individuals, dtype=bool)})
        sites = {}
        for other, site in self.sites_.items():
            if other != name:  # it announces its individuals to the one site, and asks nothing
                sites[other] = replace(site, peers=(name,), model=replace(site.model, links={}))
            else:
                settings = site.settings if masks is None else replace(site.settings, masks=masks)
                sites[other] = replace(site, peers=(), settings=settings)
        return self._ask(hidden, sites)[name]

    def _ask(
        self,
        views: MultiView,
        sites: Mapping[str, CooperativeSite] | None = None,
        progress: Progress | None = None,
    ) -> dict[str, ReconstructedRows]:
        """Run the asking half of the protocol over these views."""
        asking = {n: replace(s, view=views[n]) for n, s in (sites or self.sites_).items()}
        protocol = self.protocol(asking)
        federation = self._federation(asking, protocol.asking.start, self.ledger_)
        run_protocol(protocol, [federation], progress=progress)
        self.ledger_ = self.federation_.ledger = federation.ledger
        for name, site in self.sites_.items():
            noisy_codes = federation.sites[name].noisy_codes
            if noisy_codes is not site.noisy_codes:
                self.federation_.sites[name] = replace(site, noisy_codes=noisy_codes)
        return {name: reconstructed_rows(site) for name, site in federation.sites.items()}

    @property
    def masks_(self) -> Any:
        """Weight of each source view in each feature: view, source, feature, weight."""
        check_is_fitted(self)
        return masks_table(self.sites_.values())

    @property
    def reconstructability_(self) -> Any:
        """Out-of-sample R² of each feature, by all sources together and by each alone."""
        check_is_fitted(self)
        return reconstructability_table(self.sites_.values())


def fit_many(
    estimators: Sequence[CooperativeReconstruction],
    views: Sequence[MultiView],
    *,
    progress: Callable[[str, float], None] | None = None,
) -> None:
    """Fit each estimator on its views, all networks in one batch: repeats over seeds cost little.

    The results are those of ``estimator.fit(views)`` one by one.
    """
    if len(estimators) != len(views):
        raise SettingError(
            f"there must be one MultiView per estimator, got {len(views)} for {len(estimators)}"
        )
    for multi_view in views:
        require_rows(multi_view)
    federations = [e.start(v) for e, v in zip(estimators, views, strict=True)]
    # Federations with a pilot take other steps than those without.
    by_steps: dict[Any, tuple[CooperativeProtocol, list[Federation[CooperativeSite]]]] = {}
    for estimator, federation in zip(estimators, federations, strict=True):
        protocol = estimator.protocol(federation.sites)
        by_steps.setdefault(protocol.steps, (protocol, []))[1].append(federation)
    for protocol, alike in by_steps.values():
        run_protocol(protocol, alike, progress=progress, until=protocol.learning.stop)
    for estimator, federation in zip(estimators, federations, strict=True):
        estimator._take_over(federation)
