"""What an attack guesses when the share of positives it assumes is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import clone

from cofill.attack._base import AbstractCalibratedAttack, AbstractMeanAttack, AttackFailed
from cofill.attack._inputs import Noise, check_prior
from cofill.attack._selftraining import SelfTraining
from cofill.errors import DataError, SettingError


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
