"""The attack from files to files: records and what was released in, guesses out, judged if asked.

When the truth is given, two things are told apart. Guessing right about people whose record went
into the mean is a leak about individuals; guessing right about people who did not contribute is
inference about a population, which no noise on the mean can take back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from sklearn.base import clone

from cofill.attack._base import AbstractCalibratedAttack, AbstractMeanAttack, AttackFailed
from cofill.attack._files import (
    MeanFile,
    flag_column,
    mean_columns,
    read_means,
    text_column,
    write_guesses,
)
from cofill.attack._floor import judge_guesses
from cofill.attack._groups import stack_groups
from cofill.attack._inputs import Noise, check_prior
from cofill.attack._multinomial import REST
from cofill.attack._registry import MEAN_ATTACKS, make_class_attack, make_mean_attack
from cofill.attack._selftraining import SelfTraining
from cofill.completion import read_records
from cofill.errors import DataError, SettingError
from cofill.views import is_writable


@dataclass(frozen=True)
class MeanAttackJob:
    """What to attack.

    Parameters
    ----------
    records
        A CSV or Parquet file or a database source with one row per individual.
    mean
        JSON file: ``{"mean": {column: value, …}}``, optionally with ``"noise"`` and ``"prior"``, or
        just ``{column: value, …}``; for several classes ``{"means": {class: {column: value, …}, …},
        "priors": {class: share, …}}``. ``"sum"`` and ``"count"`` (``"sums"``, ``"counts"``) may
        stand for mean and share, and a column of categories has ``{category: share, …}``. With
        ``"by": column`` means are of one class in each group that the column names, with
        ``"overlapping": true`` of classes that share people.
    out
        File for the guesses, .csv or .parquet.
    prior, priors
        Share of positives (the mean's file may have it, and it is estimated where neither has), and
        shares to attack with besides, to see what a wrong one does.
    noise
        As ``"laplace:0.04"``; the mean's file may have it.
    id
        Column to name individuals by; rows are numbered without it.
    truth, positive
        Column with the true class, and which of its values is the positive one; for the judge
        only. With the means of several classes the column holds their names.
    contributed
        Column that says whose record went into the mean.
    method, seed
        A name in `MEAN_ATTACKS`, and the attack's randomness.
    overwrite
        Whether `out` may be replaced.
    """

    records: str
    mean: str
    out: str
    prior: float | None = None
    priors: tuple[float, ...] = ()
    noise: str | None = None
    id: str | None = None
    truth: str | None = None
    positive: str = "1"
    contributed: str | None = None
    method: str = "best"
    seed: int = 0
    overwrite: bool = False


Attacked: TypeAlias = tuple[dict[str, Any], dict[str, pa.Array]]
"""What is told of an attack, and the columns of its guesses."""


@dataclass(frozen=True, eq=False)
class _Case:
    """What was released, and the records that it is attacked with."""

    job: MeanAttackJob
    released: MeanFile
    noise: Noise | None
    table: pa.Table
    records: np.ndarray

    @property
    def shares(self) -> dict[str, float]:
        """The share of each class among the records, where the file tells it."""
        return self.released.shares(dict.fromkeys(self.released.means, len(self.records)))


def run_mean_attack(job: MeanAttackJob) -> dict[str, Any]:
    """Run a job; nothing is written unless all of it went well.

    Returns everything but the guesses: counts, settings, what the attack expects of itself, notes
    and, with the truth, accuracies with 95 % intervals beside floor and ceiling.
    """
    MEAN_ATTACKS.find(job.method)
    out = Path(job.out)
    if not is_writable(out):
        raise SettingError(f"--out must be a .csv or .parquet file, got {job.out!r}")
    if out.exists() and not job.overwrite:
        raise SettingError(f"{out} exists already and is left as it is; give --overwrite")
    released = read_means(Path(job.mean))
    noise_text = job.noise or released.noise
    noise = None if noise_text is None else Noise.parse(noise_text)
    table, name = read_records(job.records, job.id)
    job = replace(job, id=job.id or name)
    used = list(dict.fromkeys(column for column, _ in released.columns))
    grouping = [] if released.by is None else [released.by]
    _require_columns(job, table, [*used, *grouping])
    records = mean_columns(table, released.columns, job.records)
    attack = _attack_one
    if "" not in released.means and released.by is None:
        attack = _attack_overlapping if released.is_overlapping else _attack_classes
    about, guesses = attack(_Case(job, released, noise, table, records))
    facts: dict[str, Any] = {
        "method": job.method,
        "records": len(records),
        "features": len(released.columns),
        "noise": None if noise is None else str(noise),
        **about,
    }
    named = [c for c in (job.id, job.truth, job.contributed, released.by) if c is not None]
    ignored = len(table.column_names) - len({*used, *named})
    if ignored:
        facts["notes"].append(f"{ignored} columns of the records are not in the mean and not used")
    ids = table.column(job.id) if job.id else pa.array(np.arange(1, len(records) + 1))
    write_guesses(pa.table({job.id or "row": ids, **guesses}), out)
    return facts


def sensitivity(
    records: Any,
    mean: Any,
    priors: Sequence[float | int],
    *,
    noise: Noise | None = None,
    attack: AbstractMeanAttack | None = None,
    truth: Any = None,
) -> pa.Table:
    """Attack once for each assumed share of positives.

    Parameters
    ----------
    records, mean, noise
        As for the attack's `fit`.
    priors
        Assumed shares.
    attack
        The attack; `SelfTraining` if left out. It is not changed.
    truth
        Who is positive, to have accuracies.

    Returns
    -------
    pyarrow.Table
        A row for each share: ``prior``, ``guessed`` (share of records taken for positive),
        ``expected_accuracy``, ``accuracy`` (null without truth) and
        ``outcome``. An attack that fails has ``"failed"`` as outcome and nulls.

    Examples
    --------
    >>> from cofill.attack import Discriminant
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(400) < 120
    >>> records = rng.normal(size=(400, 3)) + 3 * truth[:, None]
    >>> released = {"mean": records[truth].mean(axis=0), "attack": Discriminant(), "truth": truth}
    >>> table = sensitivity(records, priors=[0.1, 0.3], **released)
    >>> table.column_names
    ['prior', 'guessed', 'expected_accuracy', 'accuracy', 'outcome']
    >>> wrong, right = table["accuracy"].to_pylist()
    >>> wrong < right
    True
    """
    if not len(priors):
        raise SettingError("at least one share must be given, got none")
    known = None
    if truth is not None:
        known = np.asarray(truth)
        if known.dtype != bool or known.shape != (np.shape(records)[0],):
            raise DataError(
                "truth must be one truth value for each record, got the shape "
                f"{known.shape} of {known.dtype}"
            )
    rows = []
    for share in [check_prior(prior) for prior in priors]:
        trial: Any = clone(attack or SelfTraining())
        row: dict[str, Any] = {"prior": share, "outcome": "failed"}
        try:
            trial.fit(records, mean=mean, prior=share, noise=noise)
        except AttackFailed:
            rows.append(row)
            continue
        row |= {"outcome": trial.outcome_, "guessed": float(trial.labels_.mean())}
        if isinstance(trial, AbstractCalibratedAttack):
            row["expected_accuracy"] = trial.expected_accuracy_
        if known is not None:
            row["accuracy"] = float((trial.labels_ == known).mean())
        rows.append(row)
    numbers = ("prior", "guessed", "expected_accuracy", "accuracy")
    schema = pa.schema([*((name, pa.float64()) for name in numbers), ("outcome", pa.string())])
    return pa.Table.from_pylist(rows, schema=schema)


def _group_target(case: _Case) -> tuple[np.ndarray, np.ndarray, float]:
    """Return records, mean and share of the joint attack on one class's means in known groups."""
    job, released = case.job, case.released
    groups = text_column(case.table, released.by or "", job.records)
    sizes = {name: int((groups == name).sum()) for name in released.means}
    empty = [name for name, size in sizes.items() if not size]
    if empty:
        raise DataError(
            f"{job.mean} has a mean for {empty[0]!r}, which no record has in column "
            f"{released.by!r}; leave it out"
        )
    if not (released.counts or released.priors):
        raise SettingError(f"{job.mean} must hold counts or priors of the class in each group")
    means = {name: released.values(name) for name in released.means}
    stacked, mean = stack_groups(case.records, groups, means, released.shares(sizes))
    return stacked, mean.mean, mean.prior


def _attack_one(case: _Case) -> Attacked:
    """Attack one class's mean; floor and ceiling are those of the records as they are."""
    job, noise = case.job, case.noise
    if "" in case.released.means:
        attacked, mean, share = case.records, case.released.values(""), case.shares.get("")
    else:
        attacked, mean, share = _group_target(case)
    prior = job.prior if job.prior is not None else share
    attack = make_mean_attack(job.method, seed=job.seed)
    truth = None if job.truth is None else _truth(job, case.table)
    attack.fit(attacked, mean=mean, prior=prior, noise=noise)
    interval = attack.prior_interval_
    facts: dict[str, Any] = {
        "prior": round(attack.prior_, 4),
        "prior_interval_95": None if interval is None else [round(end, 4) for end in interval],
        "guessed_positive": int(attack.labels_.sum()),
        "expected_accuracy": _expected(attack),
        "outcome": attack.outcome_,
        "notes": list(attack.notes_),
    }
    if job.priors:
        trial = make_mean_attack(job.method, seed=job.seed)
        tried = sensitivity(attacked, mean, job.priors, noise=noise, attack=trial, truth=truth)
        facts["sensitivity"] = tried.to_pylist()
    if truth is not None:
        facts["judged"] = _judge(case, truth, attack.labels_)
    return facts, {"guess": pa.array(attack.labels_), "probability": pa.array(attack.scores_)}


def _expected(attack: AbstractMeanAttack) -> float | None:
    """Return the accuracy that an attack expects of itself, if it does."""
    expected = attack.expected_accuracy_ if isinstance(attack, AbstractCalibratedAttack) else None
    return None if expected is None else round(expected, 4)


def _attack_overlapping(case: _Case) -> Attacked:
    """Attack the means of classes that share people, each by itself."""
    job, released, shares = case.job, case.released, case.shares
    if job.truth is not None or job.prior is not None or job.priors:
        raise SettingError(
            "--truth, --prior and --priors are for classes of which everybody is in one; "
            f"those of {job.mean} overlap"
        )
    guesses: dict[str, pa.Array] = {}
    facts: dict[str, Any] = {"guessed": {}, "priors": {}, "priors_given": bool(shares), "notes": []}
    expected: list[float | None] = []
    for name in released.means:
        attack = make_mean_attack(job.method, seed=job.seed)
        attack.fit(
            case.records, mean=released.values(name), prior=shares.get(name), noise=case.noise
        )
        guesses |= {
            f"guess_{name}": pa.array(attack.labels_),
            f"probability_{name}": pa.array(attack.scores_),
        }
        facts["guessed"][name] = int(attack.labels_.sum())
        facts["priors"][name] = round(attack.prior_, 4)
        facts["notes"] += [f"{name}: {note}" for note in attack.notes_]
        expected.append(_expected(attack))
    known = [value for value in expected if value is not None]
    mean = round(float(np.mean(known)), 4) if len(known) == len(expected) else None
    return facts | {"expected_accuracy": mean, "outcome": "ok"}, guesses


def _attack_classes(case: _Case) -> Attacked:
    """Attack the means of several classes."""
    job, released, shares = case.job, case.released, case.shares
    attack = make_class_attack(job.method, seed=job.seed)
    if job.prior is not None or job.priors:
        raise SettingError(
            "--prior and --priors are for the mean of one class; the shares of several stand in "
            f"{job.mean} as priors"
        )
    means = {kind: released.values(kind) for kind in released.means}
    attack.fit(case.records, means=means, priors=shares or None, noise=case.noise)
    names = attack.classes_.tolist()
    facts: dict[str, Any] = {
        "priors": {name: round(share, 4) for name, share in attack.priors_.items()},
        "priors_given": bool(shares),
        "guessed": {name: int((attack.labels_ == name).sum()) for name in names},
        "expected_accuracy": round(attack.expected_accuracy_, 4),
        "outcome": "ok",
        "notes": list(attack.notes_),
    }
    if job.truth is not None:
        facts["judged"] = _judge(case, _true_classes(job, case.table, names), attack.labels_)
    scores = {f"probability_{name}": pa.array(attack.scores_[:, k]) for k, name in enumerate(names)}
    best = {"guess": pa.array(attack.labels_), "probability": pa.array(attack.scores_.max(axis=1))}
    return facts, best | scores


def _true_classes(job: MeanAttackJob, table: pa.Table, names: list[str]) -> np.ndarray:
    truth = text_column(table, job.truth or "", job.records)
    unknown = ~np.isin(truth, names)
    if unknown.any() and REST not in names:
        raise DataError(
            f"column {job.truth!r} must hold the classes of {job.mean}, got others in "
            f"{int(unknown.sum())} of {len(truth)} rows; add their means, or shares below 1"
        )
    truth = np.where(unknown, REST, truth)
    if len(np.unique(truth)) < 2:
        raise DataError(f"column {job.truth!r} must hold at least two classes, got one")
    return truth


def _require_columns(job: MeanAttackJob, table: pa.Table, columns: Sequence[str]) -> None:
    named = [c for c in (job.id, job.truth, job.contributed) if c is not None]
    missing = [c for c in (*named, *columns) if c not in table.column_names]
    if missing:
        shown = ", ".join(map(repr, missing[:3])) + (" …" if len(missing) > 3 else "")
        raise DataError(
            f"{job.records} has no column {shown} ({len(missing)} of {len(columns) + len(named)} "
            "wanted are missing); records and mean must name the same columns"
        )


def _truth(job: MeanAttackJob, table: pa.Table) -> np.ndarray:
    truth = flag_column(table, job.truth or "", job.positive, job.records)
    if truth.all() or not truth.any():
        raise DataError(
            f"column {job.truth!r} must hold positives and others, got one kind only; say which "
            f"value is positive by --positive (now {job.positive!r})"
        )
    return truth


def _judge(case: _Case, truth: np.ndarray, guesses: np.ndarray) -> dict[str, Any]:
    job, table = case.job, case.table
    groups: dict[str, np.ndarray] = {"all": np.ones(len(truth), bool)}
    measured = "who contributed to the mean is not known: individual leak and population mix"
    if job.contributed is not None:
        inside = flag_column(table, job.contributed, "1", job.records)
        groups = {"contributors": inside, "others": ~inside}
        measured = "contributors: leak about individuals; others: inference about a population"
    return {
        "measured": measured,
        **judge_guesses(case.records, truth, guesses, groups, seed=job.seed),
    }
