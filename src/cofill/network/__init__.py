"""The federation over a real network: kits, coordinator and sites on NVIDIA FLARE.

Names are imported when they are used, so that a command that only reads a kit does not wait for
the methods, the databases and the engine.
"""

from typing import TYPE_CHECKING

from cofill.lazy import lazy_names

if TYPE_CHECKING:
    from cofill.network._account import SiteAccount
    from cofill.network._config import FederationConfig, SiteConfig
    from cofill.network._kits import Kit, make_kits, pin_keys, renew_keys
    from cofill.network._local import LocalResult, run_local, write_local
    from cofill.network._order import RunOrder, new_run, schedule_of
    from cofill.network._policy import DEFAULT_POLICY, POLICY_FILE, SitePolicy
    from cofill.network._policy_check import Request, approve_order, explain_order
    from cofill.network._policy_signature import sign_policy
    from cofill.network._processes import serve
    from cofill.network._session import FederationError, Session, open_session
    from cofill.network._site_tables import read_people, read_site_views

__all__ = [
    "DEFAULT_POLICY",
    "POLICY_FILE",
    "FederationConfig",
    "FederationError",
    "Kit",
    "LocalResult",
    "Request",
    "RunOrder",
    "Session",
    "SiteAccount",
    "SiteConfig",
    "SitePolicy",
    "approve_order",
    "explain_order",
    "make_kits",
    "new_run",
    "open_session",
    "pin_keys",
    "read_people",
    "read_site_views",
    "renew_keys",
    "run_local",
    "schedule_of",
    "serve",
    "sign_policy",
    "write_local",
]

__getattr__, __dir__ = lazy_names(__name__)
