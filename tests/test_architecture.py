"""Imports: down the layers, never into another package's private modules, never in a circle.

import-linter checks the layers of imports at the top of modules; these checks also see imports
inside functions, and ``"module:name"`` texts by which registries import.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from cofill.cli._plugins import REGISTRIES

ROOT = Path(__file__).parents[1]
SOURCES = {"cofill": ROOT / "src", "cofill_papers": ROOT / "papers/src", "bench": ROOT}
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
TARGET = re.compile(r"(cofill\w*(?:\.\w+)+):\w+")


def modules() -> dict[str, Path]:
    """Return every module of the project by its dotted name."""
    named = {}
    for package, folder in SOURCES.items():
        for path in sorted((folder / package).rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            named[".".join(parts).removesuffix(".__init__")] = path
    return named


MODULES = modules()


@cache
def read_trees() -> dict[str, ast.Module]:
    """Return every module's syntax tree; read when a test needs them, not when it is collected."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the names of modules that a file imports, at its top, in functions or by a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else node.module
        elif isinstance(node, ast.Constant) and (match := TARGET.fullmatch(str(node.value))):
            yield match[1]


def package_of(module: str) -> str:
    """Return the part of the project that may use a module's private names.

    That is ``cofill.views`` for ``cofill.views._sql``, and the whole distribution for another.
    """
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "cofill" else parts[0]


def reaches_inside(importer: str, module: str) -> bool:
    private = any(part.startswith("_") and not part.startswith("__") for part in module.split("."))
    return private and package_of(importer) != package_of(module)


def test_no_package_imports_private_modules_of_another():
    trees = read_trees() | {str(path): ast.parse(path.read_text()) for path in EXAMPLES}
    paths = MODULES | {str(path): path for path in EXAMPLES}
    reaching = {
        (str(paths[name].relative_to(ROOT)), module)
        for name, tree in trees.items()
        for module in imported(tree)
        if module.startswith("cofill") and reaches_inside(name, module)
    }
    assert reaching == set()


def test_imports_inside_functions_go_down_the_layers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    depth = {name.strip(): k for k, layer in enumerate(layers) for name in layer.split("|")}
    upward = []
    for name, tree in read_trees().items():
        # Texts of registries name what is above on purpose: it is imported when it is asked for.
        code = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        importer = name.split(".")[1:2] if name.startswith("cofill.") else []
        for module in (m for node in code for m in imported(node)):
            parts = module.split(".")
            if importer and parts[0] == "cofill" and importer[0] in depth and len(parts) > 1:
                different = importer[0] != parts[1]
                if different and depth[parts[1]] <= depth[importer[0]]:
                    upward.append((name, module))
    assert upward == []


@pytest.mark.parametrize("package", ["cofill", "cofill_papers"])
def test_modules_do_not_import_each_other_in_a_circle(package):
    graph = {}
    for name, tree in read_trees().items():
        # Names for type checkers are never imported when the code runs.
        hidden = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for inner in ast.walk(node)
        }
        code = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in hidden
        ]
        if name.split(".")[0] == package:
            targets = {module for node in code for module in imported(node) if module in MODULES}
            graph[name] = {m for m in targets if m != name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_every_registry_is_listed_by_the_plugins_command():
    declared = {
        f"{package_of(name)}:{node.targets[0].id}"
        for name, tree in read_trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "Registry"
        and isinstance(node.targets[0], ast.Name)
    }
    assert len(declared) > 3
    assert sorted(declared) == sorted(REGISTRIES)


@pytest.mark.parametrize(
    ("importer", "module", "expected"),
    [
        ("cofill.audit._run", "cofill.federate._rounds", True),
        ("cofill.audit._run", "cofill.audit._page", False),
        ("cofill.audit._run", "cofill.federate", False),
        ("bench.network", "cofill.network._order", True),
        ("cofill_papers._draw", "cofill_papers._base", False),
    ],
)
def test_reaching_inside_is_recognised(importer, module, expected):
    assert reaches_inside(importer, module) is expected
