"""The report of a folder: its records, through one function per section, onto one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from cofill.errors import CofillError, DataError
from cofill.files import write_atomically
from cofill.metrics import versions
from cofill.pages import (
    Page,
    Part,
    Section,
    bars,
    bullets,
    code,
    details,
    join,
    note,
    paragraph,
    plot,
)
from cofill.report._completion import completion, masks
from cofill.report._distributions import agreement, distributions, images
from cofill.report._errors import errors
from cofill.report._records import Records, find_records
from cofill.report._releases import attacks, audit, releases
from cofill.report._runs import clusters, federation, rounds
from cofill.report._summary import summary

SectionMaker: TypeAlias = Callable[[Records], Section | None]

# Between the summary and what is not shown; each returns None where its records are missing.
_ABOUT_DATA = (completion, errors, masks, distributions, agreement, images, rounds, clusters)
SECTIONS: tuple[SectionMaker, ...] = (*_ABOUT_DATA, federation, releases, attacks, audit)

# What a section raises over a record that lacks a field, or has one of another type.
_BROKEN = (CofillError, LookupError, TypeError, ValueError, AttributeError, ZeroDivisionError)


def report_page(folder: Path | str, *, title: str = "") -> Page:
    """Return the report of all records in a folder; raise a `DataError` where there is none.

    A ``story.json`` in it (``{"format": "cofill-story", "title": …, "subtitle": …, "chapters":
    [{"folder": …, "title": …, "words": [… sentences]}]}``) makes a chapter of each of its folders,
    in its order, with a picture where a chapter has ``bars`` (arguments of `cofill.pages.bars`) and
    ``caption``; without a story, a section is about all folders. Where a chapter has ``"sent":
    false``, its audits are of what might have been sent, and do not count in the summary's leak.
    """
    records = find_records(folder)
    shown = [r for r in records.known if r.kind != "story"]
    if not shown and not records.damaged:
        raise DataError(
            f"{folder} holds no result; give a folder that `cofill complete`, `cluster`, "
            "`reproduce`, `audit` or a federation wrote to"
        )
    stories = [r.content for r in records.of("story") if r.name == "story.json"]
    story: Mapping[str, Any] = stories[0] if stories else {}
    chapters: Sequence[Mapping[str, Any]] = story.get("chapters", [])
    rest = records.outside([str(chapter["folder"]) for chapter in chapters])
    body = [
        _section(summary, records),
        *(_chapter(records, chapter) for chapter in chapters),
        *(_section(maker, rest if chapters else records) for maker in SECTIONS),
        _not_shown(records),
    ]
    name = Path(folder).resolve().name
    used = ", ".join(f"{n} {v}" for n, v in versions().items() if n in ("cofill", "python", "jax"))
    return Page(
        title or str(story.get("title") or f"Report of {name}"),
        str(story.get("subtitle") or "What was completed, how well, and what it gave away."),
        [section for section in body if section is not None],
        f"Made by {used} from {len(shown):,} records. It shows counts and figures; no record of a "
        "person is in it.",
    )


def write_report(folder: Path | str, out: Path | str | None = None, *, title: str = "") -> Path:
    """Write the report of the records in a folder and below as one HTML file; return its path.

    ``out`` is ``report.html`` in the folder when left out. It appears whole or not at all.
    """
    target = Path(folder) / "report.html" if out is None else Path(out)
    write_atomically(target, report_page(folder, title=title).html().encode())
    return target


def _section(maker: SectionMaker, records: Records) -> Section | None:
    """Return a section; a record that is not what it says costs its section, not the report."""
    try:
        return maker(records)
    except _BROKEN as error:
        name, fault = getattr(maker, "__name__", "section"), type(error).__name__
        words = f"This part could not be made: a record lacks what it needs ({fault})."
        return Section(name.replace("_", " ").capitalize(), note(words, tone="bad"), name)


def _chapter(records: Records, chapter: Mapping[str, Any]) -> Section:
    """Return the sections of one folder under one heading."""
    folder = str(chapter["folder"])
    inside = records.inside(folder)
    words: list[Part] = [str(sentence) for sentence in chapter.get("words", ())]
    if "bars" in chapter:
        caption = str(chapter.get("caption", ""))
        words.append(plot(bars(**chapter["bars"]), caption, caption))
    section = Section(str(chapter.get("title") or folder), words)
    parts = [part for maker in SECTIONS if (part := _section(maker, inside)) is not None]
    anchored = [replace(part, anchor=f"{section.anchor}-{part.anchor}") for part in parts]
    return replace(section, parts=anchored)


def _not_shown(records: Records) -> Section | None:
    """Return the names of files that no section is made from."""
    body: list[Part] = []
    if records.damaged:
        body.append(paragraph("These files could not be read, and nothing of them is shown:"))
        body.append(bullets([join(code(n), f": {why}") for n, why in records.damaged.items()]))
    if records.unknown:
        names = bullets([code(name) for name in records.unknown])
        body.append(details(f"JSON of another kind: {len(records.unknown)}", names))
    return Section("What is not shown", body, "others") if body else None
