"""The protocol split by row: sites that hold other individuals train one model and complete them.

Columns and scales are agreed on (`_scales`), then come the rounds (a first one of pre-training for
models that have it), then every site takes the common model and completes its own individuals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Optional

from annotated_types import Ge, Gt

from cofill.completion import Completed
from cofill.errors import DataError
from cofill.federate._design import Design, RoundSettings, make_design
from cofill.federate._effort import ROUNDS, require_effort
from cofill.federate._local import LocalSettings
from cofill.federate._parties import Coordinator, RowSite, SurveyCoordinator, UnscaledSite
from cofill.federate._rounds import HANDING_OUT, round_steps
from cofill.federate._scales import encode_site, scaling_steps
from cofill.federate._secure import SUMMING
from cofill.privacy import GaussianEvent, Member, RunFigures, noise_for
from cofill.protocol import (
    COORDINATOR,
    AbstractProtocol,
    Demands,
    LocalData,
    Membership,
    SiteResult,
    Step,
    views_with_columns,
)
from cofill.settings import typed_settings, types_of

METHOD = "federated"  # name of the completion method in results

_TRAINING = ("epochs", "batch", "learning_rate")
_ROUNDS = (
    *("rounds", "participation", "min_sites", "pretrain", "secure", "site_noise", "robust"),
    *("bounds", "epsilon", "delta"),
)

# What a party gets again when it is restored: settings, rows and what follows from them.
_REMADE = (
    *("name", "names", "view_order", "views", "design", "rows", "held_out", "learner"),
    *("member", "secret"),
)
_MEMBER_REMADE = ("name", "coordinator", "identity", "known", "entropy", "run", "least")


@dataclass(frozen=True, eq=False)
class FederatedProtocol(AbstractProtocol):
    """Split by row: one model of all modalities, trained in rounds.

    Parameters
    ----------
    members
        Who takes part, and the views that they share.
    design
        The model and how it is trained.
    patience
        Seconds after which a round goes on without a site's answer; None for the step's limit.

    Examples
    --------
    >>> members = Membership({"lab": ("blood",), "ward": ("blood",)}, ("blood",))
    >>> protocol = FederatedProtocol.from_settings({"rounds": 1, "secure": False}, members)
    >>> [step.name for step in protocol.steps][4:]
    ['encode', 'invite', 'train', 'aggregate', 'hand out the model', 'take the model']
    """

    name: ClassVar[str] = "federate"
    tolerates_absence: ClassVar[bool] = True
    members: Membership
    design: Design
    patience: float | None = None  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        self.require_by_row(self.members)
        self.design.settings.require_sites(len(self.members.sites))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], members: Membership) -> FederatedProtocol:
        """Return the protocol for settings of plain types."""
        values = typed_settings(cls.name, _setting_types(), settings)
        return cls(members, _design_of(values, len(members.sites)), values.get("patience"))

    @cached_property  # a driver asks for the steps hundreds of times in every step
    def steps(self) -> tuple[Step[Any], ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Columns and scales, rounds, the common model."""
        settings, secure = self.design.settings, bool(self.design.settings.secure)
        first = round_steps(pretrain=True, secure=secure) if self.design.pretrains else ()
        rounds = round_steps(secure=secure) * settings.rounds
        return (*scaling_steps(secure=secure), *first, *rounds, *HANDING_OUT)

    @property
    def first_round(self) -> int:
        """The number of the first step of the first round."""
        return len(scaling_steps(secure=bool(self.design.settings.secure)))

    def ends_round(self, number: int) -> bool:
        """Return whether a step is the last one of a round."""
        return self.steps[number].name == "aggregate"

    def describe_progress(self, number: int) -> str:
        """Return in words what a step belongs to, for people who wait."""
        if number < self.first_round:
            return "agreeing on columns and scales"
        settings = self.design.settings
        round_length = len(round_steps(secure=bool(settings.secure)))
        current = (number - self.first_round) // round_length + (0 if self.design.pretrains else 1)
        if current > settings.rounds:
            return "handing out the model"
        return f"round {current} of {settings.rounds}" if current else "pre-training"

    @property
    def demands(self) -> Demands:
        """Summaries of columns, and updates: plain, under masks, or with a site's own noise."""
        settings, local = self.design.settings, self.design.local
        rates = [each.learning_rate for each in self.design.locals]
        # Whether rows are images, and people enough for sums, is known when columns are: what any
        # of these would take must be allowed.
        of_tables = " of tables too small or wide for sums" if self.design.from_sums else ""
        named = (f"learning_rate{of_tables}", "learning_rate of images")
        common: dict[str, Any] = {
            "rounds": settings.rounds,
            "learning_rates": dict(zip(named, rates, strict=True)),
        }
        # Under masks also the survey of columns is a sum, which carries no guarantee.
        summed = settings.fewest_summed(len(self.members.sites)) if settings.secure else None
        survey = ("columns", "masked-vector" if settings.secure else "column-summary")
        if settings.epsilon is not None:
            event = GaussianEvent(noise_for(settings.epsilon, settings.delta))
            return Demands(survey, events=(event,), summed_sites=summed)
        is_noisy = local.dp is not None and local.dp.noise_multiplier > 0
        if is_noisy or (settings.site_noise is not None and settings.secure):
            return Demands(survey, summed_sites=summed, **common)
        table, images = (each.batch for each in self.design.locals)
        common["groups"] = {f"batch{of_tables}": table}
        common["image_groups"] = {"batch of images": images}
        plain = survey if settings.secure else (*survey, "update")
        return Demands(plain, summed_sites=summed or 1, **common)

    def may_lack_sites(self, number: int) -> bool:
        """Return whether a step belongs to the rounds, comes after them, or is one of a sum."""
        return number >= self.first_round or self.steps[number] in SUMMING

    # --- parties ------------------------------------------------------------------------------

    def start_site(self, data: LocalData) -> dict[str, UnscaledSite]:
        """Return the site with those of its views that are shared."""
        views = {v: data.views[v] for v in self.members.shared_views if v in data.views}
        member = None
        if self.design.settings.secure:
            # Within one process sites have no identities, and there is nobody to pose as them.
            known = None if data.signing_key is None else dict(data.known_keys)
            member = Member(data.site, COORDINATOR, data.signing_key, known, run=data.run)
            member = replace(member, least=data.least_summed)
        return {data.site: UnscaledSite(data.site, views, self.design, member)}

    def start_coordinator(self) -> SurveyCoordinator:
        """Return a coordinator that knows nobody's columns."""
        names, views = self.members.sites, self.members.shared_views
        return SurveyCoordinator(names=names, invited=names, view_order=views, design=self.design)

    def state_of(self, party: Any) -> dict[str, Any]:
        """Return a party's stage and what it has learned."""
        state = {f.name: getattr(party, f.name) for f in fields(party) if f.name not in _REMADE}
        if isinstance(party, Coordinator):
            state["shape"] = party.learner.shape
        if isinstance(party, RowSite):
            state["people"] = party.learner.shape.people
        member = getattr(party, "member", None)
        if member is not None:
            names = (f.name for f in fields(member) if f.name not in _MEMBER_REMADE)
            state["member"] = {name: getattr(member, name) for name in names}
        return {"stage": type(party).__name__, **state}

    def restore_party(self, name: str, state: Any, data: LocalData | None) -> Any:
        """Return the party with a state; its rows are encoded once more."""
        state = dict(state)
        stage = state.pop("stage")
        if data is None:
            start = self.start_coordinator()
            if stage == SurveyCoordinator.__name__:
                return replace(start, **state)
            learner = self.design.make_learner(state.pop("shape"))
            return Coordinator(names=start.names, learner=learner, design=self.design, **state)
        site = self.start_site(data)[name]
        if site.member is not None:
            site = replace(site, member=replace(site.member, **state.pop("member")))
        if stage == UnscaledSite.__name__:
            return replace(site, **state)
        site = replace(site, columns=state["columns"], people=state.pop("people"))
        row_site = encode_site(site, state["scalers"])
        return replace(row_site, **state)

    # --- the end ------------------------------------------------------------------------------

    def finish(self, party: Any, data: LocalData) -> SiteResult:
        """Return the site's completed tables, its notes, and how many cells were completed."""
        if not isinstance(party, RowSite) or party.columns is None or party.weights is None:
            raise DataError(f"site {party.name!r} has not been handed the common model")
        views = views_with_columns(data.views, party.columns)
        cells = {} if views.is_complete else party.complete(party.weights, views)
        completed = Completed.merge(views, cells, method=METHOD, notes=party.notes)
        names = ("observed_rows", "reconstructed_rows", "reconstructed_cells", "missing_cells")
        counts = [completed.counts(view) for view in views]
        figures = RunFigures(
            sender=party.name,
            receiver=COORDINATOR,
            rows=views.n_individuals,
            figures={name: sum(int(count[name]) for count in counts) for name in names},
        )
        tables: dict[str, Any] = {view: completed.filled(view) for view in views}
        tables |= {f"{view}_origin": completed.origin_table(view) for view in views}
        texts = {"notes.txt": "".join(f"{note}\n" for note in party.notes)}
        return SiteResult(tables, texts, figures)

    def summarise(self, coordinator: Any) -> dict[str, Any]:
        """Return how many rounds there were, the model's size, the curve and the notes."""
        if not isinstance(coordinator, Coordinator):
            return {}
        return {
            "rounds": coordinator.round - 1,
            "weights": len(coordinator.weights),
            "curve": [dict(entry) for entry in coordinator.curve],
            "notes": list(coordinator.notes),
        }


