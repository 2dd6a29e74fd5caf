"""Shared set-up, as in the tests of the library: checked array shapes, kept programs, the data."""

import os
from pathlib import Path

from jaxtyping import install_import_hook

# Compile quickly instead of well: the tests run each program once.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)
install_import_hook(["cofill", "cofill_papers"], "beartype.beartype")

from cofill.paths import keep_compiled_programs  # noqa: E402  after the hook

SHARED_DATA = Path(__file__).parents[3] / "shared" / "data"

keep_compiled_programs()
if "COFILL_DATA" not in os.environ and SHARED_DATA.is_dir():
    os.environ["COFILL_DATA"] = str(SHARED_DATA)
