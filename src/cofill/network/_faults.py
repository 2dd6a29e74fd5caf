"""What may be said of a fault: to the site's own people, and to other parties."""

from __future__ import annotations

from cofill.errors import CofillError, DataError, SettingError
from cofill.network._kits import Kit
from cofill.network._order import RunOrder
from cofill.protocol import PartyFolder


class RefusedOrderError(SettingError):
    """A site takes no part, or sends something not: its order and its policy say why, no row."""


class RefusedMessageError(DataError):
    """What another party sent is refused; the sentence is about that, and no row of this site."""


def fault_for_others(error: BaseException) -> str:
    """Return what other parties are told of a site's fault: nothing of its rows and its files.

    Whether a training diverged, or how many of its people lack a view, is told by the site's own
    log. A fault that said so would answer questions about people without passing the gate.
    """
    if isinstance(error, RefusedOrderError | RefusedMessageError):
        return str(error)
    return "it could not do its part; its own log says why"


def public_fault(error: BaseException) -> str:
    """Return what may be said of an error elsewhere: cofill's own sentence, or only its type."""
    if isinstance(error, CofillError):
        return str(error)
    return f"an unexpected {type(error).__name__}; see the site's own log"


def note_fault(kit: Kit, order: RunOrder, error: BaseException) -> None:
    """Leave the whole sentence where the site's own people find it."""
    try:
        folder = PartyFolder(kit.home).run(order.run)
        folder.make()
        folder.write_fault(public_fault(error))
    except (CofillError, OSError):
        return
