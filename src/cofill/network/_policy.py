"""A site's policy: what may leave it, whoever asks, in one file that its operator writes.

An order can ask for less than the policy allows, never for more. The policy is `policy.toml` in the
folder of `site.toml`, as its operator has signed it (`_policy_signature.py`); where there is none,
`DEFAULT_POLICY` is in force. `_policy_check.py`
compares an order with it before anything of the order is acted on; the gate compares every release.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictStr
from pydantic.dataclasses import dataclass

from cofill.errors import SettingError
from cofill.network._fields import STRICT, must_be, read_toml, validate, whole
from cofill.privacy import Allowance, Budget, Neighbours, Unit, release_types
from cofill.protocol import PROTOCOLS

POLICY_FILE = "policy.toml"

DEFAULT_POLICY = """\
# What may leave this site. An order can ask for less than this file allows, never for more.
# Remove what you do not allow. What this file does not mention is as it is here.

smallest_group = 10        # fewest people of whom anything may be told or learned together
participants = 3           # fewest sites in a sum that is opened without noise
secure_sums = true         # sums over sites leave under masks, unless they carry noise
rounds = 200               # most rounds in which a run may ask about the same rows
message_megabytes = 256    # largest message, sent or received
code_share = 0.5           # widest code, as a share of the columns; codes leave only if
                           # [without_guarantee.codes] is below
keyed_hashes = false       # true: other sites may test whether a person whose id they know is here

[training]                 # of networks whose results leave: untrained ones can be read backwards
learning_rate = [1e-5, 0.1]
epochs = 5

[budget]                   # differential privacy: what all runs together may cost a person
epsilon = 2.0
per_run = 1.0
delta = 1e-5

# Types of releases that may leave without a guarantee of differential privacy. Every other one
# needs noise that is paid for above. `people` are the fewest that one figure of it may tell of
# (smallest_group unless stated), `most` is how many leave in all runs together, `to` names the
# sites, or the coordinator, that may have them.
#
# With codes (cooperate), add these three, and read what an audit finds in them:
#   [without_guarantee.codes]
#   people = 1
#   [without_guarantee.encrypted-ids]
#   people = 1
#   [without_guarantee.blinded-ids]
#   people = 1
# With common models (federate): column-summary, and update or, for secure sums, masked-vector.
# On shares (private), where other sites hold the same view: masked-vector, and participants at most
# as many as these sites are.
# With groups (cluster) that have no noise: group-sums. Two rounds that differ in one member tell
# that member's row, whatever the size of the group. With deep-cluster: group-sums and update.

[without_guarantee.columns]           # names of columns, and categories that enough people have
[without_guarantee.figures]           # counts and scores of a report
[without_guarantee.chosen-penalties]  # on shares: how strongly a column's regression was held back
[without_guarantee.row-flags]         # on shares: which of the shuffled, unnamed points have a row
people = 1

# Experiments that this site takes part in, if any table is here only those.
# `people` may order it (anybody who may submit, if empty), `runs` in so many `days`, not after
# `until` (a date), each after `cofill site approve RUN` where `approval` is true. `columns` are
# those that take part, by view; all unless stated.

