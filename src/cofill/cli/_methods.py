"""`cofill methods`: which completion methods there are, and what can be set of one."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cofill.cli._options import LISTED, Listing, examples
from cofill.cli._show import POOLED_NOTE, entry_facts, entry_lines, say

if TYPE_CHECKING:
    from cofill.registry import Entry


@examples("cofill methods", "cofill methods cooperative", "cofill methods pooled --json")
def methods(
    name: Annotated[
        str | None, typer.Argument(help="A method, to see its settings.", metavar="[NAME]")
    ] = None,
    listing: Listing = LISTED,
) -> None:
    """List the completion methods, or the settings of one: types, defaults, meanings."""
    from cofill.completion import METHODS

    if name is not None:
        method = METHODS.find(name)
        facts = entry_facts(method, "pools_rows") | {"settings": settings_facts(method)}
        listing.print(facts, lambda: _show_settings(facts))
        return

    def show() -> None:
        lines = entry_lines(METHODS, lambda m: "†" if m.facts.get("pools_rows") else " ")
        typer.echo("\n".join([*lines, POOLED_NOTE]))

    listing.print([entry_facts(m, "pools_rows") for m in METHODS], show)


def settings_facts(entry: Entry) -> list[dict[str, Any]]:
    """Return what can be set of an entry of a registry by --set, for JSON."""
    from cofill.settings import describe_settings

    fixed = entry.facts.get("settings", {})
    facts = []
    for setting in describe_settings(entry.load(), leave=("seed",)):
        default: Any = fixed.get(setting.name, setting.default)
        if is_dataclass(default) and not isinstance(default, type):
            default = asdict(default)
        facts.append({**asdict(setting), "default": default})
    return facts


def _show_settings(facts: dict[str, Any]) -> None:
    say(f"{facts['name']}: {facts['summary']}")
    if not facts["settings"]:
        say("It has no settings.")
    for setting in facts["settings"]:
        default = json.dumps(setting["default"], ensure_ascii=False)
        say(f"\n--set {setting['name']}=…  {setting['type']}; {default} if left out")
        say(f"    {setting['meaning']}")
