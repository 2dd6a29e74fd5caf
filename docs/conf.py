"""Settings of Sphinx. Everything comes from this repository, nothing from the network."""

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

import cofill  # noqa: E402  after the path

project = "cofill"
author = "the cofill authors"
version = release = cofill.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "blocks",
    "mathml",
]
exclude_patterns = ["_build", "_ext"]
smartquotes_action = "D"  # dashes only
default_role = "py:obj"  # `Name` in a docstring links to what it names

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"cofill {version}"
html_math_renderer = "mathml"
html_show_copyright = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["cofill.css"]
html_copy_source = False


_property_lines: dict[str, list[str]] = {}


def _skip(_app: Any, _what: str, name: str, _value: Any, skip: bool, _options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def _keep(_app: Any, what: str, name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """Save a property's docstring: napoleon would read words before a colon as its type."""
    if what == "property":
        _property_lines[name] = list(lines)


def _restore(_app: Any, what: str, name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    if what == "property":
        lines[:] = _property_lines.pop(name)


def _shorten(
    _app: Any,
    _what: str,
    _name: str,
    _value: Any,
    _options: Any,
    arguments: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Shorten the name of JAX's array type."""
    short = [text and text.replace("jaxlib._jax.Array", "Array") for text in (arguments, returned)]
    return short[0], short[1]


def setup(app: Any) -> None:
    """Connect the functions above to Sphinx."""
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _keep, priority=400)
    app.connect("autodoc-process-docstring", _restore, priority=600)
    app.connect("autodoc-process-signature", _shorten)
