"""Audits of releases: what attackers get, beside what is promised, with verdicts in plain words.

Functions are named by what they audit: `audit_codes`, `audit_mean` and `audit_update` ("what if",
before anything is sent), `audit_views` (what defences of codes would cost), `audit_ledger` and
`audit_run` (the releases that a run kept as they left; nothing is trained for them). Each returns
an `Audit` with ``table()``, ``to_json()``, ``to_html()`` and ``write(folder)``. `AUDITORS` has one
auditor for each type of release.
"""

from cofill.audit._audit import Audit, join_audits
from cofill.audit._auditors import (
    AUDITORS,
    Auditor,
    describe_entries,
    describe_guarantee,
    not_attacked,
)
from cofill.audit._bound import (
    EpsilonBound,
    bound_from_counts,
    bound_from_scores,
    bound_of_event,
    bound_of_leak,
    prove_epsilon,
)
from cofill.audit._code_trial import (
    AttackedCodes,
    HeldOut,
    TrialSettings,
    attack_codes,
    code_widths,
    complete_held_out,
    completion_error,
    encode_views,
    fit_defended,
    hold_out,
    inferred_share,
    least_inferred,
    sent_codes,
    weigh_defences,
)
from cofill.audit._codes import CodeAuditSettings, CodeRelease, audit_codes
from cofill.audit._evidence import Evidence, read_evidence
from cofill.audit._files import code_files, mean_files, training_rows
from cofill.audit._least_leak import least_leaks
from cofill.audit._ledger import audit_ledger
from cofill.audit._mean import MeanAuditSettings, audit_mean
from cofill.audit._page import audit_body
from cofill.audit._release import Anonymity, AuditedRelease, Claim, anonymity
from cofill.audit._run import audit_run
from cofill.audit._update import UpdateAuditSettings, audit_update
from cofill.audit._verdict import SCALE, SCALE_WORDS, Verdict, advantage, level_of
from cofill.audit._view_trial import ViewAuditSettings
from cofill.audit._views import audit_views

__all__ = [
    "AUDITORS",
    "SCALE",
    "SCALE_WORDS",
    "Anonymity",
    "AttackedCodes",
    "Audit",
    "AuditedRelease",
    "Auditor",
    "Claim",
    "CodeAuditSettings",
    "CodeRelease",
    "EpsilonBound",
    "Evidence",
    "HeldOut",
    "MeanAuditSettings",
    "TrialSettings",
    "UpdateAuditSettings",
    "Verdict",
    "ViewAuditSettings",
    "advantage",
    "anonymity",
    "attack_codes",
    "audit_body",
    "audit_codes",
    "audit_ledger",
    "audit_mean",
    "audit_run",
    "audit_update",
    "audit_views",
    "bound_from_counts",
    "bound_from_scores",
    "bound_of_event",
    "bound_of_leak",
    "code_files",
    "code_widths",
    "complete_held_out",
    "completion_error",
    "describe_entries",
    "describe_guarantee",
    "encode_views",
    "fit_defended",
    "hold_out",
    "inferred_share",
    "join_audits",
    "least_inferred",
    "least_leaks",
    "level_of",
    "mean_files",
    "not_attacked",
    "prove_epsilon",
    "read_evidence",
    "sent_codes",
    "training_rows",
    "weigh_defences",
]
