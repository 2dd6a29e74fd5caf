"""Code that a test runs at the start of every process of a federation, through `sitecustomize`.

A site draws first weights and secrets from its operating system, which no order can change, so
that two runs of one order differ by as much as two seeds do: folds follow from the order of blinded
people, and penalties from folds. `SEEDED` takes all of it from the order's seed instead. A result
is then that of one process, and a fault shows as a difference.
"""

from pathlib import Path

import pytest

_AFTER_IMPORT = """
import importlib.abc, importlib.machinery, os, sys

ACTIONS = {}


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in ACTIONS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            ACTIONS[name](module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
"""

SEEDED = """
from dataclasses import replace


def seed(cls):
    start_site, start_coordinator = cls.start_site, cls.start_coordinator

    def seeded(protocol):
        return replace(protocol, is_reproducible=True)

    cls.start_site = lambda self, data: start_site(seeded(self), data)
    cls.start_coordinator = lambda self: start_coordinator(seeded(self))


ACTIONS["cofill.cooperate._protocol"] = lambda module: seed(module.CooperativeProtocol)
ACTIONS["cofill.cooperate._private_protocol"] = lambda module: seed(module.PrivateProtocol)
"""


def install(patch: pytest.MonkeyPatch, folder: Path, *codes: str) -> None:
    """Let every Python process that is started from now on run these pieces of code first."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("".join((_AFTER_IMPORT, *codes)))
    patch.setenv("PYTHONPATH", str(folder), prepend=":")
