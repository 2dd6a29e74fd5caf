"""Commands of other distributions: added by their entry points, and named when they are missing."""

from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from cofill.cli._plugins import GROUP, add_plugins
from cofill.errors import InputError


def greet(name: str) -> None:
    typer.echo(f"hello {name}")


more = typer.Typer()
more.command("greet")(greet)
more.command("wave")(greet)


def app_with(*points):
    app = typer.Typer()
    app.command("first")(greet)
    add_plugins(app, lambda command: command, [EntryPoint(n, v, GROUP) for n, v in points])
    return app


@pytest.fixture
def _as_module(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "some_plugin", sys.modules[__name__])


@pytest.mark.usefixtures("_as_module")
def test_functions_and_applications_become_commands():
    app = app_with(("second", "some_plugin:greet"), ("third", "some_plugin:more"))
    for words in (["second", "Ada"], ["third", "greet", "Ada"]):
        assert CliRunner().invoke(app, words).output == "hello Ada\n"


@pytest.mark.parametrize("points", [(), (("reproduce", "no_such_module:reproduce"),)])
def test_without_the_papers_one_sentence_says_how_to_install_them(points):
    app = app_with(*points)
    result = CliRunner().invoke(app, ["reproduce", "cube", "--quick"])
    assert isinstance(result.exception, InputError)  # which ends the command with exit code 2
    assert "pip install cofill-papers" in str(result.exception)
    assert CliRunner().invoke(app, ["first", "Ada"]).output == "hello Ada\n"
