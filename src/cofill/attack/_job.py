"""The attack from files to files: records and a released mean in, guesses out, judged if asked.

When the truth is given, two things are told apart. Guessing right about people whose record went
into the mean is a leak about individuals; guessing right about people who did not contribute is
inference about a population, which no noise on the mean can take back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import betaincinv

from cofill.attack._base import AbstractCalibratedAttack, AbstractMeanAttack, Noise
from cofill.attack._discriminant import Discriminant
from cofill.attack._floor import KMeansFloor, kmeans_accuracy
from cofill.attack._growpu import GrowPU
from cofill.attack._likelihood import Likelihood
from cofill.attack._pu import NNPU, UPU
from cofill.attack._selftraining import SelfTraining
from cofill.errors import DataError, SettingError
from cofill.views import Source
from cofill.views._writers import write_table

__all__ = ["MEAN_ATTACKS", "MeanAttackJob", "MeanAttackResult", "exact_interval", "run_mean_attack"]

MEAN_ATTACKS: Mapping[str, Callable[..., AbstractMeanAttack]] = {
    "best": SelfTraining,
    "likelihood": Likelihood,
    "discriminant": Discriminant,
    "growpu": GrowPU,
    "nnpu": NNPU,
    "upu": UPU,
    "kmeans": KMeansFloor,
}


@dataclass(frozen=True)
class MeanAttackJob:
    """What to attack.

    Parameters
    ----------
    records
        A CSV or Parquet file or a database source with one row per individual.
    mean
        JSON file: ``{"mean": {column: value, …}}``, optionally with ``"noise"`` and ``"prior"``, or
        just ``{column: value, …}``.
    out
        File for the guesses, .csv or .parquet.
    prior
        Share of positives; the mean's file may have it.
    noise
        As ``"laplace:0.04"``; the mean's file may have it.
    id
        Column to name individuals by; rows are numbered without it.
    truth, positive
        Column with the true class, and which of its values is the positive one; for the judge
        only.
    contributed
        Column that says whose record went into the mean.
    method, seed
        One of `MEAN_ATTACKS`, and its randomness.
    overwrite
        Whether `out` may be replaced.
    """

    records: str
    mean: str
    out: str
    prior: float | None = None
    noise: str | None = None
    id: str | None = None
    truth: str | None = None
    positive: str = "1"
    contributed: str | None = None
    method: str = "best"
    seed: int = 0
    overwrite: bool = False


@dataclass(frozen=True, eq=False)
class MeanAttackResult:
    """What came out.

    Attributes
    ----------
    facts
        Everything but the guesses: counts, settings, what the attack expects of itself, notes and,
        with the truth, accuracies with 95 % intervals beside floor and ceiling.
    out
        Where the guesses are.
    """

    facts: dict[str, Any]
    out: Path


def run_mean_attack(job: MeanAttackJob) -> MeanAttackResult:
    """Run a job; nothing is written unless all of it went well."""
    if job.method not in MEAN_ATTACKS:
        raise SettingError(f"there is no attack {job.method!r}; there is {', '.join(MEAN_ATTACKS)}")
    out = Path(job.out)
    if out.suffix.lower() not in (".csv", ".tsv", ".parquet", ".pq"):
        raise SettingError(f"--out must be a .csv or .parquet file, got {job.out!r}")
    if out.exists() and not job.overwrite:
        raise SettingError(f"{out} exists already and is left as it is; give --overwrite")
    released = _read_mean(Path(job.mean))
    values: dict[str, float] = released["mean"]
    prior = job.prior if job.prior is not None else released.get("prior")
    if prior is None:
        raise SettingError("the share of positives must be given: --prior, or in the mean's file")
    said = job.noise or released.get("noise")
    noise = None if said is None else Noise.parse(str(said))
    table = Source(job.records).read(job.id or "")
    named = [c for c in (job.id, job.truth, job.contributed) if c is not None]
    missing = [c for c in (*named, *values) if c not in table.column_names]
    if missing:
        shown = ", ".join(map(repr, missing[:3])) + (" …" if len(missing) > 3 else "")
        raise DataError(
            f"{job.records} has no column {shown} ({len(missing)} of {len(values) + len(named)} "
            "wanted are missing); records and mean must name the same columns"
        )
    records = np.column_stack([_numbers(table, c, job.records) for c in values])
    attack = MEAN_ATTACKS[job.method]()
    if "seed" in attack.get_params():
        attack.set_params(seed=job.seed)
    attack.fit(records, mean=list(values.values()), prior=prior, noise=noise)
    facts: dict[str, Any] = {
        "method": job.method,
        "records": len(records),
        "features": len(values),
        "prior": float(prior),
        "noise": None if noise is None else str(noise),
        "guessed_positive": int(attack.labels_.sum()),
        "expected_accuracy": round(attack.sureness_, 4)
        if isinstance(attack, AbstractCalibratedAttack)
        else None,
        "outcome": attack.outcome_,
        "notes": list(attack.notes_),
    }
    ignored = len(table.column_names) - len(values) - len(named)
    if ignored:
        facts["notes"].append(f"{ignored} columns of the records are not in the mean and not used")
    if job.truth is not None:
        facts["judged"] = _judged(job, table, records, attack)
    ids = table.column(job.id) if job.id else pa.array(np.arange(1, len(records) + 1))
    guesses = pa.table(
        {
            job.id or "row": ids,
            "guess": pa.array(attack.labels_),
            "probability": pa.array(attack.scores_),
        }
    )
    _write(guesses, out)
    return MeanAttackResult(facts, out)


def exact_interval(right: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """Return the Clopper–Pearson interval of a share.

    Examples
    --------
    >>> [round(end, 4) for end in exact_interval(0, 10)]
    [0.0, 0.3085]
    """
    tail = (1 - level) / 2
    low = 0.0 if right == 0 else float(betaincinv(right, count - right + 1, tail))
    high = 1.0 if right == count else float(betaincinv(right + 1, count - right, 1 - tail))
    return low, high


def _judged(
    job: MeanAttackJob, table: pa.Table, records: np.ndarray, attack: AbstractMeanAttack
) -> dict[str, Any]:
    truth = _flags(table, job.truth or "", job.positive, job.records)
    if truth.all() or not truth.any():
        raise DataError(
            f"column {job.truth!r} must hold positives and others, got one kind only; say which "
            f"value is positive by --positive (now {job.positive!r})"
        )
    groups: dict[str, np.ndarray] = {"all": np.ones(len(truth), bool)}
    measured = "who contributed to the mean is not known: individual leak and population mix"
    if job.contributed is not None:
        inside = _flags(table, job.contributed, "1", job.records)
        groups = {"contributors": inside, "others": ~inside}
        measured = "contributors: leak about individuals; others: inference about a population"
    found: dict[str, Any] = {"measured": measured}
    right = attack.labels_ == truth
    for name, chosen in groups.items():
        if chosen.any():
            count, hits = int(chosen.sum()), int(right[chosen].sum())
            low, high = exact_interval(hits, count)
            found[name] = {
                "individuals": count,
                "accuracy": round(hits / count, 4),
                "interval_95": [round(low, 4), round(high, 4)],
            }
    share = float(truth.mean())
    found["floor"] = {
        "larger_class": round(max(share, 1 - share), 4),
        "two_clusters": round(kmeans_accuracy(records, truth, seed=job.seed), 4),
    }
    found["ceiling"] = {"supervised": round(_supervised(records, truth), 4)}
    return found


def _supervised(records: np.ndarray, truth: np.ndarray) -> float:
    """Return the cross-validated accuracy of logistic regression with all labels."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    folds = min(5, int(truth.sum()), int((~truth).sum()))
    if folds < 2:
        return max(float(np.mean(truth)), 1 - float(np.mean(truth)))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    split = StratifiedKFold(folds, shuffle=True, random_state=0)
    return float(np.mean(cross_val_predict(model, records, truth, cv=split) == truth))


