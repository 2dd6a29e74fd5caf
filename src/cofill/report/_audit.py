"""What attackers learn: from released means, and by audits of everything that was released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from cofill.pages import (
    VERDICT_TONES,
    Cell,
    Curve,
    Part,
    Quantity,
    Section,
    badge,
    bullets,
    details,
    draw_curves,
    heading,
    join,
    note,
    paragraph,
    table_html,
)
from cofill.report._records import Records, headed_section

_LEAK_HINTS = {
    "attack": "",
    "on": "",
    "figure": "",
    "floor": "what somebody reaches who guesses",
    "control": "what the same attacker reaches without the release",
    "reached": "what the attack reached; hover a number for the threat model",
    "95 % interval": "",
    "ceiling": "what nobody should exceed",
    "about": "individual: the release tells of a person; population: of people like these",
}
"""Columns of the table of attacks, with their explanations."""


def attacks(records: Records) -> Section | None:
    """Return what every attack on a released mean guessed, beside floor and ceiling."""
    return headed_section(
        "What a released mean gave away",
        "attacks",
        "Somebody who has the records without the class, and the mean of a class, guesses "
        "everybody's class.",
        [(record.title, _attack(record.content)) for record in records.of("attack")],
    )


def _attack(facts: Mapping[str, Any]) -> list[Part]:
    noise = facts.get("noise")
    protected = f"noise {noise}" if noise else "no noise"
    body: list[Part] = [
        paragraph(
            f"{facts['records']:,} records of {facts['features']:,} features, attacked by "
            f"{facts['method']}; the mean had {protected}. The attack expects to be right about "
            f"{_percent(facts['expected_accuracy'])} of them."
        )
    ]
    judged = facts.get("judged")
    if isinstance(judged, Mapping):
        body.append(
            table_html(["who", "individuals", "right", "95 % interval"], _judged_rows(judged))
        )
        body.append(note(str(judged["measured"])))
    if facts.get("notes"):
        body.append(bullets([str(n) for n in facts["notes"]]))
    return body


def _judged_rows(judged: Mapping[str, Any]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for name, group in judged.items():
        if isinstance(group, Mapping) and "accuracy" in group:
            low, high = group["interval_95"]
            interval = f"{_percent(low)} to {_percent(high)}"
            rows.append([name, group["individuals"], _percent(group["accuracy"]), interval])
    for which in ("floor", "ceiling"):
        for name, value in judged.get(which, {}).items():
            rows.append([f"{which}: {name.replace('_', ' ')}", None, _percent(value), "–"])
    return rows


def _percent(share: int | float | None) -> Quantity:
    return Quantity(None if share is None else 100 * share, unit="%", digits=1)


def audit(records: Records) -> Section | None:
    """Return the verdicts and figures of every audit."""
    return headed_section(
        "What an attacker learns",
        "audit",
        "Every release was attacked, or the reason why not is stated. What people like these are "
        "like is kept apart from what the release tells of a person in it.",
        [(record.title, _audited(record.content)) for record in records.of("audit")],
    )


def _audited(facts: Mapping[str, Any]) -> list[Part]:
    body: list[Part] = [
        paragraph("Worst verdict about individuals: ", _badge(facts["verdict"])),
        _verdicts(facts["releases"]),
        *_figures(facts["releases"]),
        details("How to read the verdicts", paragraph(str(facts["scale"]))),
    ]
    if facts["curves"]:
        body.append(heading("What a defence costs"))
        body += draw_curves([Curve.from_dict(curve) for curve in facts["curves"]])
    if facts["notes"]:
        body.append(bullets([str(n) for n in facts["notes"]]))
    return body


def _verdicts(releases: Sequence[Mapping[str, Any]]) -> Markup:
    rows: list[list[Cell]] = []
    for release in releases:
        claim, proof = release.get("claim"), release.get("proof")
        refuted = join(badge("claim refuted", "bad"), " ") if release["refuted"] else ""
        advice = release["change"] if release["leaks"] or proof else release["reason"]
        rows.append(
            [
                release["kind"],
                f"{release['sender']} → {release['receiver']}",
                _badge(release["verdict"]["individual"]),
                None if claim is None else Quantity(claim["epsilon"], digits=2),
                None if proof is None else Quantity(proof["epsilon"], digits=2),
                join(refuted, str(advice)),
            ]
        )
    return table_html(
        ["release", "from → to", "about a person", "claimed ε", "proved ε", "what to change"],
        rows,
        caption="Verdict per release",
        hints={
            "about a person": "how much the release itself tells of somebody in it",
            "claimed ε": "the guarantee that was stated; a dash where there is none",
            "proved ε": "a lower bound: an attack proves that ε cannot be smaller",
        },
    )


def _figures(releases: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Return the figures of all attacks, folded; nothing where there was none."""
    rows: list[list[Cell]] = [
        [
            str(leak["name"]),
            f"{release['kind']} of {release['sender']}",
            str(leak["figure"]),
            Quantity(leak["floor"], digits=3),
            None if leak["control"] is None else Quantity(leak["control"], digits=3),
            Quantity(leak["attack"], digits=3, words=str(leak["threat"])),
            _interval(leak["interval"]),
            None if leak["ceiling"] is None else Quantity(leak["ceiling"], digits=3),
            str(leak["scope"]),
        ]
        for release in releases
        for leak in release["leaks"]
    ]
    hints = {name: words for name, words in _LEAK_HINTS.items() if words}
    table = table_html(list(_LEAK_HINTS), rows, hints=hints)
    title = f"The figures of {len(rows)} attack{'s' * (len(rows) != 1)}"
    return [details(title, table)] if rows else []


def _interval(ends: Sequence[int | float | None]) -> str:
    low, high = ends
    return "–" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def _badge(verdict: str) -> Markup:
    return badge(str(verdict), VERDICT_TONES.get(verdict, "plain"))
