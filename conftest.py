"""Set-up of every test and doctest: quick compilation, checked array shapes, the data folder."""

import os
from pathlib import Path

# A worker has a core: more threads would wait for each other. Read when NumPy is imported.
for library in ("OMP", "OPENBLAS"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

from jaxtyping import install_import_hook  # noqa: E402

# Most of the gate's time goes into compiling small programs that run once: compile them quickly
# instead of well. Processes that tests start inherit this.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1",
)

# Every annotated array shape is checked while the tests run.
install_import_hook(["cofill", "cofill_papers"], "beartype.beartype")

from cofill.paths import keep_compiled_programs  # noqa: E402  after the hook

keep_compiled_programs()

# What cofill imports under the hook is kept as bytecode that only the hook reads. Imported here,
# it is kept for the processes that tests start too, which would compile it again each time.
import equinox  # noqa: E402, F401
import jax  # noqa: E402, F401
import optax  # noqa: E402, F401
import pandas  # noqa: E402, F401
import pyarrow  # noqa: E402, F401
import scipy.stats  # noqa: E402, F401
import sklearn.linear_model  # noqa: E402
import sklearn.model_selection  # noqa: E402, F401

SHARED_DATA = Path(__file__).parents[1] / "shared" / "data"
if "COFILL_DATA" not in os.environ and SHARED_DATA.is_dir():
    os.environ["COFILL_DATA"] = str(SHARED_DATA)


# Files that take longest, longest first: a worker that gets one in the end leaves the other idle.
_LONG_FILES = ("test_federation.py", "test_means.py", "test_train.py", "test_crs.py")
_LONG_FILES += ("test_place.py", "test_by_row.py", "test_invariants.py", "test_settings.py")


def pytest_collection_modifyitems(items) -> None:  # noqa: ANN001
    """Run the longest files first, so that both workers end together."""
    rank = {name: k for k, name in enumerate(_LONG_FILES)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))
