"""The protocol of deep clustering, split by row: changes of common weights leave a site.

After columns and a scaling: ``summarise → start networks → train apart → gather``, then the rounds
``train → average``, then ``assign → close``. Every individual's group stays at its site. Changes of
weights are each site's own, without a guarantee and not under masks: the coordinator needs to see
how every restart does at all sites before it drops some. A site's policy has to name their type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cofill.cluster._deep import deep_steps, restored_memory, stored_memory
from cofill.cluster._deep_settings import DeepSettings, DeepState
from cofill.cluster._parties import ClusterSite
from cofill.cluster._protocol import AbstractClustering
from cofill.protocol import Demands, Step


@dataclass(frozen=True, eq=False)
class DeepClusterProtocol(AbstractClustering):
    """Groups of all sites' individuals by a network that learns without labels.

    Views must be complete, and every site takes part in every round.

    Parameters
    ----------
    members
        Who takes part, and the views that they share.
    settings, scale, seed
        How networks are trained (see `DeepSettings`), how columns are scaled, and the start of all
        randomness.

    Examples
    --------
    >>> from cofill.protocol import Membership
    >>> members = Membership({"lab": ("scan",), "ward": ("scan",)}, ("scan",))
    >>> protocol = DeepClusterProtocol.from_settings({"k": 3, "rounds": 1}, members)
    >>> [step.name for step in protocol.steps][6:10]
    ['start networks', 'train apart', 'gather', 'train']
    """

    name: ClassVar[str] = "deep-cluster"
    settings_type: ClassVar[type] = DeepSettings
    settings: DeepSettings

    def group_steps(self) -> tuple[Step[Any], ...]:
        """Return initial weights, rounds, groups."""
        return deep_steps(self.settings)

    @property
    def demands(self) -> Demands:
        """Each site's own changes of weights, and sums of groups, without a guarantee."""
        settings = self.settings
        groups = {name: getattr(settings, name) for name in ("seed_group", "min_group", "batch")}
        return Demands(
            ("columns", "group-sums", "update"),
            groups=groups,
            rounds=settings.rounds,
            summed_sites=1,
            learning_rates={"learning_rate": settings.learning_rate},
        )

    def stored_memory(self, site: ClusterSite) -> Any:
        """Return restarts, shares and moments; what follows from the rows is made again."""
        return stored_memory(site)

    def restored_memory(self, site: ClusterSite, stored: Any) -> Any:
        """Return the memory of a site from what was stored of it."""
        return restored_memory(site, stored)

    def summarise(self, coordinator: Any) -> dict[str, Any]:
        """Return rounds and the loss of the restart that was chosen."""
        state = getattr(coordinator, "state", None)
        if not isinstance(state, DeepState):
            return {}
        loss = float(state.objective[0])
        return {
            "k": self.settings.k,
            "rounds": state.number,
            "objective": loss if np.isfinite(loss) else None,
        }
