"""How long work says how far it is; apart from the estimators, whose imports take a second."""

from collections.abc import Callable

Progress = Callable[[str, float], None]
"""Called with what is being done and the share that is done, from 0 to 1."""


def silent(what: str, share: float) -> None:
    """Report nothing."""
