"""What may leave a site: declared types of releases, the gate they pass, the ledger."""

from cofill.privacy._ledger import Gate, Ledger, LedgerEntry
from cofill.privacy._release import BlindedIds, Codes, CodeSpec, Release
from cofill.privacy._tokens import blind, in_order, no_tokens, rows_of, union
from cofill.privacy._updates import GroupSums, Model, Update

__all__ = [
    "BlindedIds",
    "CodeSpec",
    "Codes",
    "Gate",
    "GroupSums",
    "Ledger",
    "LedgerEntry",
    "Model",
    "Release",
    "Update",
    "blind",
    "in_order",
    "no_tokens",
    "rows_of",
    "union",
]
