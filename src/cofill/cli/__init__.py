"""The command: parse, call, show progress, print. Faults of the input end with exit code 2."""

from cofill.cli._app import app, main

__all__ = ["app", "main"]
