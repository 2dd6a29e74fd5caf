"""Completion on secret shares as an estimator: its sites run the protocol in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from cofill.completion import AbstractCompleter, Completed, Progress, merged, require_draws
from cofill.cooperate._private_completion import (
    cells_of,
    completed_by,
    feature_r2,
    own_cell_imputers,
    site_note,
)
from cofill.cooperate._private_protocol import PrivateProtocol
from cofill.cooperate._private_site import PrivateSettings, PrivateSite
from cofill.cooperate._secrets import has_seeded_secrets
from cofill.errors import DataError, SettingError
from cofill.privacy import Ledger
from cofill.protocol import Federation, LocalData, Membership, run_protocol
from cofill.views import MultiView, View, to_frame


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateCompletion(AbstractCompleter):
    """Each site gets the cells it lacks, computed on secret shares: no row and no code leaves.

    Every site makes features of its own rows; ridge regression over the features of all sites, and
    products of them, runs on shares between two of the sites, with a dealer. Nobody learns who is
    where, and of the people learned from nobody sees anything but errors over all of them.
    `PrivateProtocol` says what each party sees.

    Parameters
    ----------
    features
        At most so many features a view. None: 200, and fewer of more than four views, whose
        products would need more words than memory holds.
    folds
        Of the cross-validation by which penalties are chosen.
    min_overlap
        A view tells of another if at least so many people are in both.
    rounds
        How often is learned where rows have holes: after each round but the last, sites fill the
        holes by what they were told, so that the others' next predictions rest on whole rows and
        on how the columns of several sites go together. It is learned once where no row has a hole,
        or where `informs` keeps columns from a view.
    most_people
        At most so many people are learned from, drawn by chance from everybody whom some view has:
        time, memory and the size of messages of learning do not grow beyond that.
    most_asked
        People are asked about in parts of so many, so that memory and the size of messages do not
        grow with them.
    on_unreconstructable
        Features whose out-of-sample R² is below `threshold` are named in the notes. ``"fill"``
        fills them with the best guess there is, and individuals whom no other site knows with the
        mean or the commonest value; ``"leave"`` leaves both empty.
    threshold
        See above.
    interval
        Level of the intervals that `complete` adds, or None for none.
    computing
        The two views whose sites compute; the first two unless stated.
    sites
        Of views that several sites hold, who has whose row: ``{view: {site: ids}}``. Rows of people
        who come later are at the first one. Such sites agree on scales and features by sums; see
        `PrivateProtocol`.
    informs
        What owners allow: ``{view: {other view: columns}}`` names the columns of a view that may
        inform another one. All may inform views that are not named; none with an empty list.
    seed
        Start of the randomness in what sites make of their own rows. Masks and blinded ids come
        from the operating system, and with them which people are held out together when penalties
        are chosen, so that two fits differ a little. ``COFILL_SEEDED_SECRETS=1`` in the environment
        takes all of it from the seed, for tests: whoever knows it can take the masks off.

    Attributes
    ----------
    reconstructability_
        Data frame: view, feature, r2.
    ledger_
        What crossed a border, when and how much.

    Examples
    --------
    >>> import numpy as np
    >>> from cofill.views import MultiView
    >>> x = np.random.default_rng(0).normal(size=(90, 2))
    >>> both = MultiView.from_arrays({"a": x, "b": 2 * x}, presence={"b": np.arange(90) > 9})
    >>> done = PrivateCompletion(features=20).fit_complete(both)
    >>> bool(abs(done.cells["b"][:10] - 2 * x[:10]).mean() < 0.3)
    True
    """

    name = "private"
    pools_rows = False

    features: int | None = PrivateSettings.features
    folds: int = PrivateSettings.folds
    min_overlap: int = PrivateSettings.min_overlap
    rounds: int = PrivateSettings.rounds
    most_people: int = PrivateSettings.most_people
    most_asked: int = PrivateSettings.most_asked
    on_unreconstructable: str = "fill"
    threshold: float = 0.05
    interval: float | None = None
    computing: tuple[str, ...] | None = None
    sites: Mapping[str, Mapping[str, Any]] | None = None
    informs: Mapping[str, Mapping[str, Sequence[str]]] | None = None
    seed: int = 0

    def protocol(self, view_names: Iterable[str]) -> PrivateProtocol:
        """Return the protocol that these parameters describe: one site per view, or as stated."""
        site_views: dict[str, tuple[str, ...]] = {}
        for view in view_names:
            for site in (self.sites or {}).get(view, (view,)):
                site_views[site] = (*site_views.get(site, ()), view)
        members = Membership(site_views, tuple(self.sites or ()))
        settings = self.get_params(deep=False)
        del settings["sites"], settings["informs"]
        protocol = PrivateProtocol.from_settings(settings, members)
        return replace(protocol, is_local=True, is_reproducible=has_seeded_secrets())

    def _held(self, view: View, *, fitting: bool = False) -> dict[str, View]:
        """Return a view's rows by site."""
        by_site = (self.sites or {}).get(view.name)
        if by_site is None:
            return {view.name: view}
        holder = np.full(len(view), -1)
        for number, ids in enumerate(by_site.values()):
            rows = view.positions(np.asarray(ids))
            rows = rows[rows >= 0]
            if (holder[rows] >= 0).any():
                raise DataError(
                    f"sites must name each row of view {view.name!r} at one site, got "
                    f"{int((holder[rows] >= 0).sum())} at two"
                )
            holder[rows] = number
        if fitting and (holder < 0).any():
            raise DataError(
                f"sites must say where each row of view {view.name!r} is, got none for "
                f"{int((holder < 0).sum())} of {len(view)}"
            )
        return {s: view.take(np.maximum(holder, 0) == k) for k, s in enumerate(by_site)}

    def _fit(self, views: MultiView, progress: Progress) -> None:
        if len(views) < 2:
            raise DataError("there is one view only; sites can cooperate from two views on")
        protocol = self.protocol(views)
        sites: dict[str, Any] = {}
        informs = self.informs or {}
        if unknown := sorted(set(informs) - set(views)):
            raise SettingError(f"informs must name views that there are, got {unknown[0]!r}")
        for name, view in views.items():
            for site, rows in self._held(view, fitting=True).items():
                allowed = {name: informs[name]} if name in informs else {}
                sites |= protocol.start_site(LocalData(site, {name: rows}, informs=allowed))
        sites = {party: sites[party] for party in protocol.party_sites}
        federation = Federation(sites, coordinator=protocol.start_coordinator(), sent=self.sent)
        run_protocol(protocol, [federation], progress=progress, until=protocol.learning.stop)
        self._keep_audit_keys(protocol, federation)
        self.federation_ = federation
        self.ledger_: Ledger = federation.ledger
        self.notes_ = tuple(n for s in self.sites_.values() for n in site_note(s, protocol.policy))

    def _keep_audit_keys(self, protocol: PrivateProtocol, federation: Federation[Any]) -> None:
        if self.sent is not None:
            for site in federation.sites.values():
                self.sent.keep_keys(protocol.audit_keys(site))

    @property
    def sites_(self) -> dict[str, PrivateSite]:
        """The fitted sites by the names of their views, or ``view@site`` where several hold it."""
        return self.federation_.sites

    def _complete(self, views: MultiView, progress: Progress) -> Completed:
        sites = self._ask(views, progress=progress)
        policy = self.protocol(views).policy
        imputers = own_cell_imputers(sites, spread=policy.interval is not None)
        return completed_by(views, sites, policy, self.name, imputers)

    def _predict(self, views: MultiView, progress: Progress) -> dict[str, np.ndarray]:
        return dict(self._complete(views, progress).cells)

    def draw(
        self, views: MultiView, n_draws: int = 5, *, key: int | Sequence[int] = 0
    ) -> list[Completed]:
        """Fill `views` several times, each time with other draws of what the cells could be.

        The cells are asked for once; each site draws by itself, as wide as its intervals are.
        """
        later = self._later(views)
        require_draws(n_draws)
        sites, policy = self._ask(later.seen), self.protocol(later.seen).policy
        generator, imputers = np.random.default_rng(key), own_cell_imputers(sites, spread=True)
        return [
            merged(later, completed_by(later.seen, sites, policy, self.name, imputers, generator))
            for _ in range(n_draws)
        ]

    def reconstruct(self, views: MultiView, name: str) -> Float[np.ndarray, "individuals d"]:
        """Return a view's cells for everyone in `views`, made from the other views alone."""
        check_is_fitted(self)
        hidden = views.hide({name: np.ones(views.n_individuals, dtype=bool)})
        asked = self._ask(hidden, only=name)
        first = next(site for site in asked.values() if site.view.name == name)
        return cells_of(first, views.ids, self.protocol(views).policy).cells

    def _ask(
        self, views: MultiView, *, only: str | None = None, progress: Progress | None = None
    ) -> dict[str, PrivateSite]:
        """Run the asking half of the protocol; each view asks about everyone it lacks."""
        protocol = self.protocol(views)
        fitted = self.federation_
        held = self._parts(views)
        sites = {
            name: site.holding(
                held[name],
                self._asked_by(site, views) if only in (None, site.view.name) else None,
            )
            for name, site in fitted.sites.items()
        }
        federation = Federation(
            sites,
            fitted.ledger,
            coordinator=fitted.coordinator,
            sent=self.sent,
            next_step=protocol.asking.start,
        )
        run_protocol(protocol, [federation], progress=progress)
        self._keep_audit_keys(protocol, federation)
        self.ledger_ = fitted.ledger = federation.ledger
        fitted.coordinator = federation.coordinator
        for name, site in federation.sites.items():
            fitted.sites[name] = replace(fitted.sites[name], run=site.run)
        return federation.sites

    def _parts(self, views: MultiView) -> dict[str, View]:
        """Return rows by party."""
        parties = self.protocol(views).members.parties
        return {party: self._held(views[view])[site] for party, (view, site) in parties.items()}

    def _asked_by(self, site: PrivateSite, views: MultiView) -> np.ndarray | None:
        """Return whom a party asks about: a view's first site everybody, but for others' people."""
        if site.name != site.peers[0]:
            return None
        others = [v.ids for p, v in self._parts(views).items() if p in site.peers[1:]]
        return views.ids[~np.isin(views.ids, np.concatenate([views.ids[:0], *others]))]

    @property
    def reconstructability_(self) -> Any:
        """Out-of-sample R² of each feature by all other views."""
        import pyarrow as pa

        check_is_fitted(self)
        rows = [
            (site.view.name, feature.name, float(r2))
            for site in self.sites_.values()
            if site.name == site.peers[0]
            for feature, r2 in zip(self.features_[site.view.name], feature_r2(site), strict=True)
        ]
        names = ("view", "feature", "r2")
        columns = zip(*rows, strict=True)
        return to_frame(pa.table(dict(zip(names, map(list, columns), strict=True))), None)
