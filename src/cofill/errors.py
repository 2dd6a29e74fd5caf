"""What can go wrong, as a tree of exceptions whose messages are one sentence and name no person.

::

    CofillError
    ├── InputError        what the user gave cannot be used (exit code 2)
    │   ├── DataError     a file, table, column or id
    │   └── SettingError  a parameter or option
    ├── StoreError        a saved model or record is damaged, foreign or too new (exit code 2)
    └── TrainingError     a network diverged and smaller steps did not help (exit code 1)

Every message says which thing is wrong, what was required, what was received and the way out. It
never contains a cell or an id: counts, line numbers and column names are enough to find the fault.
"""

__all__ = ["CofillError", "DataError", "InputError", "SettingError", "StoreError", "TrainingError"]


class CofillError(Exception):
    """Root of everything cofill raises on purpose."""


class InputError(CofillError, ValueError):
    """What the user gave cannot be used; the command ends with exit code 2."""


class DataError(InputError):
    """A file, table, column or id cannot be used."""


class SettingError(InputError):
    """A parameter or option cannot be used."""


class StoreError(InputError):
    """A saved model or record is damaged, foreign or too new."""


class TrainingError(CofillError, RuntimeError):
    """A network diverged and training it with smaller steps did not help."""
