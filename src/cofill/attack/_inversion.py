"""Inversion of a release: the private row behind a code, or one private fact about a person.

Threat models: the receiver of codes, or a site that colludes with the receiver, knows the rows of m
of the people (or, with m = 0, only rows of other people of the same kind) and guesses everybody
else's (`invert_codes`). Somebody who holds codes or completed rows and knows an attribute of m of
the people (a diagnosis, an income) guesses it for the others (`infer_attribute`); what they could
tell from public features alone is no leak of the release, but the control. What is true of people
like this one is inference about a population; a leak about the individual is what the release adds.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from cofill.attack._decoders import Decoded, DecoderSettings, PairCount, decode_held_out, pairs_in
from cofill.attack._inputs import as_matrix, check_same_people, check_varied
from cofill.attack._leak import Leak, compared_share_leak, r2_leak
from cofill.attack._matching import align_clouds, whiten
from cofill.errors import DataError, SettingError
from cofill.metrics import r2_per_feature
from cofill.nets import Block

_CELLS = 2**24  # distances held at one time
_MOST_CLASSES = 50  # more different values are numbers or names, and guessed as such
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
    parts: Sequence[np.ndarray] | None = None,
    settings: DecoderSettings | None = None,
) -> tuple[Leak, ...]:
    """Guess rows from codes, with ever more auxiliary pairs.

    The floor is the mean row (R² 0) and a guess among all people; the control learns from the same
    pairs by `known` alone; the ceiling is a decoder taught with everybody else's pair.

    Parameters
    ----------
    codes, rows
        What was released and what is private, people in the same order.
    pairs
        Numbers of people whose code and row the attacker has; 0 needs `public`; ``"all"`` is
        everybody outside the part of the people that is decoded.
    known
        What the attacker has of the same people anyway, such as a view of them; the attack then
        uses both, the control this alone.
    public
        Rows of other people of the same kind.
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
        share of people whose guessed row is nearest to their own among all.

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
    z, x = as_matrix("codes", codes, least=10), as_matrix("rows", rows, least=10)
    beside = None if known is None else as_matrix("known", known, least=10)
    check_same_people(codes=z, rows=x, known=beside)
    everybody = settings.sample(len(z))
    z, x = z[everybody], x[everybody]
    beside = None if beside is None else beside[everybody]
    check_varied("codes", z)
    check_varied("rows", x)
    if not pairs:
        raise SettingError("pairs must hold at least one number of pairs, got none")
    amounts: list[PairCount] = [*dict.fromkeys([*(p for p in pairs if p != 0), "all"])]
    for amount in amounts:
        pairs_in(amount, len(x), settings.folds)
    inputs = z if beside is None else np.hstack([z, beside])
    problems = [(inputs, p) for p in amounts]
    if beside is not None:
        problems += [(beside, p) for p in amounts]
    results = decode_held_out(problems, x, settings)
    decoded = dict(zip(amounts, results, strict=False))
    controls = dict(zip(amounts, results[len(amounts) :], strict=False))
    if 0 in pairs:
        if public is None:
            raise SettingError("public must be rows of other people for an attack without pairs")
        decoded[0] = _decode_blind(z, as_matrix("public", public), x.shape[1], settings)
    leaks: list[Leak] = []
    for part in [everybody] if parts is None else parts:
        at = np.flatnonzero(np.isin(everybody, part))
        for amount in pairs:
            control = controls[amount].of(at) if amount in controls else None
            leaks += _judge_rows(
                x[at], decoded[amount].of(at), control, decoded["all"].of(at), amount, settings
            )
    return tuple(leaks)


