"""The report of an audit: one page to file, made by `cofill.pages` from nothing but the record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from cofill.attack import Leak
from cofill.audit._release import AuditedRelease
from cofill.audit._verdict import SCALE_WORDS, advantage, is_judged, level_of, shown
from cofill.metrics import versions
from cofill.pages import (
    VERDICT_TONES,
    Cell,
    Page,
    Part,
    Section,
    badge,
    bars,
    bullets,
    details,
    draw_curves,
    join,
    key_figures,
    note,
    paragraph,
    plot,
    strong,
    table_html,
)

if TYPE_CHECKING:
    from cofill.audit._audit import Audit

_HINTS = {
    "floor": "the figure of somebody who guesses",
    "control": "the figure of the same attacker without the release, by what they have anyway",
    "attack": "the figure reached with the release",
    "95 % interval": "of the attack's figure, over people",
    "ceiling": "what nobody should exceed",
    "leak about individuals": "what the release itself tells of a person",
    "inference about people": "what is true of people like these, there or not",
    "claimed": "the guarantee as stated",
    "proved": "no smaller ε is true, at the confidence stated below",
}


_MOST_BARS = 12  # releases, beyond which a picture shows each kind's worst


def page_of(audit: Audit) -> str:
    """Return the report of an audit as HTML.

    Examples
    --------
    >>> from cofill.audit import Audit, AuditedRelease
    >>> keys = AuditedRelease(kind="roster", sender="a", receiver="b", what="keys", personal=False,
    ...                       reason="made from nobody's record")
    >>> page = page_of(Audit(title="A <trial>", releases=(keys,)))
    >>> "A &lt;trial&gt;" in page, "https://" in page.split("<body>")[1]
    (True, False)
    """
    sections = [_summary(audit), _releases(audit)]
    if audit.curves:
        sections.append(Section("What a defence costs", draw_curves(audit.curves)))
    sections += [_reading(audit), _settings(audit)]
    lead = "What an attacker gets from what is released"
    return Page(f"Audit: {audit.title}", lead, sections).html()


def _summary(audit: Audit) -> Section:
    attacked = sum(bool(r.leaks or r.proof) for r in audit.releases)
    figures: list[tuple[str, Part, str]] = [
        ("worst verdict", _verdict(audit.verdict), "about individuals, over all releases"),
        ("releases", str(len(audit.releases)), "types of release by sender"),
        ("attacked", str(attacked), "the others carry a reason why not"),
        ("claims refuted", str(len(audit.refuted)), "guarantees that an attack proves false"),
    ]
    header = [
        "release", "from → to", "leak about individuals", "inference about people", "claimed",
        "proved",
    ]  # fmt: skip
    rows = [
        [
            join(strong(r.kind), f": {r.what}"),
            f"{', '.join(senders)} → {r.receiver}",
            _verdict(r.individual),
            _verdict(r.population) if _has(r, "population") else "–",
            "none" if r.claim is None else f"ε = {r.claim.epsilon:.3g}, δ = {r.claim.delta:.3g}",
            _proved(r),
        ]
        for r, senders in _alike_releases(audit.releases)
    ]
    parts: list[Part] = [key_figures(figures), table_html(header, rows, hints=_HINTS)]
    advised: dict[tuple[str, str], list[str]] = {}
    for r in audit.releases:
        if r.personal:
            advised.setdefault((r.kind, r.change), []).append(r.sender)
    changes = [
        join(strong(f"{kind} from {', '.join(dict.fromkeys(names))}: "), change)
        for (kind, change), names in advised.items()
    ]
    parts += [paragraph(strong("What to change")), bullets(changes)] if changes else []
    if audit.spent:
        spent = [
            f"{site}: ε = {shown(cost)} at δ = {delta:g}"
            for site, (cost, delta) in audit.spent.items()
        ]
        parts += [paragraph("Spent by releases with a guarantee, together: "), bullets(spent)]
    parts += [note(words, tone="warn") for words in audit.notes]
    return Section("Verdict", parts, lead="Each type of release, and what to change about it.")


def _alike_releases(releases: Sequence[AuditedRelease]) -> list[tuple[AuditedRelease, list[str]]]:
    """Return releases that differ in their sender only as one, with all their senders."""
    alike: dict[tuple[object, ...], tuple[AuditedRelease, list[str]]] = {}
    for r in releases:
        key = (
            r.kind, r.what, r.receiver, r.individual, _has(r, "population") and r.population,
            r.claim, r.proof,
        )  # fmt: skip
        alike.setdefault(key, (r, []))[1].append(r.sender)
    return list(alike.values())


def _releases(audit: Audit) -> Section:
    worst = [(r, r.worst) for r in audit.releases]
    judged = [(r, leak) for r, leak in worst if leak is not None]
    parts: list[Part] = []
    if judged:
        judged, counts = _fewer(judged)
        names = _distinct([f"{r.kind}, {r.sender}" for r, _ in judged], [r.what for r, _ in judged])
        names = [
            f"{name}{counts.get(r.kind, '')}: {leak.figure}"
            for name, (r, leak) in zip(names, judged, strict=True)
        ]
        series = {
            figure: [getattr(leak, figure) for _, leak in judged]
            for figure in ("floor", "control", "attack", "ceiling")
        }
        figures = (f"{n}: {leak.attack:.2f}" for n, (_, leak) in zip(names, judged, strict=True))
        parts.append(
            plot(
                bars(names, series, axis="figure of the worst attack", sideways=True),
                "The worst attack on each release, beside floor, control and ceiling.",
                "; ".join(figures),
            )
        )
    parts += [_release(r) for r in audit.releases]
    return Section("What each release gives away", parts)


def _fewer(
    judged: list[tuple[AuditedRelease, Leak]],
) -> tuple[list[tuple[AuditedRelease, Leak]], dict[str, str]]:
    """Keep, of many releases, each kind's worst; say in words of how many each is the worst."""
    if len(judged) <= _MOST_BARS:
        return judged, {}
    by: dict[str, list[tuple[AuditedRelease, Leak]]] = {}
    for pair in judged:
        by.setdefault(pair[0].kind, []).append(pair)
    worst = [max(pairs, key=lambda pair: advantage(pair[1])) for pairs in by.values()]
    return worst, {kind: f" (worst of {len(all_)})" for kind, all_ in by.items() if len(all_) > 1}


