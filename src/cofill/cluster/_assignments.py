"""Results of clustering, the same for a job and for a site of a network: a table and figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int


def describe_groups(
    ids: Mapping[str, np.ndarray],
    labels: Int[np.ndarray, " individuals"],
    confidence: Float[np.ndarray, " individuals"],
    *,
    k: int,
    id_name: str,
    name_sites: bool = False,
) -> tuple[pa.Table, dict[str, Any]]:
    """Return everybody's group as a table, and figures of the groups that name nobody.

    Parameters
    ----------
    ids
        Ids of the individuals of each site, in the order of the labels.
    labels, confidence
        Each individual's group from 0, and how sure it is from 0 to 1.
    k
        Number of groups.
    id_name
        Name of the column of ids.
    name_sites
        Whether the table says which individual is at which site.

    Examples
    --------
    >>> ids = {"north": np.array(["a", "b", "c"])}
    >>> table, figures = describe_groups(
    ...     ids, np.array([0, 0, 1]), np.array([1.0, 0.5, 0.9]), k=2, id_name="person"
    ... )
    >>> table.column_names, figures
    (['person', 'cluster', 'confidence'], {'k': 2, 'sizes': [2, 1], 'mean_confidence': 0.8})
    """
    columns: dict[str, Any] = {
        id_name: np.concatenate(list(ids.values())),
        "cluster": labels,
        "confidence": np.round(confidence, 6),
    }
    if name_sites:
        sites = [site for site, site_ids in ids.items() for _ in range(len(site_ids))]
        columns = {"site": sites, **columns}
    figures = {
        "k": k,
        "sizes": np.bincount(labels, minlength=k).tolist(),
        "mean_confidence": round(float(confidence.mean()), 4),
    }
    return pa.table(columns), figures
