"""What an auditor has beside the ledger: the owner's rows, and encoders trained on them anew.

Codes are not kept after a run. But training is the same for the same rows, settings and seed, so
the auditor, who has the rows, trains the encoders anew; the version in the ledger, a digest of the
encoder's weights, tells whether they are the very ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.audit._codes import CodeAuditSettings
from cofill.audit._rounds import RoundWatch
from cofill.audit._update import UpdateAuditSettings
from cofill.cooperate import CooperativeReconstruction, CooperativeSite, make_codes
from cofill.privacy import Ledger
from cofill.protocol import run_protocol
from cofill.views import MultiView, Scaler, View

__all__ = ["Evidence", "evidence_of"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What there is to attack releases with.

    Parameters
    ----------
    views
        Rows by the name of their view, empty where they were not found.
    sites
        Cooperating sites with their encoders, by the name of their view.
    missing
        By view, why its rows are not there.
    ledger
        What crossed a border when encoders were trained anew: for runs that kept no ledger.
    codes, updates
        How to attack.
    attribute
        A view and a column of it, to be inferred from other views' codes.
    rounds
        A federation's last rounds, from which updates can be made anew; None where nobody watched.
    """

    views: Mapping[str, View] = field(default_factory=dict)
    sites: Mapping[str, CooperativeSite] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    codes: CodeAuditSettings = field(default_factory=CodeAuditSettings)
    updates: UpdateAuditSettings = field(default_factory=lambda: UpdateAuditSettings(trials=5))
    attribute: tuple[str, str] | None = None
    rounds: RoundWatch | None = None

    def rows(self, view: str) -> Float[np.ndarray, "people width"]:
        """Return a view's rows as networks see them, NaN where a cell is not known."""
        if view in self.sites:
            return self.sites[view].encoded()
        own = self.views[view]
        return Scaler.fit(own).encode_view(own)[0]

    def encoded(self, view: str) -> Float[np.ndarray, "people width"]:
        """Return the codes of a view's rows as they leave the site, in the rows' order."""
        site = self.sites[view]
        return make_codes(site, np.arange(len(site.view)), "the auditor")[1].codes

    def version(self, view: str) -> str:
        """Return the digest of a view's encoder, as the ledger has it."""
        encoder = self.sites[view].encoder
        return "" if encoder is None else encoder.spec.version

    def why_not(self, name: str) -> str:
        """Return why a sender's rows cannot be attacked."""
        return self.missing.get(name, f"the rows of {name!r} were not given")


def evidence_of(
    views: Mapping[str, View],
    estimator: CooperativeReconstruction | None = None,
    *,
    missing: Mapping[str, str] | None = None,
    codes: CodeAuditSettings | None = None,
    updates: UpdateAuditSettings | None = None,
    attribute: tuple[str, str] | None = None,
) -> Evidence:
    """Return evidence from rows; encoders are trained as an estimator would.

    Parameters
    ----------
    views
        The owner's rows.
    estimator
        The settings with which sites cooperated; None where they did not.
    missing
        By view, why its rows are not there.
    codes, updates, attribute
        How to attack, and what else to infer.
    """
    given: dict[str, Any] = {
        name: value
        for name, value in (("codes", codes), ("updates", updates), ("attribute", attribute))
        if value is not None
    }
    plain = Evidence(views=dict(views), missing=dict(missing or {}), **given)
    if estimator is None or len(views) < 2 or not any(MultiView(views).overlaps().values()):
        return plain
    federation, protocol = estimator.start(MultiView(views)), estimator.protocol(views)
    # Up to the codes: links and masks are learned where codes arrive, and send nothing.
    run_protocol(protocol, [federation], until=protocol.learning.stop - 1)
    return Evidence(
        views=plain.views,
        sites=federation.sites,
        missing=plain.missing,
        ledger=federation.ledger,
        **given,
    )
