"""Which jobs a party lets in: FLARE asks here before it builds anything of a job.

Only FLARE's processes import this module; it is named in the kits of coordinator and sites.
"""

from __future__ import annotations

import os
from pathlib import Path

from nvflare.apis.app_validation import AppValidator
from nvflare.lighter.utils import verify_folder_signature_and_get_signers

from cofill.errors import CofillError, SettingError
from cofill.network._account import SiteAccount
from cofill.network._config import SiteConfig
from cofill.network._faults import fault_for_others, note_fault
from cofill.network._job import read_job
from cofill.network._kits import Kit
from cofill.network._order import SITE_CONFIG, SITE_KIT
from cofill.network._policy_check import admit_order
from cofill.protocol import PartyFolder


class JobAdmission(AppValidator):
    """Refuses every job but the one that `cofill federation run` writes."""

    def validate(self, app_folder: str) -> tuple[str, dict]:
        """Return why a job is refused, empty where it is not."""
        try:
            read_job(Path(app_folder))
        except CofillError as error:
            return str(error), {}
        return "", {}


class SiteAdmission(JobAdmission):
    """Refuses also what the site's policy does not allow whatever the settings are.

    The settings are judged by the same policy when the first step is asked for: FLARE waits ten
    seconds for this answer, and a protocol and its engine may take as long to load.
    """

    def validate(self, app_folder: str) -> tuple[str, dict]:
        refused, info = super().validate(app_folder)
        if refused:
            return refused, info
        order, kit = read_job(Path(app_folder)), None
        try:
            if not {SITE_CONFIG, SITE_KIT} <= set(os.environ):
                raise SettingError("this site was not started by `cofill site`; refused")
            kit = Kit.read(Path(os.environ[SITE_KIT]), "site")
            config = SiteConfig.read(Path(os.environ[SITE_CONFIG]))
            account = SiteAccount(config.account_folder, PartyFolder(kit.home))
            admit_order(order, config.policy, account, kit.name, job_signer(kit, Path(app_folder)))
        except Exception as error:  # noqa: BLE001  whatever it is, nothing is built
            if kit is not None:
                note_fault(kit, order, error)
            return fault_for_others(error), {}
        return "", {}


def job_signer(kit: Kit, app: Path) -> str:
    """Return who signed a job, by the federation's certificates; empty if nobody is known to."""
    # Not what the coordinator says of the submitter: it could say anything.
    authority = kit.folder / "startup" / "rootCA.pem"
    is_sound, signers = verify_folder_signature_and_get_signers(str(app), str(authority))
    return str(signers[0][0]) if is_sound and len(signers) == 1 else ""
