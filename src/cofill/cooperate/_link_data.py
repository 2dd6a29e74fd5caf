"""Rows, codes and links of one site, lined up so that links and fusions can be fitted on them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from cofill.cooperate._masks import MaskStatistics
from cofill.cooperate._predict import link_outputs, masked_sum
from cofill.cooperate._residuals import Residuals
from cofill.cooperate._site import CooperativeSite, Link, ViewModel, gather_codes, named_seed
from cofill.errors import DataError
from cofill.nets import FusionProblem, loss_blocks
from cofill.privacy import Codes, rows_of, union
from cofill.protocol import Inbox
from cofill.views import side_by_side


@dataclass(frozen=True, eq=False)
class LinkData:
    """What a site fits its links on.

    Parameters
    ----------
    site, targets
        The site, with notes on peers that are left out, and its encoded rows.
    links, codes
        By usable peer, a link, fitted or not, and standardised codes in the order of the rows, zero
        where there is none.
    present, needed
        Which peer sent a code of which row, and which peers have a row of each individual whom this
        site lacks.
    """

    site: CooperativeSite
    targets: Float[np.ndarray, "rows width"]
    links: dict[str, Link]
    codes: dict[str, Float[np.ndarray, "rows code"]]
    present: Bool[np.ndarray, "rows peers"]
    needed: Bool[np.ndarray, "missing peers"]

    @property
    def is_linked(self) -> Bool[np.ndarray, " rows"]:
        """Which rows some usable peer sent a code of."""
        return np.asarray(self.present.any(axis=1))

    def is_shared(self, peer: str) -> Bool[np.ndarray, " rows"]:
        """Return which rows a peer sent codes of."""
        return self.present[:, list(self.links).index(peer)]

    def seed(self, peer: str, *purpose: str) -> int:
        """Return a seed that depends on the site and the peer, not on who else takes part."""
        return named_seed(self.site.seed, self.site.name, peer, *purpose)

    def link_outputs(self) -> Float[np.ndarray, "peers rows width"]:
        """Return each link's prediction of each row, zero where the peer sent no code."""
        codes = list(self.codes.values())
        return link_outputs(self.links.values(), codes, self.present, self.targets.shape[1])

    def held_out_outputs(self) -> Float[np.ndarray, "peers rows width"]:
        """Return each link's prediction of each row by a link that had not learned from it."""
        outputs = np.zeros((len(self.links), *self.targets.shape))
        for number, link in enumerate(self.links.values()):
            outputs[number, self.present[:, number]] = link.out_of_fold
        return outputs

    def link_residuals(self, outputs: np.ndarray) -> dict[str, Residuals]:
        """Return how far each link alone is from the truth, over the rows it predicts."""
        return {
            peer: Residuals.of(outputs[number, rows], self.targets[rows])
            for number, (peer, rows) in enumerate(zip(self.links, self.present.T, strict=True))
        }

    @property
    def uses_held_out_rows(self) -> bool:
        """Whether masks are fitted on rows that links did not learn from."""
        settings = self.site.settings
        return settings.mask_folds > 0 or not settings.is_faithful

    @property
    def unfitted_peers(self) -> list[str]:
        """Peers whose links have nothing that masks can be fitted on.

        Refining links by more rows makes no new held-out outputs, so that such links are learned
        from the start when masks are wanted next.
        """
        fitted = "out_of_fold" if self.uses_held_out_rows else "network"
        return [peer for peer, link in self.links.items() if getattr(link, fitted) is None]

    def grown_model(self) -> ViewModel:
        """Return the site's model with the new rows in its mask statistics and residuals.

        The old links predict the new rows out of sample, so that the sums grow exactly.
        """
        old, settings = self.site.model, self.site.settings
        is_new = (rows_of(old.seen, self.site.tokens) < 0) & self.is_linked
        present, targets = self.present[is_new], self.targets[is_new]
        statistics, predicted = old.statistics, None
        if statistics is not None:
            outputs = self.link_outputs()[:, is_new]
            predicted = masked_sum(outputs, statistics, present, settings)
            statistics = statistics + MaskStatistics.of(outputs, targets, present)
        if old.use_fusion and old.fusion is not None:
            predicted = old.fusion.predict(np.hstack(list(self.codes.values()))[is_new], present)
        residuals = old.residuals
        if predicted is not None and residuals is not None and len(targets):
            residuals = residuals + Residuals.of(predicted, targets)
        return replace(old, statistics=statistics, residuals=residuals, seen=self.site.tokens)

    def fusion_problem(self, peer: str = "") -> FusionProblem:
        """Return the fitting of a fusion over the codes of all usable peers, or of one link."""
        peers = [peer] if peer else list(self.links)
        present = np.stack([self.is_shared(name) for name in peers], axis=1)
        rows = present.any(axis=1)
        codes = [self.codes[name] for name in peers]
        name = self.site.name
        return FusionProblem(
            inputs=np.hstack(codes)[rows],
            present=present[rows],
            groups=side_by_side(part.shape[1] for part in codes),
            targets=self.targets[rows],
            blocks=loss_blocks(self.site.fitted_scaler.blocks),
            needed=None if peer else self.needed[self.needed.any(axis=1)],
            seed=self.seed(peer),
            name=f"link {peer!r} → {name!r}" if peer else f"fusion of {name!r}",
        )


