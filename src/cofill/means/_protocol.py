"""The protocol of noisy means: clip to public bounds, add up, add noise, send.

A site clips its rows to the bounds that the settings state, adds up, adds noise and sends; its gate
charges the cost to its budget and refuses what goes beyond. The run goes on without a site that
refuses, and says so. Noise comes from the operating system; a resumed run sends the same values
again, at no further cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from cofill.errors import DataError, SettingError
from cofill.privacy import Box, MeanDefence, NoisyMean
from cofill.protocol import (
    COORDINATOR,
    MOST_ROWS,
    AbstractProtocol,
    Demands,
    Inbox,
    LocalData,
    Membership,
    Outbox,
    SiteResult,
    Step,
    one_by_one,
)
from cofill.registry import require_settings
from cofill.views import View

_MOST_SCALES = 40  # Laplace noise is further out once in 10^17
_SETTINGS = ("epsilon", "delta", "noise", "neighbours", "low", "high", "view", "min_sites", "seed")


@dataclass(frozen=True, eq=False)
class MeanSite:
    """A site with the view whose mean it releases, and the mean it has released."""

    name: str
    view: View
    defence: MeanDefence
    released: NoisyMean | None = None


@dataclass(frozen=True, eq=False)
class MeanCoordinator:
    """The coordinator with the sites' noisy means; fewer than ``min_sites`` end the run."""

    min_sites: int
    defence: MeanDefence
    means: tuple[NoisyMean, ...] = ()
    notes: tuple[str, ...] = ()


def _release(site: MeanSite, inbox: Inbox) -> tuple[MeanSite, Outbox]:
    rows = site.view.cells.astype(float)
    noisy_mean = site.defence.release(rows, sender=site.name, receiver=COORDINATOR)
    return replace(site, released=noisy_mean), [noisy_mean]


def _gather(coordinator: MeanCoordinator, inbox: Inbox) -> tuple[MeanCoordinator, Outbox]:
    releases = [release for release in inbox if isinstance(release, NoisyMean)]
    faults = {release.sender: _fault(release, coordinator.defence) for release in releases}
    means = tuple(release for release in releases if faults[release.sender] is None)
    notes = tuple(f"site {name!r} {fault}; left out" for name, fault in faults.items() if fault)
    if len(means) < coordinator.min_sites:
        raise DataError(
            f"{len(means)} sites released a mean, and min_sites is {coordinator.min_sites}"
        )
    return replace(coordinator, means=means, notes=notes), []


def _fault(release: NoisyMean, defence: MeanDefence) -> str | None:
    """Return why a claimed mean cannot be one, in words; None when it can."""
    width, bounds = len(release.mean), defence.bounds
    # A private number of rows has noise, and may be below 0.
    if abs(release.rows) > MOST_ROWS:
        return "claims a number of rows that nobody has"
    try:
        away = np.abs(release.mean - bounds.centre_of(width)) / bounds.unit_of(width)
    except SettingError:
        return f"sent a mean of {width} columns, which the bounds are not for"
    # Not by the scale that it claims. With a private number the noisy one divides the sum.
    scale = defence.scale_of(release.rows, width) / bounds.unit_of(width)
    most = 1 + _MOST_SCALES * scale if defence.neighbours == "replace one" else MOST_ROWS
    if (away > most).any():
        return "sent a mean further outside the bounds than its noise can take it"
    return None


