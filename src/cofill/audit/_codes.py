"""An audit of released codes: rows behind them, attributes, linkage, and who looks alike."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.attack import (
    DecoderSettings,
    Leak,
    LinkageSettings,
    PairCount,
    as_matrix,
    check_same_people,
    check_varied,
    infer_attribute,
    invert_codes,
    link_codes,
)
from cofill.audit._audit import Audit
from cofill.audit._release import AuditedRelease, anonymity
from cofill.nets import FusionSettings

_PAIRS: tuple[PairCount, ...] = (0, 10, 100, "all")


@dataclass(frozen=True, eq=False)
class CodeRelease:
    """Codes that one site sent, the rows behind them, and whose they are."""

    codes: Float[np.ndarray, "people width"]
    rows: Float[np.ndarray, "people columns"]
    ids: np.ndarray


@dataclass(frozen=True)
class CodeAuditSettings:
    """How codes are attacked.

    Parameters
    ----------
    pairs
        Numbers of people whose code and row the attacker has; 0 is tried where there are public
        rows, and numbers that are too large for the people at hand are left out with a note.
    decoders, linkage
        Settings of the attacks.
    k
        Groups of people who look alike are too small below this.
    """

    pairs: tuple[PairCount, ...] = _PAIRS
    decoders: DecoderSettings = field(default_factory=lambda: DecoderSettings(repeats=1))
    linkage: LinkageSettings = field(default_factory=lambda: LinkageSettings(repeats=1))
    k: int = 5


def linear_decoders(settings: CodeAuditSettings) -> DecoderSettings:
    """Return decoders by ridge regression alone, which take no time."""
    return replace(settings.decoders, fusion=FusionSettings(hidden=()))


def audit_codes(
    codes: Any,
    rows: Any,
    *,
    known: Any = None,
    public: Any = None,
    attribute: Any = None,
    attribute_name: str = "attribute",
    second: Any = None,
    sender: str = "site",
    receiver: str = "receiver",
    settings: CodeAuditSettings | None = None,
) -> Audit:
    """Attack codes as their receiver could.

    Parameters
    ----------
    codes, rows
        What was released and what is private, people in the same order.
    known
        What the receiver has of the same people anyway: the control.
    public
        Rows of other people of the same kind, for the attack without any pair.
    attribute, attribute_name
        A private fact about each person, to be inferred from the codes.
    second
        Codes of the same people from another site, for linkage.
    sender, receiver
        Names for the report.
    settings
        How to attack.

    Examples
    --------
    >>> import numpy as np
    >>> from cofill.nets import FusionSettings
    >>> x = np.random.default_rng(0).normal(size=(60, 3))
    >>> linear = DecoderSettings(repeats=1, fusion=FusionSettings(hidden=()))
    >>> audit = audit_codes(x @ np.ones((3, 4)) + x[:, [0, 1, 2, 0]], x,
    ...                     settings=CodeAuditSettings(pairs=(20,), decoders=linear))
    >>> audit.verdict, audit.releases[0].anonymity[0].smallest
    ('near-total', 1)
    """
    settings = settings or CodeAuditSettings()
    started = time.perf_counter()
    matrix = as_matrix("codes", codes, least=10)
    check_varied("codes", matrix)
    leaks, notes = code_leaks(matrix, rows, settings, known=known, public=public)
    if attribute is not None:
        leaks += infer_attribute(
            matrix,
            attribute,
            public=known,
            pairs=_possible(settings.pairs, len(matrix), settings.decoders.folds)[0],
            name=attribute_name,
            settings=settings.decoders,
        )
    if second is not None:
        leaks += linkage_leaks(matrix, second, settings)
    release = AuditedRelease(
        kind="codes",
        sender=sender,
        receiver=receiver,
        what=f"codes of {matrix.shape[1]} numbers each",
        individuals=len(matrix),
        bytes=matrix.nbytes,
        leaks=leaks,
        anonymity=anonymity(matrix, k=settings.k),
        notes=notes,
    )
    return Audit(
        title="Codes",
        releases=(release,),
        settings={"audit": "codes", **_plain(settings)},
        duration_s=time.perf_counter() - started,
    )


def code_leaks(
    codes: Any, rows: Any, settings: CodeAuditSettings, *, known: Any = None, public: Any = None
) -> tuple[tuple[Leak, ...], tuple[str, ...]]:
    """Return what inversion gets out of codes, and what could not be tried."""
    z, x = as_matrix("codes", codes, least=10), as_matrix("rows", rows, least=10)
    check_same_people(codes=z, rows=x)  # before the number of people decides on pairs
    pairs, notes = _possible(settings.pairs, len(z), settings.decoders.folds)
    if 0 in settings.pairs:
        if public is None:
            notes.append("the attack without pairs needs public rows of other people: not tried")
        else:
            pairs = [0, *pairs]
    leaks = invert_codes(z, x, pairs=pairs, known=known, public=public, settings=settings.decoders)
    return leaks, tuple(notes)


def linkage_leaks(first: Any, second: Any, settings: CodeAuditSettings) -> tuple[Leak, ...]:
    """Return what linkage gets out of the codes of two sites."""
    most = min(len(first), settings.linkage.most_people) - 10
    pairs = [p for p in settings.pairs if isinstance(p, int) and p <= most]
    return link_codes(first, second, pairs=pairs, settings=settings.linkage)


def with_words(leaks: Sequence[Leak], words: str, *notes: str) -> tuple[Leak, ...]:
    """Return leaks with words behind their names and further notes."""
    return tuple(
        replace(leak, name=f"{leak.name}, {words}", notes=(*leak.notes, *notes)) for leak in leaks
    )


def _possible(
    pairs: Sequence[PairCount], people: int, folds: int
) -> tuple[list[PairCount], list[str]]:
    """Return the numbers of pairs above 0 that so many people allow, and a note about others."""
    pool = people - -(-people // folds)
    wanted = [p for p in pairs if p != 0]
    possible = [p for p in wanted if not isinstance(p, int) or p <= pool]
    left = [str(p) for p in wanted if p not in possible]
    notes = [f"{people} people are too few for {', '.join(left)} pairs: not tried"] if left else []
    return possible or ["all"], notes


def _plain(settings: CodeAuditSettings) -> dict[str, Any]:
    names = ("repeats", "folds", "most_people", "seed")
    decoders = {name: getattr(settings.decoders, name) for name in names}
    return {"pairs": list(settings.pairs), "k": settings.k, **decoders}
