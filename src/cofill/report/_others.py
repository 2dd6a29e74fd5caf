"""What a report does not show: files it does not know, and files it could not read."""

from __future__ import annotations

from cofill.pages import Part, Section, bullets, code, details, join, paragraph
from cofill.report._records import Records

__all__ = ["others"]


def others(records: Records) -> Section | None:
    """Return the names of files that no section is made from."""
    body: list[Part] = []
    if records.damaged:
        body.append(paragraph("These files could not be read, and nothing of them is shown:"))
        body.append(bullets([join(code(n), f": {why}") for n, why in records.damaged.items()]))
    if records.unknown:
        body.append(
            details(
                f"JSON of another kind: {len(records.unknown)}",
                bullets([code(name) for name in records.unknown]),
            )
        )
    if not body:
        return None
    return Section("What is not shown", body, "others")
