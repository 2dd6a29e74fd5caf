"""The report of an audit: one page to file, made by `cofill.pages` from nothing but the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from markupsafe import Markup

from cofill.audit._release import Claim
from cofill.pages import (
    Cell,
    Curve,
    Page,
    Part,
    Section,
    badge,
    bars,
    bullets,
    details,
    draw_curves,
    heading,
    join,
    key_figures,
    note,
    number,
    paragraph,
    plot,
    strong,
    table_html,
    verdict_badge,
)

Facts: TypeAlias = Mapping[str, Any]
"""An audit, a release or a leak as the record has it (`Audit.to_dict`)."""

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


def page_of(audit: Facts) -> str:
    """Return the record of an audit as an HTML page.

    Examples
    --------
    >>> from cofill.audit import Audit, AuditedRelease
    >>> keys = AuditedRelease(kind="roster", sender="a", receiver="b", what="keys", personal=False,
    ...                       reason="made from nobody's record")
    >>> page = page_of(Audit(title="A <trial>", releases=(keys,)).to_dict())
    >>> "A &lt;trial&gt;" in page, "https://" in page.split("<body>")[1]
    (True, False)
    """
    parts = {**_parts(audit), "How it was made": [_settings(audit)]}
    lead = "What an attacker gets from what is released"
    sections = [Section(title, body) for title, body in parts.items()]
    return Page(f"Audit: {audit['title']}", lead, sections).html()


def audit_body(audit: Facts) -> list[Part]:
    """Return the record of an audit as the body of a section, each part under a heading."""
    return [part for title, body in _parts(audit).items() for part in (heading(title), *body)]


def _parts(audit: Facts) -> dict[str, list[Part]]:
    curves = [Curve.from_dict(curve) for curve in audit["curves"]]
    return {
        "Verdict": _summary(audit),
        "What each release gives away": _releases(audit["releases"]),
        **({"What a defence costs": draw_curves(curves)} if curves else {}),
        "How to read this": _reading(audit),
    }


def _summary(audit: Facts) -> list[Part]:
    releases = audit["releases"]
    attacked = sum(bool(r["leaks"] or r["proof"]) for r in releases)
    refuted = sum(r["refuted"] for r in releases)
    figures: list[tuple[str, Part, str]] = [
        ("worst verdict", verdict_badge(audit["verdict"]), "about individuals, over all releases"),
        ("releases", str(len(releases)), "types of release by sender"),
        ("attacked", str(attacked), "the others carry a reason why not"),
        ("claims refuted", str(refuted), "guarantees that an attack proves false"),
    ]
    header = [
        "release", "from → to", "leak about individuals", "inference about people", "claimed",
        "proved",
    ]  # fmt: skip
    rows = [
        [
            join(strong(r["kind"]), f": {r['what']}"),
            f"{', '.join(senders)} → {r['receiver']}",
            verdict_badge(r["verdict"]["individual"]),
            verdict_badge(r["verdict"]["population"]) if _has(r, "population") else "–",
            _claimed(r["claim"]),
            _proved(r),
        ]
        for r, senders in _alike_releases(releases)
    ]
    parts: list[Part] = [
        paragraph("Each type of release, and what to change about it."),
        key_figures(figures),
        table_html(header, rows, hints=_HINTS),
    ]
    advised: dict[tuple[str, str], list[str]] = {}
    for r in releases:
        if r["personal"]:
            advised.setdefault((r["kind"], r["change"]), []).append(r["sender"])
    changes = [
        join(strong(f"{kind} from {', '.join(dict.fromkeys(names))}: "), change)
        for (kind, change), names in advised.items()
    ]
    parts += [paragraph(strong("What to change")), bullets(changes)] if changes else []
    if audit["spent"]:
        spent = [
            f"{site}: ε = {number(float(cost['epsilon']), 3)} at δ = {cost['delta']:g}"
            for site, cost in audit["spent"].items()
        ]
        parts += [paragraph("Spent by releases with a guarantee, together: "), bullets(spent)]
    return [*parts, *(note(words, tone="warn") for words in audit["notes"])]


def _claimed(claim: Facts | None) -> str:
    if claim is None:
        return "none"
    return f"ε = {float(claim['epsilon']):.3g}, δ = {claim['delta']:.3g}"


def _alike_releases(releases: Sequence[Facts]) -> list[tuple[Facts, list[str]]]:
    """Return releases that differ in their sender only as one, with all their senders."""
    alike: dict[str, tuple[Facts, list[str]]] = {}
    for r in releases:
        names = ("kind", "what", "receiver", "verdict", "claim", "proof")
        key = repr([_has(r, "population"), *(r[name] for name in names)])
        alike.setdefault(key, (r, []))[1].append(r["sender"])
    return list(alike.values())


def _releases(releases: Sequence[Facts]) -> list[Part]:
    worst = [(r, _worst(r)) for r in releases]
    judged = [(r, leak) for r, leak in worst if leak is not None]
    parts: list[Part] = []
    if judged:
        judged, counts = _fewer(judged)
        names = _distinct(
            [f"{r['kind']}, {r['sender']}" for r, _ in judged], [r["what"] for r, _ in judged]
        )
        names = [
            f"{name}{counts.get(r['kind'], '')}: {leak['figure']}"
            for name, (r, leak) in zip(names, judged, strict=True)
        ]
        series = {
            figure: [leak[figure] for _, leak in judged]
            for figure in ("floor", "control", "attack", "ceiling")
        }
        figures = (
            f"{n}: {number(k['attack'], 3)}" for n, (_, k) in zip(names, judged, strict=True)
        )
        parts.append(
            plot(
                bars(names, series, axis="figure of the worst attack", sideways=True),
                "The worst attack on each release, beside floor, control and ceiling.",
                "; ".join(figures),
            )
        )
    return [*parts, *(_release(r) for r in releases)]


def _worst(release: Facts) -> Facts | None:
    """Return the leak about individuals behind the verdict, the largest of its place."""
    verdict = release["verdict"]["individual"]
    about = [k for k in release["leaks"] if (k["scope"], k["verdict"]) == ("individual", verdict)]
    return max(about, key=lambda leak: leak["advantage"], default=None)


def _fewer(judged: list[tuple[Facts, Facts]]) -> tuple[list[tuple[Facts, Facts]], dict[str, str]]:
    """Keep, of many releases, each kind's worst; say in words of how many each is the worst."""
    if len(judged) <= _MOST_BARS:
        return judged, {}
    by: dict[str, list[tuple[Facts, Facts]]] = {}
    for pair in judged:
        by.setdefault(pair[0]["kind"], []).append(pair)
    worst = [max(pairs, key=lambda pair: pair[1]["advantage"]) for pairs in by.values()]
    return worst, {kind: f" (worst of {len(all_)})" for kind, all_ in by.items() if len(all_) > 1}