def _setting_types() -> dict[str, Any]:
    """Return the types of an order's settings; None stands for what suits the model."""
    local, rounds = types_of(LocalSettings), types_of(RoundSettings)
    return {
        **{name: local[name] | None for name in _TRAINING},
        **{name: rounds[name] for name in _ROUNDS},
        "effort": str,
        "local": Mapping[str, Any],
        "model": str,
        "network": Mapping[str, Any] | None,
        "patience": Optional[Annotated[float, Gt(0)]],  # noqa: UP045
        "seed": Annotated[int, Ge(0)],
        "strategy": str | Mapping[str, Any],
    }


def _design_of(settings: Mapping[str, Any], sites: int) -> Design:
    """Return the design that an order's settings describe."""
    effort = settings.get("effort", "quick")  # every site must be able to follow
    require_effort(effort)
    rounds: dict[str, Any] = {"rounds": ROUNDS[effort]}
    rounds |= {name: settings[name] for name in _ROUNDS if name in settings}
    return make_design(
        settings.get("model", "best"),
        settings.get("strategy", "fedavg"),
        RoundSettings(**rounds),
        sites,
        effort=effort,
        training={name: settings.get(name) for name in _TRAINING},
        network=settings.get("network"),
        local=typed_settings("federate: local", LocalSettings, settings.get("local", {})),
        seed=settings.get("seed", 0),
    )
