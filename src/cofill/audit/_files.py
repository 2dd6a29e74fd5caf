"""What the command audits: tables from files, aligned by id, people in one order."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.attack import flag_column, number_column
from cofill.completion import read_records
from cofill.errors import DataError, SettingError
from cofill.privacy import Box
from cofill.views import Scaler, Source, View, is_url, read_views


def code_files(
    codes: str,
    rows: str,
    *,
    id: str,  # noqa: A002
    known: str | None = None,
    public: str | None = None,
    attribute: str | None = None,
    second: str | None = None,
) -> dict[str, Any]:
    """Read what `audit_codes` takes from sources with one id column, people in the codes' order.

    ``attribute`` is a column of the rows that is guessed, and taken out of them. A table that is
    empty or lacks people of the codes is a `DataError`.
    """
    coded = _view("codes", codes, id)
    private = _view("rows", rows, id)
    fact, private_features = None, private
    if attribute is not None:
        if attribute not in private.feature_names:
            raise DataError(f"{Source(rows).label} has no column {attribute!r} to guess")
        at = private.feature_names.index(attribute)
        private_features = private.select([n for n in private.feature_names if n != attribute])
        cells = _same(private, coded, rows).cells[:, at]
        if np.isnan(cells).any():
            raise DataError(
                f"column {attribute!r} has {int(np.isnan(cells).sum())} empty cells; leave those "
                "people out"
            )
        coded_kind = bool(private.features[at].categories) or len(np.unique(cells)) == 2
        fact = cells.astype(np.int64) if coded_kind else cells.astype(np.float64)
    scaler = Scaler.fit(private_features)
    public_rows = None
    if public is not None:
        shown = _view("public", public, id).select(list(private_features.feature_names))
        both = np.isin(shown.ids, coded.ids)
        if both.any():
            raise DataError(
                f"{Source(public).label} must be of other people, got {int(both.sum())} who are "
                "among the codes"
            )
        public_rows = _whole(scaler.encode_view(shown)[0], public)
    return {
        "codes": _whole(coded.cells, codes),
        "rows": _whole(scaler.encode_view(_same(private_features, coded, rows))[0], rows),
        "known": None if known is None else _encoded("known", known, id, coded),
        "public": public_rows,
        "attribute": fact,
        "second": None if second is None else _encoded("second", second, id, coded),
    }


def mean_files(
    records: str,
    *,
    truth: str,
    positive: str = "1",
    contributed: str | None = None,
    id: str | None = None,  # noqa: A002
    bounds: str | None = None,
    low: float | None = None,
    high: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, Box]:
    """Read what `audit_mean` takes: records, who is in the class, who contributes, the bounds.

    ``truth`` is the column of the class, to which its value ``positive`` belongs, ``id`` a column
    that is no number of the records. ``bounds`` is a JSON file ``{column: [low, high], …}``, or
    ``low`` and ``high`` are those of every column.
    """
    table, id = read_records(records, id)  # noqa: A001
    where = Source(records).label if is_url(records) else records
    beside = [c for c in (truth, contributed, id) if c is not None]
    for name in beside:
        if name not in table.column_names:
            raise DataError(f"{where} has no column {name!r}")
    limits = _limits(bounds)
    names = list(limits) or [c for c in table.column_names if c not in beside]
    lacking = [name for name in names if name not in table.column_names]
    if lacking or not names:
        raise DataError(
            f"{where} lacks {len(lacking)} of the columns with bounds"
            if lacking
            else f"{where} has no column to make a mean of"
        )
    if not table.num_rows:
        raise DataError(f"{where} is empty; there is nothing to release")
    rows = np.column_stack([number_column(table, name, records) for name in names])
    if limits:
        box = Box(tuple(limits[n][0] for n in names), tuple(limits[n][1] for n in names))
    elif low is None or high is None:
        raise SettingError(
            "the bounds of a record must be given, by --bounds FILE or --low and --high; taken "
            "from the records they would give records away"
        )
    else:
        box = Box(low, high)
    inside = None if contributed is None else flag_column(table, contributed, "1", records)
    return rows, flag_column(table, truth, positive, records), inside, box


def training_rows(rows: str, *, id: str) -> Float[np.ndarray, "people width"]:  # noqa: A002
    """Read training rows as networks see them, without gaps."""
    view = _view("rows", rows, id)
    return _whole(Scaler.fit(view).encode_view(view)[0], rows)


def _view(name: str, source: str, id: str) -> View:  # noqa: A002
    view = read_views({name: source}, id=id)[name]
    if not len(view) or not view.n_features:
        raise DataError(
            f"{Source(source).label} is empty; an empty release cannot be attacked and nothing was "
            "written"
        )
    return view


def _same(view: View, coded: View, source: str) -> View:
    """Return the view's rows of the people who have codes, in their order."""
    if view.ids.dtype.kind != coded.ids.dtype.kind:
        raise DataError(f"the ids of {Source(source).label} must be of the type of the codes' ids")
    at = view.positions(coded.ids)
    lacking = int((at < 0).sum())
    if lacking:
        raise DataError(
            f"{Source(source).label} must have a row for everybody with a code, got none for "
            f"{lacking} of {len(coded)} people; the pairs do not match"
        )
    return view.take(at)


def _encoded(name: str, source: str, id: str, coded: View) -> np.ndarray:  # noqa: A002
    view = _same(_view(name, source, id), coded, source)
    return _whole(Scaler.fit(view).encode_view(view)[0], source)


def _whole(values: np.ndarray, source: str) -> Float[np.ndarray, "people width"]:
    content = np.asarray(values, np.float64)
    wrong = int((~np.isfinite(content)).any(axis=1).sum())
    if wrong:
        raise DataError(
            f"{Source(source).label} has {wrong} rows with empty cells; complete them or leave "
            "them out"
        )
    return content


def _limits(path: str | None) -> Mapping[str, tuple[float, float]]:
    if path is None:
        return {}
    try:
        content: Any = json.loads(Path(path).read_text(encoding="utf-8"))
        return {str(k): (float(v[0]), float(v[1])) for k, v in content.items()}
    except (OSError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        raise DataError(
            f"{path} must be JSON with the bounds of each column: {{column: [low, high], …}}"
        ) from None
