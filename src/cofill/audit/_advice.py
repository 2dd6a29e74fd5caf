"""What to change about a release, in one sentence: one rule, from the verdict and the kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cofill.audit._release import AuditedRelease

__all__ = ["advice_on"]

_BY_KIND = {
    "codes": "Send narrower, noised or coarser codes, to fewer receivers and of fewer people, and "
    "do not call codes anonymous.",
    "blinded-ids": "Align by private set intersection (alignment=psi), so that a site cannot test "
    "ids that it guesses.",
    "mean": "Clip to public bounds and add noise for a stated ε (gaussian is the default), or "
    "release the mean of more people.",
    "noisy-mean": "Lower ε, or release the mean of more people.",
    "update": "Sum updates securely over several sites, and clip and noise them for a stated ε.",
    "model": "Train with differentially private steps for a stated ε, or for fewer epochs.",
    "masked-vector": "Put noise for a stated ε under the masks, because the sum is opened.",
    "column-summary": "Send rounded or public ranges in place of the smallest and largest value.",
    "group-sums": "Add noise for a stated ε to sums and counts, or send no group of few people.",
}
_ANY = "Add noise for a stated ε, or do not send it."


def advice_on(release: AuditedRelease) -> str:
    """Return what to change about a release.

    Examples
    --------
    >>> from cofill.attack import share_leak
    >>> from cofill.audit import AuditedRelease
    >>> leak = share_leak(90, 100, name="inversion", threat="a site", figure="share found",
    ...                   scope="individual", floor=0.01)
    >>> advice_on(AuditedRelease(kind="update", sender="a", receiver="b", what="", leaks=(leak,)))
    'Sum updates securely over several sites, and clip and noise them for a stated ε.'
    """
    if release.refuted and release.claim is not None and release.proof is not None:
        return (
            f"Do not state ε = {release.claim.epsilon:g}: an attack proves at least "
            f"{release.proof.epsilon:.2g}; calibrate the noise to the whole record."
        )
    verdict = release.individual
    if verdict in ("considerable", "near-total"):
        return _BY_KIND.get(release.kind, _ANY)
    if verdict == "small":
        return f"If even a small leak is too much: {_lowered(_BY_KIND.get(release.kind, _ANY))}"
    if release.population in ("considerable", "near-total"):
        return (
            "Nothing for the people in it; that it teaches what people are like is its use, and no "
            "noise that keeps the use takes that back."
        )
    if verdict == "not attacked" and release.claim is None:
        return "Nothing was shown by an attack; read the reason and decide whether it must be sent."
    if verdict == "none seen":
        return "Nothing, against the attackers tried here."
    return "Nothing."


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
