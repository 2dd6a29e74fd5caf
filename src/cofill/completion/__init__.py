"""What every completion method shares: its interface, its result, its registry, its evaluation.

Names are imported when they are used: a process that runs a protocol needs the result's type, and
not the estimators' interface with scikit-learn behind it.
"""

from typing import TYPE_CHECKING

from cofill.lazy import lazy_names

if TYPE_CHECKING:
    from cofill.completion._apply import ApplyJob, run_apply
    from cofill.completion._check import check_tables
    from cofill.completion._completed import Completed
    from cofill.completion._completer import (
        AbstractCompleter,
        kept_on_failure,
        merged,
        require_draws,
        require_rows,
    )
    from cofill.completion._evaluate import evaluate
    from cofill.completion._folder import (
        RULES,
        CompletionFolder,
        completed_folder,
        read_records,
    )
    from cofill.completion._intervals import conformal_radius, with_intervals
    from cofill.completion._job import CompletionJob, run_completion
    from cofill.completion._progress import Progress, silent
    from cofill.completion._registry import METHODS, load_model, make, methods
    from cofill.completion._result import CompletionResult
    from cofill.completion._rubin import Pooled, rubin

__all__ = [
    "METHODS",
    "RULES",
    "AbstractCompleter",
    "ApplyJob",
    "Completed",
    "CompletionFolder",
    "CompletionJob",
    "CompletionResult",
    "Pooled",
    "Progress",
    "check_tables",
    "completed_folder",
    "conformal_radius",
    "evaluate",
    "kept_on_failure",
    "load_model",
    "make",
    "merged",
    "methods",
    "read_records",
    "require_draws",
    "require_rows",
    "rubin",
    "run_apply",
    "run_completion",
    "silent",
    "with_intervals",
]

__getattr__, __dir__ = lazy_names(__name__)
