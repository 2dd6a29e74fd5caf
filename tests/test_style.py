"""Words: names that say what they hold, files that hold one idea, people who are "they"."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "src" / "cofill"
FILES = sorted(
    path
    for folder in (CORE, ROOT / "papers/src", ROOT / "bench", ROOT / "examples")
    for path in folder.rglob("*.py")
)
WORDLESS = {"made", "found", "told", "own", "given", "said"}
MOST_LINES = 450
# Kaiming He is a person with that name; a pronoun is followed by neither of these.
PRONOUN = re.compile(r"\b(?:he|his|him|himself|His|He(?!'s| et al))\b")


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and name of every variable, argument, keyword and attribute."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name):
            yield line, node.id
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            yield line, node.arg
        elif isinstance(node, ast.Attribute):
            yield line, node.attr


def words_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every string and comment."""
    words = (tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in words:
            yield token.start[0], token.string


def test_names_say_what_they_hold():
    wordless = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in FILES
        for line, name in names_in(ast.parse(path.read_text(encoding="utf-8")))
        if name in WORDLESS
    ]
    assert wordless == []


def test_files_hold_one_idea():
    long = {
        str(path.relative_to(ROOT)): lines
        for path in FILES
        if path.is_relative_to(CORE)
        and (lines := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }
    assert long == {}


def test_people_are_they():
    gendered = [
        f"{path.relative_to(ROOT)}:{line} {text.strip()[:60]}"
        for path in FILES
        for line, text in words_in(path.read_text(encoding="utf-8"))
        if PRONOUN.search(text)
    ]
    assert gendered == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# what he has anyway", True),
        ('"the mean of one person is his record"', True),
        ('"He sees what is sent"', True),
        ('f"{name} gave him {count} rows"', True),
        ('"He\'s initial weights (He et al. 2015)"', False),
        ('"the history of this"', False),
    ],
)
def test_pronouns_are_recognised(text, expected):
    assert any(PRONOUN.search(words) for _, words in words_in(text)) is expected
