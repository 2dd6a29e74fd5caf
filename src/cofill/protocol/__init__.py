"""How sites work together: the protocol object, its steps, and the driver for one process."""

from cofill.protocol._checkpoint import Checkpoint, digest_views
from cofill.protocol._columns import (
    DESCRIBE_COLUMNS,
    agree_on_columns,
    agreed_columns,
    pool_moments,
    usable_scale,
    views_with_columns,
)
from cofill.protocol._demands import Demands
from cofill.protocol._driver import Federation, check_sender, run_protocol, run_steps
from cofill.protocol._folders import FederationFolder, PartyFolder, RunFolder
from cofill.protocol._protocol import (
    COORDINATOR,
    PROTOCOLS,
    AbstractProtocol,
    Inbox,
    LocalData,
    Membership,
    Outbox,
    SiteResult,
    Step,
    first_of_type,
    one_by_one,
)
from cofill.protocol._survey import (
    FEWEST_ROWS,
    MOST_ROWS,
    Bounds,
    Pooled,
    Survey,
    range_of,
    require_bounded,
    require_possible,
)

__all__ = [
    "COORDINATOR",
    "DESCRIBE_COLUMNS",
    "FEWEST_ROWS",
    "MOST_ROWS",
    "PROTOCOLS",
    "AbstractProtocol",
    "Bounds",
    "Checkpoint",
    "Demands",
    "Federation",
    "FederationFolder",
    "Inbox",
    "LocalData",
    "Membership",
    "Outbox",
    "PartyFolder",
    "Pooled",
    "RunFolder",
    "SiteResult",
    "Step",
    "Survey",
    "agree_on_columns",
    "agreed_columns",
    "check_sender",
    "digest_views",
    "first_of_type",
    "one_by_one",
    "pool_moments",
    "range_of",
    "require_bounded",
    "require_possible",
    "run_protocol",
    "run_steps",
    "usable_scale",
    "views_with_columns",
]
