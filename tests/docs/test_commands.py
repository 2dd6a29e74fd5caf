"""Every command line in the pages and in --help is one that the program accepts."""

import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from cofill.cli import app
from cofill.cli._options import HEADING

from .conftest import DOCS, blocks, joined, pages

INLINE = re.compile(r"`(cofill\s[^`]+)`")
ROOT = get_command(app)
README = DOCS.parent / "README.md"


def commands(command=ROOT, words=("cofill",)):
    """Yield every command that can be run, with the words that call it."""
    subcommands = getattr(command, "commands", {})
    if not subcommands or command.invoke_without_command:
        yield words, command
    for name, subcommand in subcommands.items():
        yield from commands(subcommand, (*words, name))


def parse(line):
    """Return the command that a line names, and the words after its name."""
    words = shlex.split(line)[1:]
    comment = next((k for k, word in enumerate(words) if word.startswith("#")), len(words))
    command, words = ROOT, words[:comment]
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def fault(line, *, complete):
    """Return what is wrong with a command line, or None.

    A complete line is parsed as the command would; in running text only names are checked.
    """
    command, words = parse(line)
    known = {option for p in command.params for option in (*p.opts, *p.secondary_opts)}
    if command is ROOT:
        known |= {"--help", "-h"}
        if not words or words[0].startswith("-"):
            return next((f"no option {w}" for w in words if w not in known), None)
        return None if words[0] == "…" else f"no command {words[0]!r}"
    if complete:
        try:
            command.make_context(command.name, list(words))
        except Exception as error:  # noqa: BLE001  whatever the parser says
            return f"{type(error).__name__}: {error}"
        return None
    options = [w.partition("=")[0] for w in words if w.startswith("-")]
    wrong = [w for w in options if w not in known | {"--help", "-h"}]
    return f"no option {wrong[0]}" if wrong else None


def lines():
    """Yield (page, line, complete) for every command line in the pages."""
    for page in (*pages(), README):
        name = str(page.relative_to(DOCS.parent))
        for language, _, text in blocks(page):
            if language in ("console", "bash", "text"):
                stripped = (line.strip() for line in joined(text))
                yield from ((name, line, True) for line in stripped if line.startswith("cofill "))
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for span in INLINE.findall(prose):
            yield name, " ".join(span.split()), False


def test_every_command_line_in_the_pages_is_accepted():
    checked = list(lines())
    assert len(checked) > 60
    wrong = [(page, line, why) for page, line, c in checked if (why := fault(line, complete=c))]
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "complete", "expected"),
    [
        ("cofill compleat --view a=a.csv", True, "no command 'compleat'"),
        ("cofill complete --views a=a.csv --id x --out y", True, "No such option"),
        ("cofill complete --view a=a.csv --id y", True, "MissingParameter"),
        ("cofill complete … --settings x=1", False, "no option --settings"),
        ("cofill federation local --sites three", True, "BadParameter"),
        ("cofill --install-completion", True, None),
        ("cofill complete … --set x=1", False, None),
    ],
)
def test_a_wrong_line_is_detected(line, complete, expected):
    why = fault(line, complete=complete)
    assert (why is None) if expected is None else (expected in why)


@pytest.mark.parametrize("words", [words for words, _ in commands()], ids=" ".join)
def test_help_has_examples_that_can_be_typed(words):
    command = dict(commands())[words]
    description, heading, shown = inspect.cleandoc(command.help or "").partition(HEADING)
    assert description.strip(), "no help"
    assert heading, "no examples"
    examples = [" ".join(part.split()) for part in shown.split("\n\n") if part.strip()]
    for line in examples:
        assert line.startswith(" ".join(words)), line
        assert fault(line, complete=True) is None, line
        assert parse(line)[0] is command


def test_the_reference_has_every_command_and_option():
    import commands as reference

    text = reference.reference()
    for words, command in commands():
        section = text.partition(f"## {' '.join(words)}\n")[2].partition("\n## ")[0]
        for param in command.params:
            names = [o for o in param.opts if o.startswith("--") and o != "--help"]
            assert all(f"`{name}" in section for name in names), (words, names)


def test_help_lists_exit_codes_and_completion():
    shown = subprocess.run(_cofill("--help"), capture_output=True, text=True, check=True).stdout
    assert "0 done, 1 failed" in shown
    assert "130 interrupted" in shown
    assert "--install-completion" in shown


def test_the_shell_completes_commands():
    process = subprocess.run(
        _cofill(),
        env=os.environ | {"_COFILL_COMPLETE": "complete_bash", "COMP_WORDS": "cofill do",
                          "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "cofill do"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.stdout.split() == ["doctor"]
    script = subprocess.run(
        ["bash", "-c", f"{shlex.join(_cofill('--show-completion'))}; true"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "_COFILL_COMPLETE=complete_bash" in script


def _cofill(*words):
    return [str(Path(sys.executable).parent / "cofill"), *words]