def _release(release: Facts) -> Markup:
    verdict, proof = release["verdict"], release["proof"]
    population: tuple[Part, ...] = ()
    if _has(release, "population"):
        population = "; population: ", verdict_badge(verdict["population"])
    inner: list[Part] = [
        paragraph(
            strong(release["what"]),
            f", of {release['individuals']:,} people, {release['bytes']:,} bytes. Individuals: ",
            verdict_badge(verdict["individual"]),
            *population,
            ".",
        )
    ]
    if release["reason"]:
        inner.append(paragraph(f"Why no attack: {release['reason']}."))
    claim = release["claim"]
    claimed = Claim(**{**claim, "epsilon": float(claim["epsilon"])}) if claim else "no guarantee"
    inner.append(paragraph(f"Claimed: {claimed}."))
    if proof is not None:
        inner.append(
            paragraph(
                f"Proved: ε ≥ {proof['epsilon']:.3g} at δ = {proof['delta']:.3g} with confidence "
                f"{100 * proof['confidence']:g} %, by {proof['how']} (right "
                f"{proof['true_rate']:.3f}, wrong {proof['false_rate']:.3f}, "
                f"{proof['trials']:,} trials)."
            )
        )
    for scope, words in (("individual", "About individuals"), ("population", "About a population")):
        leaks = [leak for leak in release["leaks"] if leak["scope"] == scope]
        if leaks:
            inner.append(_leaks(leaks, words))
    if release["anonymity"]:
        inner.append(_alike(release["anonymity"]))
    inner += [note(words) for words in release["notes"]]
    inner.append(paragraph(strong("What to change: "), release["change"]))
    name = f"{release['kind']} from {release['sender']} to {release['receiver']}"
    return details(f"{name}, {release['what']}: {verdict['individual']}", *inner)


def _leaks(leaks: Sequence[Facts], caption: str) -> Markup:
    header = [
        "attack", "figure", "floor", "control", "attack's", "95 % interval", "ceiling", "verdict",
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            leak["name"],
            leak["figure"],
            *(number(leak[which], 3) for which in ("floor", "control", "attack")),
            " to ".join(number(end, 3) for end in leak["interval"]),
            number(leak["ceiling"], 3),
            verdict_badge(leak["verdict"]),
        ]
        for leak in leaks
    ]
    threats = dict.fromkeys(f"{leak['name']}: {leak['threat']}." for leak in leaks)
    notes = dict.fromkeys(words for leak in leaks for words in leak["notes"])
    return join(
        table_html(header, rows, caption=caption, hints={**_HINTS, "attack's": _HINTS["attack"]}),
        paragraph("Who attacks:"),
        bullets(list(threats)),
        bullets(list(notes)) if notes else "",
    )


def _alike(anonymities: Sequence[Facts]) -> Markup:
    rows: list[list[Cell]] = [
        [
            f"to {rounded['step']:g} standard deviations" if rounded["step"] else "as released",
            rounded["groups"],
            rounded["smallest"],
            f"{100 * rounded['share_below']:.1f} %",
        ]
        for rounded in anonymities
    ]
    below = f"people in groups below {anonymities[0]['k']}"
    header = ["values rounded", "groups", "smallest group", below]
    return table_html(header, rows, caption="How many people look alike (k-anonymity)")


def _reading(audit: Facts) -> list[Part]:
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
    return [note(audit["scale"]), bullets(words)]


def _settings(audit: Facts) -> Markup:
    rows: list[list[Cell]] = [[name, str(value)] for name, value in audit["settings"].items()]
    rows.extend([name, version] for name, version in audit["versions"].items())
    rows.append(["duration", f"{audit['duration_s']:.1f} s"])
    return table_html(["setting", "value"], rows)


def _has(release: Facts, scope: str) -> bool:
    return any(leak["scope"] == scope for leak in release["leaks"])


def _proved(release: Facts) -> Cell:
    if release["proof"] is None:
        return "–"
    words = f"ε ≥ {release['proof']['epsilon']:.2g}"
    return badge(f"{words}: refuted", "bad") if release["refuted"] else words


def _distinct(names: Sequence[str], longer: Sequence[str]) -> list[str]:
    """Return names, longer ones where several are alike, and a number where these are too."""
    first = [
        name if names.count(name) == 1 else more for name, more in zip(names, longer, strict=True)
    ]
    return [name if first.count(name) == 1 else f"{name} ({k + 1})" for k, name in enumerate(first)]