def _decode_blind(
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
        a, b = whiten(codes, _RANK), whiten((public - centre) / scale, _RANK)
        both = min(a.points.shape[1], b.points.shape[1])
        turn = align_clouds(a.points[:, :both], b.points[:, :both], seed=settings.seed + repeat)
        guesses.append((a.points[:, :both] @ turn @ b.back[:both]) * scale + centre)
    even = np.broadcast_to(1 / scale**2, (settings.repeats, features)).copy()
    return Decoded(np.stack(guesses), even, 0)


def _judge_rows(
    truth: np.ndarray,
    decoded: Decoded,
    control: Decoded | None,
    best: Decoded,
    amount: PairCount,
    settings: DecoderSettings,
) -> list[Leak]:
    """Return the mean R² over features, and the share of people whose guess is nearest to them."""
    people = len(truth)
    whose = "all other people" if amount == "all" else f"{amount} people"
    facts: dict[str, Any] = {
        "name": f"code inversion, {amount} pairs",
        "threat": (
            f"a receiver of codes who also knows the rows of {whose} guesses everybody's row"
            if amount
            else "a receiver of codes who has rows of other people guesses everybody's row"
        ),
        "scope": "individual",
        "sizes": {"people": people, "pairs": decoded.pairs, "repeats": len(decoded.guesses)},
        "notes": () if amount else (_BLIND,),
    }
    each = np.mean([r2_per_feature(truth, g) for g in decoded.guesses], axis=0)
    explained = r2_leak(
        truth,
        decoded.guesses,
        None if control is None else control.guesses,
        best.guesses,
        draws=settings.draws,
        seed=settings.seed,
        details={"median": float(np.median(each)), "per_feature": each},
        **facts,
    )

    def ranks_of(decoded: Decoded) -> np.ndarray:
        repeats = zip(decoded.guesses, decoded.precision, strict=True)
        return np.stack([rank_candidates(g, truth, p) for g, p in repeats])

    ranks = ranks_of(decoded)
    hits = (ranks == 0).mean(axis=0)
    recognised = compared_share_leak(
        hits,
        None if control is None else (ranks_of(control) == 0).mean(axis=0),
        figure="share re-identified",
        floor=1 / people,
        ceiling=max(float((ranks_of(best) == 0).mean()), round(float(hits.sum())) / people),
        details={"median_rank": float(np.median(ranks)), "candidates": people},
        **facts,
    )
    return [explained, recognised]


def infer_attribute(
    release: Any,
    attribute: Any,
    *,
    public: Any = None,
    pairs: Sequence[PairCount] = ("all",),
    name: str = "attribute",
    settings: DecoderSettings | None = None,
) -> tuple[Leak, ...]:
    """Guess an attribute from a release, beside guessing it from public features alone.

    The floor is the commonest class (or the mean); the control learns from `public` alone, the
    attack from both; the ceiling learns from both of everybody else.

    Parameters
    ----------
    release
        Codes or completed rows, one a person.
    attribute
        Numbers (the figure is R²), or classes as truth values, strings or whole numbers (accuracy).
    public
        What everybody may know of the same people.
    pairs
        Of how many people the attacker knows the attribute; ``"all"`` is everybody outside the
        part of the people that is guessed.
    name
        Of the attribute.
    settings
        How to learn.

    Examples
    --------
    >>> from cofill.nets import FusionSettings
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> linear = DecoderSettings(repeats=1, fusion=FusionSettings(hidden=()))
    >>> leak, = infer_attribute(x, x[:, 0] > 0, public=x[:, 1:], settings=linear)
    >>> leak.figure, bool(leak.attack > 0.9 > leak.control), leak.beats_control()
    ('accuracy', True, True)
    """
    settings = settings or DecoderSettings()
    z = as_matrix("release", release, least=10)
    known = None if public is None else as_matrix("public", public, least=10)
    facts = np.asarray(attribute)
    if facts.ndim != 1:
        raise DataError(f"attribute must be one value a person, got the shape {facts.shape}")
    check_same_people(release=z, attribute=facts, public=known)
    if not pairs:
        raise SettingError("pairs must hold at least one number of pairs, got none")
    chosen = settings.sample(len(z))
    z, facts = z[chosen], facts[chosen]
    known = None if known is None else known[chosen]
    check_varied("release", z)
    targets, blocks = _targets(facts)
    for amount in pairs:
        pairs_in(amount, len(z), settings.folds)
    inputs = z if known is None else np.hstack([z, known])
    problems: list[tuple[np.ndarray, PairCount]] = [(inputs, p) for p in pairs]
    if known is not None:
        problems += [(known, p) for p in pairs]
    problems.append((inputs, "all"))
    decoded = decode_held_out(problems, targets, settings, blocks)
    leaks = []
    for k, amount in enumerate(pairs):
        whose = "all other people" if amount == "all" else f"{amount} people"
        about: dict[str, Any] = {
            "name": f"inference of {name}, {amount} pairs",
            "threat": f"a receiver who knows {name} of {whose} guesses it of everybody from the "
            "release",
            "scope": "individual",
            "sizes": {"people": len(z), "pairs": decoded[k].pairs, "repeats": settings.repeats},
        }
        guesses, best = decoded[k].guesses, decoded[-1].guesses
        control = decoded[len(pairs) + k].guesses if known is not None else None
        results = targets, guesses, control, best
        if blocks is None:
            leaks.append(r2_leak(*results, draws=settings.draws, seed=settings.seed, **about))
        else:
            leaks.append(_accuracy_leak(*results, settings.draws, about))
    return tuple(leaks)


def _targets(
    facts: Shaped[np.ndarray, " people"],
) -> tuple[Float[np.ndarray, "people outputs"], tuple[Block, ...] | None]:
    """Return numbers as one column, or classes in one-hot code with their block."""
    if facts.dtype.kind == "f":
        column = as_matrix("attribute", facts[:, None])
        check_varied("attribute", column)
        return column, None
    if facts.dtype.kind == "O":
        facts = facts.astype(str)
    classes, at = np.unique(facts, return_inverse=True)
    if not 2 <= len(classes) <= _MOST_CLASSES:
        raise DataError(
            f"attribute must have from 2 to {_MOST_CLASSES} classes, got {len(classes)}; give "
            "numbers as floats"
        )
    return np.eye(len(classes))[at], (Block("categorical", 0, len(classes)),)


def _accuracy_leak(
    truth: np.ndarray,
    guesses: np.ndarray,
    control: np.ndarray | None,
    best: np.ndarray,
    draws: int,
    about: dict[str, Any],
) -> Leak:
    classes = truth.argmax(axis=1)

    def hits_of(guesses: np.ndarray) -> Float[np.ndarray, " people"]:
        return (guesses.argmax(axis=2) == classes).mean(axis=0)

    hits = hits_of(guesses)
    return compared_share_leak(
        hits,
        None if control is None else hits_of(control),
        draws=draws,
        figure="accuracy",
        floor=int(truth.sum(axis=0).max()) / len(truth),
        ceiling=max(float(hits_of(best).mean()), float(hits.mean())),
        details={"classes": truth.shape[1]},
        **about,
    )


def rank_candidates(
    guesses: Float[np.ndarray, "people columns"],
    candidates: Float[np.ndarray, "people columns"],
    precision: Float[np.ndarray, " columns"] | None = None,
) -> Int[np.ndarray, " people"]:
    """Return how many other candidates are at least as near to each guess as its own one.

    Guess and candidate of one person are in the same row. Somebody with a twin is not singled out
    and never of rank 0.
    """
    weight = np.ones(guesses.shape[1]) if precision is None else precision
    ranks = np.empty(len(guesses), np.int64)
    step = max(1, _CELLS // len(candidates))
    # |c|² − 2 g·c orders candidates as the distance does, and ties stay ties.
    norms = (candidates**2) @ weight
    for start in range(0, len(guesses), step):
        part = slice(start, start + step)
        distances = norms - 2 * (guesses[part] * weight) @ candidates.T
        true = distances[np.arange(len(distances)), np.arange(start, start + len(distances))]
        ranks[part] = (distances <= true[:, None]).sum(axis=1) - 1
    return ranks
