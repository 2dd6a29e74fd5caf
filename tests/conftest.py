"""Shared set-up of the tests: checked array shapes, a kept compilation cache, the data folder."""

import os
from pathlib import Path

from jaxtyping import install_import_hook

# Every annotated array shape in cofill is checked while the tests run.
install_import_hook("cofill", "beartype.beartype")

from cofill.places import keep_compiled_programs  # noqa: E402  after the hook

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"

keep_compiled_programs()
if "COFILL_DATA" not in os.environ and SHARED_DATA.is_dir():
    os.environ["COFILL_DATA"] = str(SHARED_DATA)
