"""Audits of releases: what attackers get, beside what is promised, with verdicts in plain words.

``cofill.audit`` is this package. Its functions are named by what they audit, so that none has to
share the package's name: `audit_codes`, `audit_mean`, `audit_update` (all also "what if", before
anything is sent), `audit_views` (what defences of codes would cost), `audit_ledger` and
`audit_run`. Each returns an `Audit` with ``table()``,
``to_json()``, ``to_html()`` and ``write(folder)``.

Audits of runs attack the releases that the run kept as they left; nothing is trained for them.

::

    _verdict    the scale
    _bound      the ε that an attack proves
    _anonymity  how many people look alike
    _release    one audited release, and what to change about it
    _audit      an audit, its curves and its record
    _page       the report
    _codes      codes
    _held_out   people whose rows are asked, and who knows the answers
    _code_trial systems with defences: fitted, attacked, judged
    _least_leak how little codes can leak at a given error
    _view_settings, _view_trial, _view_choice, _views
                defences of codes, before any are sent
    _mechanism  telling neighbours apart by a noisy mean
    _mean       a mean, before it is released
    _update     updates and trained networks, before they are sent
    _evidence   what was sent, and the owner's rows
    _auditors   one auditor for each type of release
    _sent_codes, _sent_sums, _sent_updates
                auditors of what was sent
    _ledger     all of a ledger
    _run        the folder of a finished run
    _files      files in, a report out
"""

from cofill.audit._anonymity import Anonymity, anonymity
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
)
from cofill.audit._code_trial import (
    AttackedCodes,
    TrialSettings,
    attack_codes,
    code_widths,
    complete_held_out,
    completion_error,
    encode_views,
    fit_defended,
    inferred_share,
    least_inferred,
    sent_codes,
    weigh_defences,
)
from cofill.audit._codes import CodeAuditSettings, CodeRelease, audit_codes
from cofill.audit._evidence import Evidence, read_evidence
from cofill.audit._files import CodeFiles, code_files, mean_files, training_rows
from cofill.audit._held_out import HeldOut, hold_out
from cofill.audit._least_leak import least_leak, least_leaks
from cofill.audit._ledger import audit_ledger
from cofill.audit._mean import MeanAuditSettings, audit_mean
from cofill.audit._mechanism import prove_epsilon
from cofill.audit._release import AuditedRelease, Claim
from cofill.audit._run import audit_run
from cofill.audit._update import UpdateAuditSettings, audit_update
from cofill.audit._verdict import SCALE, SCALE_WORDS, Verdict, advantage, level_of
from cofill.audit._view_settings import ViewAuditSettings
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
    "CodeFiles",
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
    "least_leak",
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
