"""Cooperative reconstruction as an estimator: sites are made from views and run in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from cofill.completion import AbstractCompleter, Completed, Progress, require_rows
from cofill.cooperate._defence import CodeDefence
from cofill.cooperate._encode import ANNOUNCE, ENCODE, SEND_CODES
from cofill.cooperate._learn import LEARN
from cofill.cooperate._needs import NARROW, SEND_PILOT, STATE_NEEDS
from cofill.cooperate._predict import ANSWER, ASK, COMPLETE
from cofill.cooperate._settings import Architecture, CooperativeSettings
from cofill.cooperate._site import Answer, CooperativeSite
from cofill.cooperate._store import load_sites, save_sites
from cofill.cooperate._tables import feature_r2, masks_table, reconstructability_table
from cofill.cooperate._uncertainty import drawn_answer, interval_ends
from cofill.errors import DataError, SettingError
from cofill.nets import FusionSettings, TrainSettings
from cofill.privacy import Budget, Ledger, blind, no_tokens, rows_of
from cofill.protocol import Federation, Step, run_steps
from cofill.views import MultiView, View

__all__ = ["CooperativeReconstruction", "fit_many"]

_CHOICES = ("flag", "fill", "leave")


class CooperativeReconstruction(AbstractCompleter):
    """Each site reconstructs the rows it lacks from codes that the other sites send (paper CRS).

    No row leaves its site: what crosses is in `ledger_`, and is blinded ids and autoencoder codes.
    Codes are no encryption; an audit tells how much of a row they give away, and `defence` what is
    done about it.

    Parameters
    ----------
    method
        ``"auto"`` (masked links or a fusion, by cross-validation inside each site), ``"masked"``,
        ``"fused"`` or ``"faithful"`` (the paper's links and masks).
    masks
        ``"closed"``, ``"gradient"`` (Eq. 6–7), ``"iteration"`` (Eq. 8) or ``"equal"``.
    mask_folds
        For ``"faithful"``: masks from rows that links did not learn from, in so many folds, each
        of which is another training of every link; 0 for the paper's masks.
    architecture
        A name of the paper's Table I, an `Architecture`, or None to choose by the data.
    on_unreconstructable
        Features whose out-of-sample R² is below `threshold` are not invented: ``"flag"`` leaves
        their cells empty and says so, ``"leave"`` leaves them empty, ``"fill"`` fills them anyway,
        and individuals whom no other site knows with the mean or the commonest value.
    threshold
        See above; also where `reconstructability_` draws the line.
    min_overlap
        A link needs so many shared individuals.
    scale
        ``"standard"``, or ``"robust"`` for heavy tails.
    interval
        Level of the intervals that `complete` adds, or None for none.
    fusion, encoder_training, link_training
        How networks are trained; sensible defaults when left out.
    defence
        What is done to codes before they leave (`CodeDefence`); nothing when left out.
    budget
        What each site may spend on its people; a release beyond it is refused. Only noisy codes
        cost something, the others have no guarantee.
    seed
        Start of all randomness, the noise on codes included: whoever knows the seed can take that
        off again. Over the network every site draws its own.

    Attributes
    ----------
    masks_
        Data frame: view, source, feature, weight.
    reconstructability_
        Data frame: view, feature, source (``"all"`` or a view), r2.
    ledger_
        What crossed a border, when and how much.
    notes_
        Links left out and features that cannot be reconstructed.

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

    def __init__(
        self,
        *,
        method: str = "auto",
        masks: str = "closed",
        mask_folds: int = 0,
        architecture: str | Architecture | None = None,
        on_unreconstructable: str = "flag",
        threshold: float = 0.05,
        min_overlap: int = 20,
        scale: str = "standard",
        interval: float | None = None,
        fusion: FusionSettings | None = None,
        encoder_training: TrainSettings | None = None,
        link_training: TrainSettings | None = None,
        defence: CodeDefence | None = None,
        budget: Budget | None = None,
        seed: int = 0,
    ) -> None:
        self.method = method
        self.masks = masks
        self.mask_folds = mask_folds
        self.architecture = architecture
        self.on_unreconstructable = on_unreconstructable
        self.threshold = threshold
        self.min_overlap = min_overlap
        self.scale = scale
        self.interval = interval
        self.fusion = fusion
        self.encoder_training = encoder_training
        self.link_training = link_training
        self.defence = defence
        self.budget = budget
        self.seed = seed

    # --- learning -----------------------------------------------------------------------------

    def _settings(self) -> CooperativeSettings:
        if self.on_unreconstructable not in _CHOICES:
            raise SettingError(
                f"on_unreconstructable must be one of {', '.join(_CHOICES)}, "
                f"got {self.on_unreconstructable!r}"
            )
        if self.interval is not None and not 0 < self.interval < 1:
            raise SettingError(f"interval must be between 0 and 1, got {self.interval}")
        given = {
            name: getattr(self, name)
            for name in ("fusion", "encoder_training", "link_training", "defence")
            if getattr(self, name) is not None
        }
        return CooperativeSettings(
            method=self.method,
            masks=self.masks,
            mask_folds=self.mask_folds,
            architecture=self.architecture,
            scale=self.scale,
            min_overlap=self.min_overlap,
            **given,
        )

    def _fit(self, views: MultiView, progress: Progress) -> None:
        federation = self._start(views)
        run_steps(fit_steps(self._settings()), [federation], progress=progress)
        self.federation_ = federation
        self._read()

    def _start(self, views: MultiView) -> Federation[CooperativeSite]:
        """Make one site per view."""
        if len(views) < 2:
            raise DataError("there is one view only; sites can cooperate from two views on")
        if not any(views.overlaps().values()):
            raise DataError(
                "no individual is in more than one view, so no link can be learned; check that "
                "the views name individuals by the same ids"
            )
        settings = self._settings()
        secret = np.random.default_rng([self.seed, 0x5EC]).bytes(32)
        sites = {
            name: CooperativeSite(
                name=name,
                view=view,
                settings=settings,
                seed=self.seed,
                secret=secret,
                others=tuple(other for other in views if other != name),
                noise_key=_noise_key(self.seed, name),
            )
            for name, view in views.items()
        }
        return self._federation(sites)

    def _federation(
        self, sites: dict[str, CooperativeSite], ledger: Ledger | None = None
    ) -> Federation[CooperativeSite]:
        """Put sites together, each with the budget."""
        budgets = {} if self.budget is None else dict.fromkeys(sites, self.budget)
        return Federation(sites, Ledger() if ledger is None else ledger, budgets=budgets)

    def _read(self) -> None:
        """Take over what the sites have learned."""
        self.ledger_: Ledger = self.federation_.ledger
        notes = [note for site in self.sites_.values() for note in site.notes]
        hopeless = self._hopeless()
        if self.on_unreconstructable == "flag":
            for name, columns in hopeless.items():
                if columns.any():
                    notes.append(
                        f"view {name!r}: {int(columns.sum())} of {len(columns)} features cannot be "
                        "reconstructed from the other views and are left empty"
                    )
        self.notes_ = tuple(notes)

    @property
    def sites_(self) -> Mapping[str, CooperativeSite]:
        """The fitted sites by the names of their views."""
        return self.federation_.sites

    @property
    def trained_(self) -> dict[str, int]:
        """How many encoders, links and fusions the sites that are here have trained so far."""
        counts: dict[str, int] = {}
        for site in self.sites_.values():
            for kind, number in site.trained.items():
                counts[kind] = counts.get(kind, 0) + number
        return counts

    def partial_fit(
        self, views: MultiView, *, progress: Progress | None = None
    ) -> CooperativeReconstruction:
        """Learn from more rows of the same views; only the new individuals' codes are sent.

        Encoders and scalers stay, links and fusions take a few steps over all rows, masks and
        ridge regressions are updated exactly. An id that a view has already keeps its old row.
        The first call is `fit`; a model that was loaded from a file must be fitted first.
        """
        if not hasattr(self, "features_"):
            return self.fit(views, progress=progress)
        self._check_schema(views)
        if not any(len(site.view) for site in self.sites_.values()):
            raise DataError("this model was loaded without its rows; fit it before partial_fit")
        sites = {}
        for name, site in self.sites_.items():
            new = views[name].take(site.view.positions(views[name].ids) < 0)
            ids = np.concatenate([site.view.ids, new.ids]) if len(new) else site.view.ids
            cells = np.concatenate([site.view.cells, new.cells])
            sites[name] = site.with_(view=site.view.with_rows(ids, cells), refines=True)
        trial = self._federation(sites, self.ledger_)
        run_steps(fit_steps(self._settings()), [trial], progress=progress)
        self.federation_ = self._federation(
            {name: site.with_(refines=False) for name, site in trial.sites.items()}, trial.ledger
        )
        self._read()
        return self

    def add_view(
        self, view: View, *, progress: Progress | None = None
    ) -> CooperativeReconstruction:
        """Let a site join: learns its autoencoder, the links from and to it, masks and fusions."""
        check_is_fitted(self, "features_")
        if view.name in self.sites_:
            raise DataError(f"there is a view {view.name!r} already; remove it first")
        old = self.sites_
        require_rows(MultiView([*(site.view for site in old.values()), view]))
        one = next(iter(old.values()))
        new = CooperativeSite(
            view.name,
            view,
            one.settings,
            one.seed,
            one.secret,
            others=tuple(old),
            noise_key=_noise_key(one.seed, view.name),
        )
        sites = {n: s.with_(others=(*s.others, view.name)) for n, s in old.items()}
        trial = self._federation({**sites, view.name: new}, self.ledger_)
        run_steps(fit_steps(self._settings()), [trial], progress=progress)
        self.federation_ = trial
        self.features_ = {**self.features_, view.name: view.features}
        self._read()
        return self

    def remove_view(self, name: str) -> CooperativeReconstruction:
        """Let a site leave: no network is trained but the fusions that used its codes."""
        check_is_fitted(self, "features_")
        if name not in self.sites_:
            raise SettingError(f"there is no view {name!r}; there is {', '.join(self.sites_)}")
        if len(self.sites_) < 3:
            raise DataError("two views are left; one alone cannot be reconstructed")
        sites = {}
        for other, site in self.sites_.items():
            if other != name:
                sites[other] = site.with_(
                    others=tuple(o for o in site.others if o != name),
                    peer_codes={p: c for p, c in site.peer_codes.items() if p != name},
                    peer_tokens={p: t for p, t in site.peer_tokens.items() if p != name},
                )
        trial = self._federation(sites, self.ledger_)
        run_steps(fit_steps(self._settings()), [trial])
        self.federation_ = trial
        self.features_ = {n: f for n, f in self.features_.items() if n != name}
        self._read()
        return self

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file (safetensors and JSON); it holds no one's row."""
        check_is_fitted(self, "features_")
        save_sites(path, self.sites_, self.get_params(deep=False))

    @classmethod
    def load(cls, path: str | Path) -> CooperativeReconstruction:
        """Read a model that `save` wrote; it completes views, and learns more only by a new fit."""
        sites, parameters = load_sites(path)
        estimator = cls(**parameters)
        estimator.federation_ = estimator._federation(sites)
        estimator.features_ = {
            name: site.scaler.features for name, site in sites.items() if site.scaler is not None
        }
        estimator._read()
        return estimator

    # --- completing ---------------------------------------------------------------------------

    def complete(self, views: MultiView, *, progress: Progress | None = None) -> Completed:
        """Fill what is missing in `views`; individuals need not be those of `fit`."""
        check_is_fitted(self, "features_")
        self._check_schema(views)
        if self.interval is None or views.is_complete:
            return super().complete(views, progress=progress)
        answers, tokens = self._ask(views, progress), self._tokens(views)
        made, lower, upper = self._filled(views, answers, tokens), {}, {}
        for name, cells in made.items():
            ends = self._ends(name, answers[name], tokens, self.interval)
            lower[name], upper[name] = (np.where(np.isnan(cells), np.nan, end) for end in ends)
        return Completed.merge(
            views, made, method=self.name, lower=lower, upper=upper, notes=self.notes_
        )

    def _predict(self, views: MultiView, progress: Progress) -> dict[str, np.ndarray]:
        return self._filled(views, self._ask(views, progress), self._tokens(views))

    def _filled(
        self, views: MultiView, answers: Mapping[str, Answer], tokens: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Return every view's cells by what the sites answered."""
        hopeless = self._hopeless()
        return {
            name: self._settled(name, self._cells(name, answers[name], tokens), hopeless[name])
            for name in views
        }

    def draw(
        self, views: MultiView, n_draws: int = 5, *, key: int | Sequence[int] = 0
    ) -> list[Completed]:
        """Fill `views` several times, each time with other draws of what the cells could be.

        Analyse each result as if it were complete and pool the estimates by `rubin`. Numbers are
        predictions plus drawn residuals, coded cells are drawn from their probabilities.
        """
        check_is_fitted(self, "features_")
        self._check_schema(views)
        if n_draws < 1:
            raise SettingError(f"n_draws must be at least 1, got {n_draws}")
        answers = self._ask(views, None)
        rng = np.random.default_rng(key)
        tokens = self._tokens(views)
        done = []
        for _ in range(n_draws):
            drawn = {n: drawn_answer(self.sites_[n], answers[n], rng) for n in views}
            made = self._filled(views, drawn, tokens)
            done.append(Completed.merge(views, made, method=self.name, notes=self.notes_))
        return done

    def reconstruct(
        self, views: MultiView, name: str, *, masks: str | None = None
    ) -> Float[np.ndarray, "individuals d"]:
        """Return a view's cells for everyone in `views`, made from the other views' codes alone.

        The view's own rows are not used, so that the result can be compared with them. `masks`
        weighs the links in another way than at fit.
        """
        check_is_fitted(self, "features_")
        self._check_schema(views)
        return self._cells(name, self._without(views, name, masks), self._tokens(views))

    def intervals(
        self, views: MultiView, name: str, level: float = 0.9
    ) -> tuple[Float[np.ndarray, "individuals d"], Float[np.ndarray, "individuals d"]]:
        """Return the ends of intervals around what `reconstruct` makes, in the user's units.

        They hold a cell's true value with probability `level`, on average over rows that are
        missing as the known rows could have been. Coded and empty cells have none (NaN).
        """
        check_is_fitted(self, "features_")
        self._check_schema(views)
        if not 0 < level < 1:
            raise SettingError(f"level must be between 0 and 1, got {level}")
        answer = self._without(views, name)
        return self._ends(name, answer, self._tokens(views), level)

    def _without(self, views: MultiView, name: str, masks: str | None = None) -> Answer:
        """Return what the other views' codes say about everyone's row in one view."""
        without = views.hide({name: np.ones(views.n_individuals, dtype=bool)})
        return self._ask(without, None, masks=masks, only=name)[name]

    def _ask(
        self,
        views: MultiView,
        progress: Progress | None,
        *,
        masks: str | None = None,
        only: str | None = None,
    ) -> dict[str, Answer]:
        """Run the asking half of the protocol over these views."""
        sites = {}
        for name, site in self.sites_.items():
            settings = site.settings if masks is None else replace(site.settings, masks=masks)
            asks = only is None or name == only
            sites[name] = site.with_(
                view=views[name],
                settings=settings,
                others=site.others if asks else (),
                model=site.model if asks else replace(site.model, links={}),
            )
        if only is not None:
            sites = {n: s.with_(others=(only,) if n != only else ()) for n, s in sites.items()}
        trial = self._federation(sites, Ledger(list(self.ledger_)))
        run_steps(ASKING, [trial], progress=progress)
        self.ledger_ = trial.ledger
        self.federation_.ledger = trial.ledger
        for name, site in self.sites_.items():
            if trial.sites[name].noised is not site.noised:
                self.federation_.sites[name] = site.with_(noised=trial.sites[name].noised)
        return {
            name: site.answer or Answer(no_tokens(), np.zeros((0, 0)))
            for name, site in trial.sites.items()
        }

    def _settled(self, name: str, cells: np.ndarray, hopeless: np.ndarray) -> np.ndarray:
        """Empty the features that cannot be reconstructed, or fill every cell when so asked."""
        if self.on_unreconstructable != "fill":
            cells[:, hopeless] = np.nan
            return cells
        typical, scaler = self.sites_[name].typical, self.sites_[name].fitted_scaler
        if typical is None:
            return cells
        whole = np.array([f.is_integer for f in scaler.features])
        return np.where(np.isnan(cells), np.where(whole, np.rint(typical), typical), cells)

    def _tokens(self, views: MultiView) -> np.ndarray:
        """Blind everyone's ids, once for all views: the sites share one secret."""
        return blind(views.ids, next(iter(self.sites_.values())).secret)

    def _cells(self, name: str, answer: Answer, tokens: np.ndarray) -> np.ndarray:
        """Return cells in the user's units for tokens, NaN for those nobody answered."""
        scaler = self.sites_[name].fitted_scaler
        cells = np.full((len(tokens), len(scaler.features)), np.nan)
        at = rows_of(answer.tokens, tokens)
        there = at >= 0
        if there.any():
            cells[there] = scaler.decode(answer.expected[at[there]], clip=True)
        return cells

    def _ends(
        self, name: str, answer: Answer, tokens: np.ndarray, level: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of intervals for tokens, NaN for those nobody answered."""
        found = interval_ends(self.sites_[name], answer.expected, level)
        at = rows_of(answer.tokens, tokens)
        there = at >= 0
        ends = np.full((2, len(tokens), found[0].shape[1]), np.nan)
        for end, values in zip(ends, found, strict=True):
            end[there] = values[at[there]]
        return ends[0], ends[1]

    # --- what was learned ---------------------------------------------------------------------

    @property
    def masks_(self) -> Any:
        """Weight of each source view in each feature: view, source, feature, weight."""
        check_is_fitted(self, "features_")
        return masks_table(self.sites_.values())

    @property
    def reconstructability_(self) -> Any:
        """Out-of-sample R² of each feature, by all sources together and by each alone."""
        check_is_fitted(self, "features_")
        return reconstructability_table(self.sites_.values())

    def _hopeless(self) -> dict[str, np.ndarray]:
        """Which features of each view cannot be reconstructed."""
        return {name: feature_r2(site) < self.threshold for name, site in self.sites_.items()}


FIT = (ENCODE, ANNOUNCE, SEND_CODES, LEARN)
ASKING = (ANNOUNCE, ASK, ANSWER, COMPLETE)
_WITH_PILOT = (ENCODE, ANNOUNCE, SEND_PILOT, STATE_NEEDS, NARROW, SEND_CODES, LEARN)


def fit_steps(settings: CooperativeSettings) -> tuple[Step[CooperativeSite], ...]:
    """Return the learning half of the protocol: with a pilot where the defence has one."""
    return _WITH_PILOT if settings.defence.pilot else FIT


def _noise_key(seed: int, name: str) -> bytes:
    """Return a site's key of noise for runs that can be repeated."""
    return np.random.default_rng([seed, 0xA015E, *name.encode()]).bytes(32)


def fit_many(
    estimators: Sequence[CooperativeReconstruction],
    views: Sequence[MultiView],
    *,
    progress: Callable[[str, float], None] | None = None,
) -> None:
    """Fit each estimator on its views; the networks of all of them train as one batch.

    The results are those of ``estimator.fit(views)`` one by one; repeats over seeds are nearly
    free this way.
    """
    if len(estimators) != len(views):
        raise SettingError(
            f"there must be one MultiView per estimator, got {len(views)} for {len(estimators)}"
        )
    for given in views:
        require_rows(given)
    federations = [e._start(v) for e, v in zip(estimators, views, strict=True)]
    kinds: dict[tuple[Step[CooperativeSite], ...], list[Federation[CooperativeSite]]] = {}
    for estimator, federation in zip(estimators, federations, strict=True):
        kinds.setdefault(fit_steps(estimator._settings()), []).append(federation)
    for steps, alike in kinds.items():
        run_steps(steps, alike, progress=progress)
    for estimator, federation in zip(estimators, federations, strict=True):
        estimator.federation_ = federation
    for estimator, given in zip(estimators, views, strict=True):
        estimator.features_ = {name: view.features for name, view in given.items()}
        estimator._read()
