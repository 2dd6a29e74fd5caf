"""What may leave a site: the declared types of releases, the gate they pass, the ledger they enter."""

from cofill.privacy._ledger import Gate, Ledger, LedgerEntry
from cofill.privacy._release import BlindedIds, Codes, CodeSpec, Release, blind

__all__ = [
    "BlindedIds",
    "CodeSpec",
    "Codes",
    "Gate",
    "Ledger",
    "LedgerEntry",
    "Release",
    "blind",
]
