"""Code inversion: the private row behind a released code.

Threat model: the receiver of codes, or a site that colludes with him, knows the rows of m of the
people (or, with m = 0, only rows of other people of the same kind) and guesses everybody else's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.attack._alignment import aligned, whitened
from cofill.attack._decoders import Decoded, DecoderSettings, PairCount, decode_held_out, pairs_in
from cofill.attack._image_leaks import image_leaks
from cofill.attack._intervals import bootstrap_people, percentile_interval, r2_statistic
from cofill.attack._leak import Leak, share_leak
from cofill.attack._people import (
    as_matrix,
    check_same_people,
    check_varied,
    count_hits,
    rank_candidates,
)
from cofill.errors import DataError, SettingError
from cofill.metrics import r2_per_feature

__all__ = ["invert_codes"]

# Components aligned without pairs; the order of further ones is no guide (chosen on WDBC's views).
_RANK = 2
_BLIND = (
    "without pairs the attacker lays the leading components of the codes over those of rows of "
    "other people: a stronger attacker without pairs is possible"
)


def invert_codes(
    codes: Any,
    rows: Any,
    *,
    pairs: Sequence[PairCount] = (10, 100, "all"),
    known: Any = None,
    public: Any = None,
    decoded: Any = None,
    image: tuple[int, int] | None = None,
    data_range: float | int = 1.0,
    parts: Sequence[np.ndarray] | None = None,
    settings: DecoderSettings | None = None,
) -> tuple[Leak, ...]:
    """Guess rows from codes, with ever more auxiliary pairs.

    The floor is the mean row (R² 0) and a guess among all people; the control learns from the same
    pairs by `known` alone; the ceiling is the better of a decoder taught with everybody else's pair
    and the site's own one.

    Parameters
    ----------
    codes, rows
        What was released and what is private, people in the same order.
    pairs
        Numbers of people whose code and row the attacker has; 0 needs `public`; ``"all"`` is
        everybody outside the part of the people that is decoded.
    known
        What the attacker has of the same people anyway, such as his own view of them; the attack
        then uses both, the control this alone.
    public
        Rows of other people of the same kind.
    decoded
        What the site's own decoder makes of the codes.
    image
        Height and width, where rows are images: adds PSNR and SSIM.
    data_range
        Distance between black and white of images.
    parts
        Positions of people who are judged apart, by decoders that may know anybody else's pair:
        everything is returned for the first part, then for the next. One part of everybody when
        left out.
    settings
        How to learn.

    Returns
    -------
    tuple of Leak
        For each number of pairs: mean R² over features (median and each one in the details), the
        share of people whose guessed row is nearest to their own among all; PSNR and SSIM.

    Examples
    --------
    >>> from cofill.nets import FusionSettings
    >>> x = np.random.default_rng(0).normal(size=(100, 3))
    >>> linear = DecoderSettings(repeats=1, fusion=FusionSettings(hidden=()))
    >>> leaks = invert_codes(x @ np.ones((3, 5)) + 2 * x[:, [0, 1, 2, 0, 1]], x, pairs=(20,),
    ...                      settings=linear)
    >>> [(leak.figure, bool(leak.attack > 0.9)) for leak in leaks]
    [('R²', True), ('share re-identified', True)]
    """
    settings = settings or DecoderSettings()
    z, x, own = _checked(codes, rows, known, settings)
    site = None if decoded is None else as_matrix("decoded", decoded)
    if site is not None:
        check_same_people(codes=as_matrix("codes", codes), decoded=site)
        site = site[settings.sample(len(site))]
    if not pairs:
        raise SettingError("pairs must hold at least one number of pairs, got none")
    amounts = [p for p in pairs if p != 0]
    for amount in amounts:
        pairs_in(amount, len(x), settings.folds)
    seen = z if own is None else np.hstack([z, own])
    wanted: list[PairCount] = [*dict.fromkeys([*amounts, "all"])]
    asked = [(seen, p) for p in wanted]
    if own is not None:
        asked += [(own, p) for p in wanted]
    made = decode_held_out(asked, x, settings)
    found = dict(zip(wanted, made, strict=False))
    shams = dict(zip(wanted, made[len(wanted) :], strict=False))
    if 0 in pairs:
        if public is None:
            raise SettingError("public must be rows of other people for an attack without pairs")
        found[0] = _blind(z, as_matrix("public", public), x.shape[1], settings)
    leaks: list[Leak] = []
    everybody = settings.sample(len(as_matrix("codes", codes)))
    for part in [everybody] if parts is None else parts:
        at = np.flatnonzero(np.isin(everybody, part))
        best, beside = found["all"].of(at), None if site is None else site[at]
        for amount in pairs:
            sham = shams[amount].of(at) if amount in shams else None
            judge = _Judge(x[at], found[amount].of(at), sham, best, beside, amount, settings)
            leaks += [judge.explained(), judge.recognised()]
            if image is not None:
                leaks += judge.images(image, data_range)
    return tuple(leaks)


def _checked(
    codes: Any, rows: Any, known: Any, settings: DecoderSettings
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    z, x = as_matrix("codes", codes, least=10), as_matrix("rows", rows, least=10)
    own = None if known is None else as_matrix("known", known, least=10)
    check_same_people(codes=z, rows=x, known=own)
    chosen = settings.sample(len(z))
    z, x = z[chosen], x[chosen]
    check_varied("codes", z)
    check_varied("rows", x)
    return z, x, None if own is None else own[chosen]


def _blind(
    codes: np.ndarray, public: np.ndarray, features: int, settings: DecoderSettings
) -> Decoded:
    """Guess rows without any pair, from the shape of the codes' cloud."""
    if public.shape[1] != features:
        raise DataError(f"public must have the {features} columns of rows, got {public.shape[1]}")
    check_varied("public", public)
    centre, scale = public.mean(axis=0), public.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    guesses = []
    for repeat in range(settings.repeats):
        a, b = whitened(codes, _RANK), whitened((public - centre) / scale, _RANK)
        both = min(a.points.shape[1], b.points.shape[1])
        turn = aligned(a.points[:, :both], b.points[:, :both], seed=settings.seed + repeat)
        guesses.append((a.points[:, :both] @ turn @ b.back[:both]) * scale + centre)
    even = np.broadcast_to(1 / scale**2, (settings.repeats, features)).copy()
    return Decoded(np.stack(guesses), even, 0)


