"""People whom a site knows in part: a missing cell from the row's known cells and from the peers.

The site's cells and, beside them, what codes of the peers predict of the row are taken as jointly
Gaussian, and a missing cell is its mean given everything that is known. Predictions enter as they
are for rows that the links had not learned from, so that they get the weight they deserve. Nothing
leaves the site for it.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

from cofill.cooperate._site import CooperativeSite, ReconstructedRows, Rows, named_seed
from cofill.impute import JointGaussian
from cofill.privacy import rows_of
from cofill.views import Kind


def fit_own_cells(
    site: CooperativeSite,
    targets: Rows,
    linked: Bool[np.ndarray, " rows"],
    predicted: np.ndarray | None,
) -> JointGaussian | None:
    """Return the joint model of a site's encoded rows and predictions of those that are linked.

    None where every row is complete, or has one cell only.
    """
    blocks = site.fitted_scaler.blocks
    if len(blocks) < 2 or not np.isnan(targets).any():
        return None
    groups = [(block.start, block.stop) for block in blocks]
    matrix = targets
    if predicted is not None:
        by_peers = np.full(targets.shape, np.nan)
        by_peers[linked] = predicted
        matrix = np.hstack([targets, by_peers])
        groups += [(k, k + 1) for k in range(targets.shape[1], matrix.shape[1])]
    return JointGaussian.fit(matrix, groups, seed=named_seed(site.seed, site.name, "own cells"))


def add_known_in_part(site: CooperativeSite, rows: ReconstructedRows) -> ReconstructedRows:
    """Return reconstructed rows in which people known in part are told from their own cells too."""
    model, width = site.model.own_cells, rows.expected.shape[1]
    partial = np.flatnonzero(np.isnan(site.view.cells).any(axis=1))
    if model is None or not len(partial):
        return rows
    tokens, matrix = site.tokens[partial], np.full((len(partial), len(model.mean)), np.nan)
    matrix[:, :width] = site.encoded(partial)
    at = rows_of(rows.tokens, tokens)
    if len(model.mean) > width:
        matrix[at >= 0, width:] = rows.expected[at[at >= 0]]
    filled = model.fill(matrix)[:, :width]
    for block in site.fitted_scaler.blocks:
        if block.kind is not Kind.NUMERIC:
            filled[:, block.start : block.stop] = filled[:, block.start : block.stop].clip(0.0, 1.0)
    expected = np.array(rows.expected, dtype=np.float64)
    expected[at[at >= 0]] = filled[at >= 0]
    return ReconstructedRows(
        np.concatenate([rows.tokens, tokens[at < 0]]), np.concatenate([expected, filled[at < 0]])
    )