@dataclass(frozen=True, eq=False)
class MeanProtocol(AbstractProtocol):
    """The mean of each site's rows, with noise.

    Parameters
    ----------
    members, defence
        Who takes part; bounds and noise.
    view
        The view whose mean is released; None for each site's own.
    min_sites
        How many sites must release one.

    Examples
    --------
    >>> members = Membership({"lab": ("blood",)})
    >>> settings = {"epsilon": 1.0, "low": 0.0, "high": 1.0}
    >>> [step.name for step in MeanProtocol.from_settings(settings, members).steps]
    ['release', 'gather']
    """

    name: ClassVar[str] = "mean"
    tolerates_absence: ClassVar[bool] = True
    members: Membership
    defence: MeanDefence
    view: str | None = None
    min_sites: int = 1

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], members: Membership) -> MeanProtocol:
        """Return the protocol for epsilon, low, high and what else users set."""
        require_settings(cls.name, settings, _SETTINGS)
        for name in ("epsilon", "low", "high"):
            if name not in settings:
                raise SettingError(f"mean needs the setting {name}; give --set {name}=…")
        min_sites = settings.get("min_sites", 1)
        if not isinstance(min_sites, int) or min_sites < 1:
            raise SettingError(f"min_sites must be at least 1, got {min_sites!r}")
        view = _chosen_view(settings.get("view"), members)
        return cls(members, _defence(settings), view, min_sites)

    @property
    def steps(self) -> tuple[Step[Any], ...]:
        """Release and gather."""
        gather = Step("gather", one_by_one(_gather), "coordinator")
        return (Step("release", one_by_one(_release)), gather)

    @property
    def _is_shared(self) -> bool:
        """Whether several sites release the mean of one view, of different individuals."""
        return self.view in self.members.shared_views

    @property
    def party_sites(self) -> Mapping[str, str]:
        """One party a site where they share the view, else one a view."""
        return super().party_sites if self._is_shared else self.members.view_sites

    @property
    def demands(self) -> Demands:
        """One noisy mean; of how many columns is the site's own affair."""
        return Demands(events=(self.defence.event(1),))

    def may_lack_sites(self, number: int) -> bool:
        """Every step goes on without a site that refuses."""
        return True

    def start_site(self, data: LocalData) -> dict[str, MeanSite]:
        """Return a party for each view of the site whose mean is asked for."""
        if self._is_shared:
            view = data.views.get(str(self.view))
            return {} if view is None else {data.site: MeanSite(data.site, view, self.defence)}
        return {
            name: MeanSite(name, view, self.defence)
            for name, view in data.views.items()
            if name in self.members.view_sites and self.view in (None, name)
        }

    def start_coordinator(self) -> MeanCoordinator:
        """Return a coordinator without means."""
        return MeanCoordinator(self.min_sites, self.defence)

    def state_of(self, party: MeanSite | MeanCoordinator) -> Any:
        if isinstance(party, MeanCoordinator):
            return (party.means, party.notes)
        return (party.view.name, party.released)

    def restore_party(self, name: str, state: Any, data: LocalData | None) -> Any:
        """Return the party with its released means."""
        if data is None:
            means, notes = state
            return replace(self.start_coordinator(), means=means, notes=notes)
        view, released = state
        return MeanSite(name, data.views[view], self.defence, released)

    def finish(self, party: MeanSite, data: LocalData) -> SiteResult:
        """Return the noisy mean as a CSV text, and its guarantee in words."""
        noisy_mean = party.released
        if noisy_mean is None:
            raise DataError(f"site {party.name!r} has not released a mean")
        columns = party.view.features, noisy_mean.mean.tolist(), noisy_mean.scale.tolist()
        lines = [f"{f.name},{mean!r},{scale!r}\n" for f, mean, scale in zip(*columns, strict=True)]
        texts = {
            f"{party.view.name}_mean.csv": "column,noisy_mean,noise\n" + "".join(lines),
            "guarantee.txt": f"{noisy_mean.guarantee}\n",
        }
        # No figures: an exact number of rows is not what the noise pays for.
        return SiteResult({}, texts)

    def summarise(self, coordinator: MeanCoordinator) -> dict[str, Any]:
        """Return each site's noisy mean, and their mean where they are of one view."""
        means, by_site = coordinator.means, {}
        for mean in means:
            by_site[mean.sender] = {
                "rows": mean.rows,
                "mean": mean.mean.tolist(),
                "noise": mean.noise,
                "scale": mean.scale.tolist(),
                "guarantee": str(mean.guarantee),
            }
        rows, overall = [max(mean.rows, 0) for mean in means], None
        if self._is_shared and len({len(mean.mean) for mean in means}) == 1 and sum(rows):
            values = np.stack([mean.mean for mean in means])
            overall = np.average(values, axis=0, weights=rows).tolist()
        return {"sites": by_site, "mean": overall, "notes": list(coordinator.notes)}


def _chosen_view(view: str | None, members: Membership) -> str | None:
    """Return the view whose mean is meant, or raise a `SettingError` where that is not clear."""
    known = (*members.shared_views, *members.view_sites)
    if view is not None and view not in known:
        raise SettingError(f"view must be one of {', '.join(known)}, got {view!r}")
    if view is None and len(members.shared_views) == len(known) == 1:
        return known[0]
    if view is None and members.shared_views:
        raise SettingError(f"mean needs the setting view, one of {', '.join(known)}")
    return view


def _defence(settings: Mapping[str, Any]) -> MeanDefence:
    bounds = [np.asarray(settings[end], dtype=float) for end in ("low", "high")]
    try:
        box = Box(*(float(b) if b.ndim == 0 else tuple(b.tolist()) for b in bounds))
        options = {n: settings[n] for n in ("delta", "noise", "neighbours") if n in settings}
        return MeanDefence(box, settings["epsilon"], **options)
    except (TypeError, ValueError) as error:
        if isinstance(error, SettingError):
            raise
        raise SettingError(
            "epsilon, delta, low and high of a mean must be numbers (low and high also one a "
            "column)"
        ) from None
