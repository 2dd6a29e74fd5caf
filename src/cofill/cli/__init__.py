"""The command: parse, call, show progress, print. Faults of the input end with exit code 2."""

from cofill.cli._app import app, main
from cofill.cli._options import examples
from cofill.cli._show import console, progress_line

__all__ = ["app", "console", "examples", "main", "progress_line"]
