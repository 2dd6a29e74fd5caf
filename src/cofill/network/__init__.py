"""The federation over a real network: kits, coordinator and sites on NVIDIA FLARE."""

from cofill.network._config import FederationConfig, SiteConfig
from cofill.network._kits import Kit, make_kits
from cofill.network._order import RunOrder, new_run

__all__ = ["FederationConfig", "Kit", "RunOrder", "SiteConfig", "make_kits", "new_run"]