def _read_mean(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file; check the path") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        raise DataError(f"{path} is not a readable JSON file; write it again") from None
    if isinstance(found, dict) and not isinstance(found.get("mean"), dict):
        found = {"mean": found}
    if not isinstance(found, dict) or not found["mean"]:
        raise DataError(f"{path} must hold a mean as {{column: value, …}}")
    for name, value in found["mean"].items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise DataError(f"{path}: the mean of column {name!r} must be a finite number")
    return found


def _numbers(table: pa.Table, column: str, where: str) -> np.ndarray:
    values = table.column(column)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
            or pa.types.is_boolean(values.type)):  # fmt: skip
        raise DataError(
            f"{where}: column {column!r} must hold numbers, got {values.type}; encode it first"
        )
    if values.null_count:
        raise DataError(
            f"{where}: column {column!r} has {values.null_count} empty cells; complete the records "
            "or leave those rows out"
        )
    return values.cast(pa.float64()).to_numpy()


def _flags(table: pa.Table, column: str, positive: str, where: str) -> np.ndarray:
    """Return where a column has the positive value; a truth value counts as 1 or 0."""
    values = table.column(column)
    if values.null_count:
        raise DataError(f"{where}: column {column!r} has {values.null_count} empty cells")
    if pa.types.is_boolean(values.type):
        return values.to_numpy() == (positive.lower() in ("1", "true", "yes"))
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        try:
            return values.to_numpy() == float(positive)
        except ValueError:
            raise SettingError(
                f"column {column!r} holds numbers; the positive value must be one, got {positive!r}"
            ) from None
    return np.array([str(v) == positive for v in values.to_pylist()])


def _write(guesses: pa.Table, out: Path) -> None:
    """Write beside the target, then rename: a reader finds all guesses or none."""
    beside = out.with_name(f".{out.stem}.part{out.suffix}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_table(guesses, beside)
        beside.replace(out)
    except OSError as error:
        raise DataError(
            f"{out} cannot be written ({error.strerror}); nothing was written"
        ) from None
    finally:
        beside.unlink(missing_ok=True)
