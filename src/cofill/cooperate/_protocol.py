"""Cooperation as one protocol object, driven in a process and over a network alike (paper CRS)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from cofill.cooperate._align import AGREE, INTERSECT, OFFER, new_psi_state
from cofill.cooperate._completion import (
    apply_policy,
    completed_views,
    decode_rows,
    feature_r2,
    reconstructed_rows,
    unreconstructable,
)
from cofill.cooperate._encode import ANNOUNCE, ENCODE, SEND_CODES
from cofill.cooperate._learn import LEARN
from cofill.cooperate._needs import NARROW, SEND_PILOT, STATE_NEEDS
from cofill.cooperate._policy import CompletionPolicy
from cofill.cooperate._predict import ANSWER, ASK, COMPLETE
from cofill.cooperate._settings import CooperativeSettings
from cofill.cooperate._site import CooperativeSite
from cofill.errors import SettingError, StoreError
from cofill.privacy import RunFigures, blind, require_one_of, rows_of
from cofill.protocol import (
    COORDINATOR,
    AbstractProtocol,
    Demands,
    LocalData,
    Membership,
    SiteResult,
    Step,
)
from cofill.settings import typed_settings, types_of
from cofill.views import MultiView, View, to_table

# Read from the site's own files, or made from the order, when a run goes on.
_NOT_IN_STATE = ("name", "view", "settings", "people")


@dataclass(frozen=True, kw_only=True)
class CooperativeProtocol(AbstractProtocol):
    """Split by view: each site reconstructs the rows it lacks from codes of its peers.

    The sites agree on a secret and, if asked to, find their common individuals; each trains its
    encoder, sends codes and learns links (`learning`); then each asks for codes of the individuals
    it lacks and completes them (`asking`).

    Parameters
    ----------
    members, settings, policy
        The site of each view (a party is a view), what all sites do alike, and what a site does
        with features that cannot be reconstructed.
    seed, alignment
        Start of the randomness in training, and ``"psi"`` (private set intersection, then blinded
        ids) or ``"hash"`` (blinded ids alone, which let every site test whether a person is at
        another one: for sites in one process).
    is_local, is_reproducible
        Whether the encoders' first weights follow from the seed, for repeatable results in one
        process, and whether secrets do as well, for tests. Between organisations neither may:
        whoever knows the seed could know the encoder, or name tokens. Noise on codes never does.
    """

    name = "cooperate"
    splits_by_view = True

    members: Membership
    settings: CooperativeSettings = CooperativeSettings()
    policy: CompletionPolicy = CompletionPolicy()
    seed: int = 0
    alignment: str = "psi"
    is_local: bool = False
    is_reproducible: bool = False

    def __post_init__(self) -> None:
        if not self.members.is_by_view:
            raise SettingError(
                "cooperate needs sites that hold a view of their own each, and federation.toml "
                "has sites with none; run federate, cluster or mean"
            )
        require_one_of("alignment", self.alignment, ("hash", "psi"))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], members: Membership) -> CooperativeProtocol:
        """Return the protocol with parameters of `CooperativeReconstruction`, and `alignment`."""
        shared, local = types_of(CooperativeSettings), types_of(CompletionPolicy)
        types = {**shared, **local, "seed": int, "alignment": str}
        # None stands for a default: of what an estimator was not told.
        stated = {k: v for k, v in settings.items() if v is not None or k not in types}
        values = typed_settings(cls.name, types, stated)
        return cls(
            members=members,
            settings=CooperativeSettings(**{k: v for k, v in values.items() if k in shared}),
            policy=CompletionPolicy(**{k: v for k, v in values.items() if k in local}),
            **{k: values[k] for k in ("seed", "alignment") if k in values},
        )

    @property
    def steps(self) -> tuple[Step[Any], ...]:
        """The steps of agreement, learning and asking."""
        return (*self._agreement, *self._learning, ANNOUNCE, ASK, ANSWER, COMPLETE)

    @property
    def _agreement(self) -> tuple[Step[CooperativeSite], ...]:
        return (OFFER, AGREE, *(INTERSECT if self.alignment == "psi" else ()))

    @property
    def _learning(self) -> tuple[Step[CooperativeSite], ...]:
        pilot = (SEND_PILOT, STATE_NEEDS, NARROW) if self.settings.defence.pilot else ()
        return (ENCODE, ANNOUNCE, *pilot, SEND_CODES, LEARN)

    @property
    def learning(self) -> range:
        """Numbers of the steps from training encoders to training links."""
        start = len(self._agreement)
        return range(start, start + len(self._learning))

    @property
    def asking(self) -> range:
        """Numbers of the steps from announcing individuals to completing rows."""
        return range(self.learning.stop, len(self.steps))

    @property
    def party_sites(self) -> Mapping[str, str]:
        """The site of each view."""
        return self.members.view_sites

    @property
    def demands(self) -> Demands:
        """Ids under a secret of all sites, and codes of people, by an encoder of the settings."""
        settings, training = self.settings, self.settings.encoder_training
        is_hashed, width = self.alignment == "hash", self.settings.defence.width
        pilot = ("needs",) if settings.defence.pilot else ()
        ids = ("blinded-ids",) if is_hashed else ("blinded-ids", "encrypted-ids")
        # A pilot is sent at the usual width: as many numbers as columns, but at least four.
        share = width if isinstance(width, float) and not pilot else None
        if share is None and settings.architecture is None and not settings.is_faithful:
            share = 1.0 if width is None else None
        return Demands(
            (*ids, "codes", *pilot),
            groups={"min_overlap": settings.min_overlap},
            code_share=math.inf if share is None else share,
            shows_keyed_hashes=is_hashed,
            learning_rates={"encoder_training.learning_rate": training.learning_rate},
            epochs={"encoder_training.epochs": training.epochs},
        )

    def start_site(self, data: LocalData) -> dict[str, CooperativeSite]:
        """Return a party for each view that the site holds."""
        views = self.members.view_sites
        return {name: self._start_party(name, data) for name in data.views if name in views}

    def _start_party(self, name: str, data: LocalData) -> CooperativeSite:
        secret, encoder_key = os.urandom(32), os.urandom(32)
        if self.is_local or self.is_reproducible:
            encoder_key = b""
        if self.is_reproducible:
            secret = np.random.default_rng([self.seed, 0x5EC]).bytes(32)
        return CooperativeSite(
            name=name,
            view=data.views[name],
            settings=self.settings,
            seed=self.seed,
            secret=secret,
            peers=tuple(view for view in self.members.view_sites if view != name),
            people=data.people,
            psi=new_psi_state() if self.alignment == "psi" else None,
            encoder_key=encoder_key,
        )

    def audit_keys(self, party: CooperativeSite) -> dict[str, bytes]:
        """Return the secret that blinds the party's ids."""
        return {party.name: party.secret}

    def state_of(self, party: CooperativeSite) -> dict[str, Any]:
        """Return what a party has learned and received, without the rows it can read again."""
        stored = [f.name for f in fields(party) if f.name not in _NOT_IN_STATE]
        return {name: getattr(party, name) for name in stored}

    def restore_party(self, name: str, state: Any, data: LocalData | None) -> CooperativeSite:
        """Return the party of a view with a state."""
        view = None if data is None else data.views.get(name)
        if data is None or view is None:
            raise StoreError(f"view {name!r} is not at this site any more; start a new run")
        return CooperativeSite(
            name=name, view=view, settings=self.settings, people=data.people, **state
        )

    def finish(self, party: CooperativeSite, data: LocalData) -> SiteResult:
        """Return the completed view, the origin of its cells, and rows that the site cannot name.

        People on the site's list are completed beside those of its view. Rows of individuals whom
        it cannot name have a token for an id.
        """
        name, view, policy = party.name, party.view, self.policy
        views = [view]
        if data.people is not None and len(data.people):
            # A second view only makes these people known by their ids.
            views.append(View(f"people of {name}", data.people, np.zeros((len(data.people), 1))))
        source = MultiView(views)
        tokens, rows = blind(source.ids, party.secret), reconstructed_rows(party)
        done = completed_views(source, tokens, {name: party}, {name: rows}, policy, "cooperative")
        tables: dict[str, Any] = {name: done.filled(name)}
        tables[f"{name}_origin"] = done.origin_table(name)
        unnamed = rows.tokens[rows_of(tokens, rows.tokens) < 0]
        if len(unnamed):
            cells = apply_policy(party, decode_rows(party, rows, unnamed), policy)
            unnamed_view = View(name, unnamed.astype(str), cells, view.features, id_name="token")
            tables[f"{name}_unnamed"] = to_table(unnamed_view)
        counts = done.counts(name)
        figures = {
            **{key: int(count) for key, count in counts.items()},
            "unnamed_rows": len(unnamed),
            "reconstructable_features": int((~unreconstructable(party, policy)).sum()),
            "links": len(party.model.links),
            "mean_r2": float(np.mean(np.clip(feature_r2(party), 0.0, 1.0))),
        }
        notes = "".join(f"{note}\n" for note in done.notes)
        rows_shown = counts["observed_rows"]
        summary = RunFigures(sender=name, receiver=COORDINATOR, rows=rows_shown, figures=figures)
        return SiteResult(tables, {f"{name}_notes.txt": notes}, summary)