def receive_codes(site: CooperativeSite, inbox: Inbox) -> CooperativeSite:
    """Return the site with the codes that came in; raise a `DataError` for unsound ones."""
    peer_codes = dict(site.peer_codes)
    for release in inbox:
        if isinstance(release, Codes):
            if release.spec.view != release.sender:
                raise DataError(
                    f"codes from {release.sender!r} to {site.name!r} are of view "
                    f"{release.spec.view!r}, which is not known here; refused"
                )
            release.check(None)
            peer_codes[release.sender] = _merge_codes(peer_codes.get(release.sender), release)
    return replace(site, peer_codes=peer_codes)


def _merge_codes(old: Codes | None, new: Codes) -> Codes:
    """Add new codes to those of the same encoder; another encoder's replace them."""
    if old is None or old.spec != new.spec:
        return new
    is_new = rows_of(old.tokens, new.tokens) < 0
    tokens = np.concatenate([old.tokens, new.tokens[is_new]])
    return replace(old, tokens=tokens, codes=np.concatenate([old.codes, new.codes[is_new]]))


def link_data(site: CooperativeSite) -> LinkData:
    """Return what a site fits its links on; peers with too few shared individuals are left out."""
    tokens = site.tokens
    links, codes, present, notes = {}, {}, [], []
    for peer in site.peers:
        received = site.peer_codes.get(peer)
        n_shared = 0
        if received is not None:
            link = site.model.links.get(peer)
            if link is None or link.spec != received.spec:
                link = _new_link(site, received)
            peer_codes, is_shared = gather_codes(received, link, tokens)
            n_shared = int(is_shared.sum())
            if n_shared >= site.settings.min_overlap:
                links[peer], codes[peer] = link, peer_codes
                present.append(is_shared)
                continue
        notes.append(
            f"view {site.name!r} shares {n_shared} individuals with view {peer!r}, fewer than "
            f"{site.settings.min_overlap}: that link is left out"
        )
    if not links:
        notes.append(f"view {site.name!r} has no usable link and cannot be reconstructed")
    peer_tokens = [site.peer_tokens[peer] for peer in links]
    missing = union(peer_tokens)
    missing = missing[rows_of(tokens, missing) < 0]
    needed = [rows_of(known, missing) >= 0 for known in peer_tokens]
    return LinkData(
        replace(site, notes=tuple(notes)),
        site.encoded(),
        links,
        codes,
        np.stack(present, axis=1) if present else np.zeros((len(tokens), 0), bool),
        np.stack(needed, axis=1) if needed else np.zeros((0, 0), bool),
    )


def _new_link(site: CooperativeSite, received: Codes) -> Link:
    """Return a link that is not fitted; the paper feeds codes as they are, ours standardised."""
    width = received.spec.width
    if site.settings.is_faithful:
        return Link(received.spec, np.zeros(width), np.ones(width))
    mean = received.codes.mean(axis=0, dtype=np.float64)
    spread = received.codes.std(axis=0, dtype=np.float64)
    return Link(received.spec, mean, np.where(spread > 1e-6, spread, 1.0))
