"""Which jobs a party lets in: FLARE asks here before it builds anything of a job.

Only FLARE's processes import this module; it is named in the kits of coordinator and sites.
"""

from __future__ import annotations

from pathlib import Path

from nvflare.apis.app_validation import AppValidator

from cofill.errors import CofillError
from cofill.network._job import read_job


class JobAdmission(AppValidator):
    """Refuses every job but the one that `cofill federation run` writes."""

    def validate(self, app_folder: str) -> tuple[str, dict]:
        """Return why a job is refused, empty where it is not."""
        try:
            read_job(Path(app_folder))
        except CofillError as error:
            return str(error), {}
        return "", {}
