"""Attribute inference: one private fact about a person, from what was released of them.

Threat model: somebody who holds the codes (or completed rows) of people and knows a private
attribute of m of them (a diagnosis, an income) guesses it for the others.

What the attacker could tell from public features alone is no leak of the release: the control. What
is true of people like this one is inference about a population; a leak about the individual is
what the release adds.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from cofill.attack._decoders import DecoderSettings, PairCount, decode_held_out, pairs_in
from cofill.attack._leak import Leak, compared_share_leak, r2_leak
from cofill.attack._people import as_matrix, check_same_people, check_varied
from cofill.errors import DataError, SettingError
from cofill.nets import Block

_MOST_CLASSES = 50


def infer_attribute(
    release: Any,
    attribute: Any,
    *,
    public: Any = None,
    rows: Any = None,
    pairs: Sequence[PairCount] = ("all",),
    scope: str = "individual",
    name: str = "attribute",
    settings: DecoderSettings | None = None,
) -> tuple[Leak, ...]:
    """Guess an attribute from a release, beside guessing it from public features alone.

    The floor is the commonest class (or the mean); the control learns from `public` alone, the
    attack from both; the ceiling learns from the private `rows` of everybody else.

    Parameters
    ----------
    release
        Codes or completed rows, one a person.
    attribute
        Numbers (the figure is R²), or classes as truth values, strings or whole numbers (accuracy).
    public
        What everybody may know of the same people.
    rows
        The true private rows, for the ceiling; the release with all pairs when left out.
    pairs
        Of how many people the attacker knows the attribute; ``"all"`` is everybody outside the
        part of the people that is guessed.
    scope
        ``"population"`` where the release was made without the person's own row, as a row completed
        by a model of others is.
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
    true = None if rows is None else as_matrix("rows", rows, least=10)
    facts = np.asarray(attribute)
    if facts.ndim != 1:
        raise DataError(f"attribute must be one value a person, got the shape {facts.shape}")
    check_same_people(release=z, attribute=facts, public=known, rows=true)
    if not pairs:
        raise SettingError("pairs must hold at least one number of pairs, got none")
    chosen = settings.sample(len(z))
    z, facts = z[chosen], facts[chosen]
    known, true = (None if m is None else m[chosen] for m in (known, true))
    check_varied("release", z)
    targets, blocks = _targets(facts)
    for amount in pairs:
        pairs_in(amount, len(z), settings.folds)
    inputs = z if known is None else np.hstack([z, known])
    problems: list[tuple[np.ndarray, PairCount]] = [(inputs, p) for p in pairs]
    if known is not None:
        problems += [(known, p) for p in pairs]
    problems.append((inputs if true is None else np.hstack([inputs, true]), "all"))
    decoded = decode_held_out(problems, targets, settings, blocks)
    leaks = []
    for k, amount in enumerate(pairs):
        whose = "all other people" if amount == "all" else f"{amount} people"
        about: dict[str, Any] = {
            "name": f"inference of {name}, {amount} pairs",
            "threat": f"a receiver who knows {name} of {whose} guesses it of everybody from the "
            "release",
            "scope": scope,
            "sizes": {"people": len(z), "pairs": decoded[k].pairs, "repeats": settings.repeats},
        }
        guesses, best = decoded[k].guesses, decoded[-1].guesses
        control = decoded[len(pairs) + k].guesses if known is not None else None
        if blocks is None:
            leaks.append(
                r2_leak(
                    targets,
                    guesses,
                    control,
                    best,
                    draws=settings.draws,
                    seed=settings.seed,
                    **about,
                )
            )
        else:
            leaks.append(_accuracy_leak(targets, guesses, control, best, settings.draws, about))
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
