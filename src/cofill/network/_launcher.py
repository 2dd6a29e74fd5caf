"""How a site starts the process of a run, so that its death does not end the run of the others.

FLARE ends a whole job when one site's process is killed. Where the method can go on without a site
(the job says so), its end is not reported as a failure; the coordinator notices that the site has
gone. Only FLARE's processes import this module; it is named in a site's kit.
"""

from __future__ import annotations

from typing import Any

from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobReturnCode
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle

from cofill.network._order import TOLERATES_ABSENCE


class SiteLauncher(ClientProcessJobLauncher):
    """Starts a run's process at a site."""

    def launch_job(self, job_meta: dict, fl_ctx: FLContext) -> Any:
        """Start it; of a run that goes on without a site, a broken end is no failure."""
        handle: Any = super().launch_job(job_meta, fl_ctx)
        return (
            _Lenient(process_adapter=handle.adapter) if job_meta.get(TOLERATES_ABSENCE) else handle
        )


class _Lenient(ProcessHandle):
    def poll(self) -> Any:
        code = super().poll()
        return JobReturnCode.UNKNOWN if code == JobReturnCode.EXECUTION_ERROR else code
