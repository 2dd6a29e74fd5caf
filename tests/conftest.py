"""Shared set-up of the tests: checked array shapes and a kept compilation cache."""

from jaxtyping import install_import_hook

# Every annotated array shape in cofill is checked while the tests run.
install_import_hook("cofill", "beartype.beartype")
