"""Write the command reference as Markdown from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer
import typer.core
import typer.main

from cofill.cli import app
from cofill.cli._options import HEADING
from cofill.completion import methods as registered


def reference() -> str:
    """Return a section for every command: what it does, examples, arguments and options."""
    return "\n\n".join(_section(words, command) for words, command in every_command())


def methods() -> str:
    """Return a table of the completion methods."""
    lines = ["| method | what it does | rows stay with their owner |", "| --- | --- | :---: |"]
    lines += [
        f"| `{m.name}` | {m.summary} | {'no' if m.facts['pools_rows'] else 'yes'} |"
        for m in registered()
    ]
    return "\n".join(lines)


def every_command() -> Iterator[tuple[str, Any]]:
    """Yield every command that can be run, with the words that call it."""
    yield from _walk("cofill", typer.main.get_command(app))


def _walk(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    subcommands = getattr(command, "commands", {})
    if not subcommands or getattr(command, "invoke_without_command", False):
        yield words, command
    for name, subcommand in subcommands.items():
        yield from _walk(f"{words} {name}", subcommand)


def _section(words: str, command: Any) -> str:
    description, _, examples = inspect.cleandoc(command.help or "").partition(HEADING)
    parts = [f"## {words}", _coded(inspect.cleandoc(description))]
    lines = [" ".join(block.split()) for block in examples.split("\n\n") if block.strip()]
    if lines:
        parts.append("```console\n" + "\n".join(lines) + "\n```")
    rows = [_row(p) for p in command.params if not getattr(p, "hidden", False)]
    rows = [row for row in rows if "`--help`" not in row]
    if rows:
        parts.append("\n".join(["| | |", "| --- | --- |", *rows]))
    return "\n\n".join(parts)


def _row(param: Any) -> str:
    placeholder = param.metavar or param.name.upper()
    if isinstance(param, typer.core.TyperArgument):
        name = f"`{placeholder}`"
    else:
        value = "" if param.is_flag else f" {placeholder}"
        names = [*param.opts, *param.secondary_opts]
        name = ", ".join(f"`{option}{value}`" for option in names)
    description = _coded(param.help or "").replace("|", "\\|")
    if param.required:
        description += " **Required.**"
    elif not getattr(param, "is_flag", False) and param.default not in (None, "", ()):
        description += f" Default: `{param.default}`."
    return f"| {name} | {description} |"


def _coded(text: str) -> str:
    """Return words with options as code."""
    parts = text.split("`")  # every second one is code already
    parts[::2] = [re.sub(r"(?<![\w-])(--[a-z][\w-]*)", r"`\1`", part) for part in parts[::2]]
    return "`".join(parts)