class _Judge:
    """Compares guesses with the truth."""

    def __init__(
        self,
        truth: np.ndarray,
        found: Decoded,
        sham: Decoded | None,
        best: Decoded,
        site: np.ndarray | None,
        amount: PairCount,
        settings: DecoderSettings,
    ) -> None:
        self.truth, self.found, self.sham, self.best, self.site = truth, found, sham, best, site
        self.settings = settings
        told = "all other people" if amount == "all" else f"{amount} people"
        self.facts: dict[str, Any] = {
            "name": f"code inversion, {amount} pairs",
            "threat": (
                f"a receiver of codes who also knows the rows of {told} guesses everybody's row"
                if amount
                else "a receiver of codes who has rows of other people guesses everybody's row"
            ),
            "scope": "individual",
            "sizes": {"people": len(truth), "pairs": found.pairs, "repeats": len(found.guesses)},
            "notes": () if amount else (_BLIND,),
        }

    def explained(self) -> Leak:
        """Return the mean R² over features."""

        def drawn(guesses: np.ndarray) -> tuple[float, np.ndarray]:
            return bootstrap_people(
                r2_statistic(self.truth, guesses),
                len(self.truth),
                draws=self.settings.draws,
                seed=self.settings.seed,
            )

        value, spread = drawn(self.found.guesses)
        control, gain = None, None
        if self.sham is not None:
            control, other = drawn(self.sham.guesses)
            gain = percentile_interval(spread - other)
        ceiling = max(drawn(g)[0] for g in self._ceilings())
        each = np.mean([r2_per_feature(self.truth, g) for g in self.found.guesses], axis=0)
        return Leak(
            **self.facts,
            figure="R²",
            floor=0.0,
            control=control,
            attack=value,
            ceiling=max(ceiling, value),
            interval=percentile_interval(spread),
            gain=gain,
            details={"median": float(np.median(each)), "per_feature": each},
        )

    def recognised(self) -> Leak:
        """Return the share of people whose guess is nearest to their own row."""
        people = len(self.truth)
        ranks = self._ranks(self.found)
        control, gain = None, None
        if self.sham is not None:
            other = self._ranks(self.sham)
            control = float((other == 0).mean())
            apart = (ranks == 0).mean(axis=0) - (other == 0).mean(axis=0)
            gain = percentile_interval(bootstrap_people(lambda c: c @ apart / people, people)[1])
        ceiling = max(
            float((self._ranks(self.best) == 0).mean()),
            0.0
            if self.site is None
            else float((rank_candidates(self.site, self.truth) == 0).mean()),
        )
        hits = count_hits(ranks)
        return share_leak(
            hits,
            people,
            **self.facts,
            figure="share re-identified",
            floor=1 / people,
            control=control,
            ceiling=max(ceiling, hits / people),
            gain=gain,
            details={"median_rank": float(np.median(ranks)), "candidates": people},
        )

    def images(self, image: tuple[int, int], data_range: float | int) -> list[Leak]:
        """Return PSNR and SSIM."""
        sham = None if self.sham is None else self.sham.guesses
        return image_leaks(
            self.truth,
            self.found.guesses,
            sham,
            self._ceilings(),
            image,
            float(data_range),
            draws=self.settings.draws,
            facts=self.facts,
        )

    def _ceilings(self) -> list[Float[np.ndarray, "repeats people features"]]:
        return [self.best.guesses, *([] if self.site is None else [self.site[None]])]

    def _ranks(self, made: Decoded) -> np.ndarray:
        rows = zip(made.guesses, made.precision, strict=True)
        return np.stack([rank_candidates(g, self.truth, p) for g, p in rows])
