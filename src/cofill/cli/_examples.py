"""Examples in the help of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

HEADING = "[bold]Examples[/bold]"
Command = TypeVar("Command", bound=Callable[..., None])


def examples(*lines: str) -> Callable[[Command], Command]:
    """Add command lines to what ``--help`` says of a command.

    Examples
    --------
    >>> @examples("cofill methods --json")
    ... def methods() -> None:
    ...     '''List the completion methods.'''
    >>> print(methods.__doc__)
    List the completion methods.
    <BLANKLINE>
    [bold]Examples[/bold]
    <BLANKLINE>
      cofill methods --json
    """

    def add(command: Command) -> Command:
        words = inspect.cleandoc(command.__doc__ or "")
        command.__doc__ = "\n\n".join((words, HEADING, *(f"  {line}" for line in lines)))
        return command

    return add