def _release(release: AuditedRelease) -> Markup:
    population: tuple[Part, ...] = ()
    if _has(release, "population"):
        population = "; population: ", _verdict(release.population)
    inner: list[Part] = [
        paragraph(
            strong(release.what),
            f", of {release.individuals:,} people, {release.bytes:,} bytes. Individuals: ",
            _verdict(release.individual),
            *population,
            ".",
        )
    ]
    if release.reason:
        inner.append(paragraph(f"Why no attack: {release.reason}."))
    claimed = str(release.claim) if release.claim else "no guarantee"
    inner.append(paragraph("Claimed: ", claimed, "."))
    if release.proof is not None:
        p = release.proof
        inner.append(
            paragraph(
                f"Proved: ε ≥ {p.epsilon:.3g} at δ = {p.delta:.3g} with confidence "
                f"{100 * p.confidence:g} %, by {p.how} (right {p.true_rate:.3f}, wrong "
                f"{p.false_rate:.3f}, {p.trials:,} trials)."
            )
        )
    for scope, words in (("individual", "About individuals"), ("population", "About a population")):
        leaks = [leak for leak in release.leaks if leak.scope == scope]
        if leaks:
            inner.append(_leaks(leaks, words))
    if release.anonymity:
        inner.append(_alike(release))
    inner += [note(words) for words in release.notes]
    inner.append(paragraph(strong("What to change: "), release.change))
    name = f"{release.kind} from {release.sender} to {release.receiver}"
    return details(f"{name}, {release.what}: {release.individual}", *inner)


def _leaks(leaks: Sequence[Leak], caption: str) -> Markup:
    header = [
        "attack", "figure", "floor", "control", "attack's", "95 % interval", "ceiling", "verdict",
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            leak.name,
            leak.figure,
            shown(leak.floor),
            shown(leak.control),
            shown(leak.attack),
            f"{shown(leak.interval[0])} to {shown(leak.interval[1])}",
            shown(leak.ceiling),
            _verdict(level_of(leak)) if is_judged(leak) else "not judged",
        ]
        for leak in leaks
    ]
    threats = dict.fromkeys(f"{leak.name}: {leak.threat}." for leak in leaks)
    notes = dict.fromkeys(words for leak in leaks for words in leak.notes)
    return join(
        table_html(header, rows, caption=caption, hints={**_HINTS, "attack's": _HINTS["attack"]}),
        paragraph("Who attacks:"),
        bullets(list(threats)),
        bullets(list(notes)) if notes else "",
    )


def _alike(release: AuditedRelease) -> Markup:
    k = release.anonymity[0].k
    rows: list[list[Cell]] = [
        [
            "as released" if rounded.step == 0 else f"to {rounded.step:g} standard deviations",
            rounded.groups,
            rounded.smallest,
            f"{100 * rounded.share_below:.1f} %",
        ]
        for rounded in release.anonymity
    ]
    header = ["values rounded", "groups", "smallest group", f"people in groups below {k}"]
    return table_html(header, rows, caption="How many people look alike (k-anonymity)")


def _reading(audit: Audit) -> Section:
    words = [
        "Floor: the figure of somebody who guesses. Control: the same attacker without the "
        "release. Attack: with it. Ceiling: what nobody should exceed. Larger is always a larger "
        "leak.",
        "A leak about individuals comes from the release itself; inference about a population is "
        "what is true of people like somebody, whether they are in the data or not, and no noise "
        "that keeps the release useful takes it back.",
        "The claimed ε is what somebody states, the proved one a lower bound from an attack's "
        "success with Clopper–Pearson ends. A proved ε above the claimed one refutes the claim; "
        "one below it proves nothing in its favour: a stronger attack may come.",
    ]
    return Section("How to read this", [note(SCALE_WORDS), bullets(words)])


def _settings(audit: Audit) -> Section:
    rows: list[list[Cell]] = [[name, str(value)] for name, value in audit.settings.items()]
    rows.extend([name, version] for name, version in versions().items())
    rows.append(["duration", f"{audit.duration_s:.1f} s"])
    return Section("How it was made", [table_html(["setting", "value"], rows)])


def _has(release: AuditedRelease, scope: str) -> bool:
    return any(leak.scope == scope for leak in release.leaks)


def _proved(release: AuditedRelease) -> Cell:
    if release.proof is None:
        return "–"
    words = f"ε ≥ {release.proof.epsilon:.2g}"
    return badge(f"{words}: refuted", "bad") if release.refuted else words


def _distinct(names: Sequence[str], longer: Sequence[str]) -> list[str]:
    """Return names, longer ones where several are alike, and a number where these are too."""
    first = [
        name if names.count(name) == 1 else more for name, more in zip(names, longer, strict=True)
    ]
    return [name if first.count(name) == 1 else f"{name} ({k + 1})" for k, name in enumerate(first)]


def _verdict(verdict: str) -> Markup:
    return badge(verdict, VERDICT_TONES.get(verdict, "plain"))
