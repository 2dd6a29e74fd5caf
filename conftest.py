"""Set-up of every test and doctest: quick compilation, checked array shapes, the data folder."""

import ast
import functools
import os
import re
import shutil
import sys
import tempfile
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any, get_args

# A worker has a core: more threads would wait for each other. Read when NumPy is imported.
for library in ("OMP", "OPENBLAS"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# Runs force hundreds of small files to disk, and tests would wait for it.
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108  pytest makes a folder of its own in it
if os.access(MEMORY_FOLDER, os.W_OK) and shutil.disk_usage(MEMORY_FOLDER).free > 4 * 2**30:
    os.environ.setdefault("TMPDIR", str(MEMORY_FOLDER))
    tempfile.tempdir = None  # it may have been looked up before

from beartype import beartype  # noqa: E402
from jaxtyping import AbstractArray, AbstractDtype, jaxtyped  # noqa: E402

# Most of the gate's time goes into compiling small programs that run once: compile them quickly
# instead of well. Processes that tests start inherit this.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1",
)


# --- every annotated array shape is checked while the tests run ---------------------------------
# jaxtyping's own import hook checks all arguments of all functions, local ones anew whenever they
# are defined, which was half of the gate's time. Types without shapes are basedpyright's.


def _has_shape(annotation: Any, names: dict) -> bool:
    """Tell whether an annotation, or a part of it, is an array type with a shape."""
    if isinstance(annotation, str):
        return any(_has_shape(names.get(word), {}) for word in re.findall(r"\w+", annotation))
    if isinstance(annotation, type) and issubclass(annotation, AbstractArray | AbstractDtype):
        return True
    return any(_has_shape(part, names) for part in get_args(annotation))


def check_shapes(thing: Any) -> Any:
    """Return a function or class that checks the shapes it is annotated with."""
    names = getattr(thing, "__globals__", None) or vars(sys.modules[thing.__module__])
    annotations = vars(thing).get("__annotations__", {}) if isinstance(thing, type) else None
    if annotations is None:
        annotations = getattr(thing, "__annotations__", {})
    if not any(_has_shape(annotation, names) for annotation in annotations.values()):
        return thing
    checked = jaxtyped(thing, typechecker=beartype)
    return checked if isinstance(thing, type) else _often(checked, thing)


def _often(checked: Any, plain: Any) -> Any:
    """Return a function that is checked in its first fifty calls, and later now and then.

    Arithmetic on shares calls small functions a hundred thousand times, of which a check takes
    longer than what they do.
    """
    calls = 0

    @functools.wraps(plain)
    def sampled(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        return (checked if calls <= 50 or calls % 50 == 0 else plain)(*args, **options)

    return sampled


class _CheckingLoader(SourceFileLoader):
    """Loads a module with `check_shapes` around its functions, methods and classes."""

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:
        tree = ast.parse(data, path)
        outer = list(tree.body)
        for node in outer:
            if isinstance(node, ast.ClassDef):
                outer += node.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                check = ast.parse("__import__('sys').modules['cofill_shapes'].check_shapes").body[0]
                for part in ast.walk(check):
                    ast.copy_location(part, node)
                # Innermost on a function, whose decorators may hide its annotations; outermost on
                # a class, which is a dataclass only once it is decorated.
                place = 0 if isinstance(node, ast.ClassDef) else len(node.decorator_list)
                node.decorator_list.insert(place, check.value)
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)

    # Bytecode that checks lies beside the other, under a name of its own.
    def get_data(self, path: str) -> bytes:
        return super().get_data(re.sub(r"\.pyc$", ".shapes.pyc", path))

    def set_data(self, path: str, data: Any, **options: Any) -> None:
        super().set_data(re.sub(r"\.pyc$", ".shapes.pyc", path), data, **options)


class _CheckingFinder:
    """Finds the modules of this project for `_CheckingLoader`."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in ("cofill", "cofill_papers"):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _CheckingLoader(spec.loader.name, spec.loader.path)
        return spec


sys.modules["cofill_shapes"] = sys.modules[__name__]
sys.meta_path.insert(0, _CheckingFinder)

from cofill.paths import keep_compiled_programs  # noqa: E402  after the hook

keep_compiled_programs()

# What cofill imports under the hook is kept as bytecode that only the hook reads. Imported here,
# it is kept for the processes that tests start too, which would compile it again each time.
import equinox  # noqa: E402, F401
import hypothesis  # noqa: E402
import jax  # noqa: E402, F401
import optax  # noqa: E402, F401
import pandas  # noqa: E402, F401
import pyarrow  # noqa: E402, F401
import scipy.stats  # noqa: E402, F401
import sklearn.linear_model  # noqa: E402
import sklearn.model_selection  # noqa: E402, F401

# How long an example takes tells of the machine's other work and of what it was first to import.
hypothesis.settings.register_profile("cofill", deadline=None)
hypothesis.settings.load_profile("cofill")

SHARED_DATA = Path(__file__).parents[1] / "shared" / "data"
if "COFILL_DATA" not in os.environ and SHARED_DATA.is_dir():
    os.environ["COFILL_DATA"] = str(SHARED_DATA)


# Files that take longest, longest first: a worker that gets one in the end leaves the other idle.
_LONG_FILES = ("test_kills_private.py", "test_kills_cooperate.py", "test_kills_federate.py")
_LONG_FILES += ("test_federation.py", "test_means.py", "test_train.py", "test_crs.py")
_LONG_FILES += ("test_place.py", "test_by_row.py", "test_invariants.py", "test_settings.py")


def pytest_collection_modifyitems(items) -> None:  # noqa: ANN001
    """Run the longest files first, so that both workers end together."""
    rank = {name: k for k, name in enumerate(_LONG_FILES)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))
