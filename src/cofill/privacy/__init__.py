"""What may leave a site: declared types of releases, the gate they pass, the ledger."""

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