[experiments.private]
[experiments.mean]
[experiments.federate]
[experiments.cluster]
[experiments.deep-cluster]
[experiments.cooperate]
# people = ["ada@clinic.example"]
# runs = 20
# days = 30
# until = 2030-12-31
# approval = true
# columns = {blood = ["age", "ferritin"]}
#
# `informs` of private: by own view and other view, the columns that may inform it. All columns may
# inform views that are not named, none where the list is empty.
# informs = {blood = {claims = ["age"], shop = []}}
"""


def _is_range(ends: tuple[float, ...]) -> bool:
    return len(ends) == 2 and 0 < ends[0] <= ends[1]


def _number(least: float, most: float) -> Any:
    phrase = f"a number above {least:g} and at most {most:g}"
    return Annotated[float, Field(gt=least, le=most, strict=False), must_be(phrase)]


_Flag = Annotated[StrictBool, must_be("true or false")]
_ReleaseType = Annotated[
    StrictStr, must_be("a type of release", lambda kind: kind in release_types())
]
_Experiment = Annotated[
    StrictStr, must_be(f"one of {', '.join(PROTOCOLS.names)}", lambda name: name in PROTOCOLS.names)
]
_Texts = Annotated[tuple[StrictStr, ...], must_be("a list of texts")]


@dataclass(frozen=True, config=STRICT)
class ExperimentRule:
    """Who may order an experiment, how often, until when, on what, and whether a person is asked.

    At most ``runs`` in any ``days`` days. ``columns`` are those that take part, by view; all of a
    view that is not in it. ``informs`` are, by own and by other view, those that may inform it.
    """

    people: _Texts = ()
    runs: whole(1, 1_000_000) = 20  # pyright: ignore[reportInvalidTypeForm]
    days: whole(1, 10_000) = 30  # pyright: ignore[reportInvalidTypeForm]
    until: Annotated[date | None, must_be("a date such as 2030-12-31")] = None
    approval: _Flag = False
    columns: Mapping[str, _Texts] = field(default_factory=dict)
    informs: Mapping[str, Mapping[str, _Texts]] = field(default_factory=dict)


@dataclass(frozen=True, config=STRICT)
class PlainRule:
    """Releases of a type that may leave without a guarantee; see `cofill.privacy.Allowance`.

    ``people`` is the policy's smallest group where it is None.
    """

    people: Annotated[int | None, Field(strict=True, ge=1), must_be("a whole number above 0")] = (
        None
    )
    most: Annotated[int | None, Field(strict=True, ge=1), must_be("a whole number above 0")] = None
    to: _Texts = ()


@dataclass(frozen=True, config=STRICT)
class Spending:
    """What releases with a guarantee may cost a person, over all runs and in one run."""

    epsilon: _number(0, 1000) = 2.0  # pyright: ignore[reportInvalidTypeForm]
    per_run: _number(0, 1000) = 1.0  # pyright: ignore[reportInvalidTypeForm]
    delta: _number(0, 0.01) = 1e-5  # pyright: ignore[reportInvalidTypeForm]
    neighbours: Annotated[Neighbours, must_be("'replace one' or 'add or remove one'")] = (
        "replace one"
    )
    unit: Annotated[Unit, must_be("'record' or 'site'")] = "record"


@dataclass(frozen=True, config=STRICT)
class TrainingBounds:
    """How a network whose results leave must be trained.

    With a tiny rate or hardly an epoch it stays as it was made: then a code is a known linear map
    of a row.
    """

    learning_rate: Annotated[
        tuple[float, ...], must_be("two numbers above 0, the smaller first", _is_range)
    ] = (1e-5, 0.1)
    epochs: whole(1, 100_000) = 5  # pyright: ignore[reportInvalidTypeForm]


def _default_plain() -> dict[str, PlainRule]:
    kinds = ("columns", "figures", "chosen-penalties")
    return {**{kind: PlainRule() for kind in kinds}, "row-flags": PlainRule(people=1)}


@dataclass(frozen=True, config=STRICT)
class SitePolicy:
    """What a site allows; `DEFAULT_POLICY` explains every key."""

    smallest_group: whole(1, 1_000_000) = 10  # pyright: ignore[reportInvalidTypeForm]
    participants: whole(1, 10_000) = 3  # pyright: ignore[reportInvalidTypeForm]
    secure_sums: _Flag = True
    rounds: whole(1, 1_000_000) = 200  # pyright: ignore[reportInvalidTypeForm]
    message_megabytes: whole(1, 2000) = 256  # pyright: ignore[reportInvalidTypeForm]
    code_share: _number(0, math.inf) = 0.5  # pyright: ignore[reportInvalidTypeForm]
    keyed_hashes: _Flag = False
    training: TrainingBounds = field(default_factory=TrainingBounds)
    budget: Spending = field(default_factory=Spending)
    without_guarantee: Mapping[_ReleaseType, PlainRule] = field(default_factory=_default_plain)
    experiments: Mapping[_Experiment, ExperimentRule] = field(
        default_factory=lambda: {name: ExperimentRule() for name in PROTOCOLS.names}
    )

    @classmethod
    def read(cls, path: Path, content: bytes | None = None) -> SitePolicy:
        """Read `policy.toml`, or its content where it was read, or raise a `SettingError`."""
        policy = validate(cls, read_toml(path, content), str(path))
        for name, rule in policy.experiments.items():
            if rule.informs and name != "private":
                raise SettingError(
                    f"{path}: experiments.{name}.informs must be left out: only private can keep "
                    "to it"
                )
        budget = policy.budget
        if budget.per_run > budget.epsilon:
            raise SettingError(
                f"{path}: budget.per_run must be at most budget.epsilon ({budget.epsilon:g}), got "
                f"{budget.per_run:g}"
            )
        return policy

    @property
    def digest(self) -> str:
        """A short hash by which an operator knows again which policy was in force."""
        content = json.dumps(asdict(self), sort_keys=True, default=str)
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()

    @property
    def message_bytes(self) -> int:
        """The largest message."""
        return self.message_megabytes * 2**20

    @property
    def spending(self) -> Budget:
        """What the site's gate keeps to."""
        limits = self.budget
        return Budget(
            limits.epsilon,
            limits.delta,
            limits.neighbours,
            limits.unit,
            only_guaranteed=True,
            per_run=limits.per_run,
            allowances={
                kind: Allowance(rule.people or self.smallest_group, rule.most, rule.to)
                for kind, rule in self.without_guarantee.items()
            },
        )
