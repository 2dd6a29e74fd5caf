"""What a site's policy says to an order: a sentence for each thing that it does not allow.

One function judges. It knows the order, what the protocol demands of a site for it, who gave it,
and what the site has noted of earlier orders; it reads no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cofill.errors import SettingError
from cofill.network._account import SiteAccount
from cofill.network._config import SiteConfig
from cofill.network._faults import RefusedOrderError
from cofill.network._order import RunOrder, Schedule
from cofill.network._policy import ExperimentRule, SitePolicy
from cofill.privacy import LedgerNote, compose, epsilon
from cofill.protocol import Demands

TAKEN, REFUSED, APPROVED = "taken", "refused", "approved"


@dataclass(frozen=True)
class Request:
    """An order as it reaches a site.

    ``submitter`` is who signed it, empty where nobody is known to have; ``notes`` what the site's
    ledger says of earlier orders; ``is_approved`` whether a person at the site has agreed to this
    very order; ``now`` the time; ``has_images`` whether a view of the site is of images, or may be.
    """

    schedule: Schedule
    submitter: str = ""
    notes: Sequence[LedgerNote] = ()
    is_approved: bool = False
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    has_images: bool = True


def refusals(policy: SitePolicy, request: Request) -> tuple[str, ...]:
    """Return why a site does not take part in a run, a sentence each; empty where it does."""
    order = request.schedule.order
    sentences = [*_about_order(policy, order, request.submitter, request.notes, request.now)]
    rule = policy.experiments.get(order.experiment)
    if rule is None:
        return tuple(sentences)
    demands = request.schedule.protocol.demands
    groups = {**demands.groups, **(demands.image_groups if request.has_images else {})}
    sentences += [*_about_settings(policy, demands, groups), *_about_guarantees(policy, demands)]
    if rule.approval and not request.is_approved and not sentences:
        sentences.append(
            f"a person at the site has to approve of it (`cofill site approve {order.run}`); then "
            "resume the run"
        )
    return tuple(sentences)


def _about_order(
    policy: SitePolicy, order: RunOrder, submitter: str, notes: Sequence[LedgerNote], now: datetime
) -> Iterator[str]:
    """Yield what the policy says to an experiment that somebody orders, whatever its settings."""
    rule = policy.experiments.get(order.experiment)
    if rule is None:
        allowed = ", ".join(policy.experiments) or "none"
        yield (
            f"the site's policy does not allow the experiment {order.experiment!r} (it allows "
            f"{allowed})"
        )
        return
    if rule.people and submitter not in rule.people:
        who = repr(submitter) if submitter else "somebody who has not signed"
        yield f"{order.experiment!r} may be ordered by people whom the policy names, not by {who}"
    if rule.until is not None and now.date() > rule.until:
        yield f"the policy allowed {order.experiment!r} until {rule.until.isoformat()}"
    since = now - timedelta(days=rule.days)
    earlier = {
        note.run
        for note in notes
        if note.what == TAKEN
        and note.experiment == order.experiment
        and note.run != order.run
        and datetime.fromisoformat(note.at) > since
    }
    if len(earlier) >= rule.runs:
        yield (
            f"the policy allows {rule.runs} runs of {order.experiment!r} in {rule.days} days, and "
            f"there were {len(earlier)}"
        )


def _about_settings(
    policy: SitePolicy, demands: Demands, groups: Mapping[str, int]
) -> Iterator[str]:
    for name, value in groups.items():
        if value < policy.smallest_group:
            yield (
                f"{name} must be at least {policy.smallest_group}, the policy's smallest_group, "
                f"got {value}"
            )
    if demands.rounds > policy.rounds:
        yield f"rounds must be at most {policy.rounds} by the policy, got {demands.rounds}"
    if demands.shows_keyed_hashes and not policy.keyed_hashes:
        yield (
            "keyed hashes of ids let others test who is here, and the policy has keyed_hashes = "
            "false; order the run with --set alignment=psi"
        )
    if demands.code_share is not None and demands.code_share > policy.code_share:
        yield (
            f"defence.width must be a share of the columns of at most {policy.code_share:g} by "
            "the policy's code_share; wider codes say too much of a row"
        )
    low, high = policy.training.learning_rate
    for name, rate in demands.learning_rates.items():
        if not low <= rate <= high:
            yield f"{name} must be from {low:g} to {high:g} by the policy, got {rate:g}"
    for name, epochs in demands.epochs.items():
        if epochs < policy.training.epochs:
            yield f"{name} must be at least {policy.training.epochs} by the policy, got {epochs}"


def _about_guarantees(policy: SitePolicy, demands: Demands) -> Iterator[str]:
    for kind in demands.plain:
        if kind not in policy.without_guarantee:
            yield (
                f"releases of the type {kind!r} would leave without a guarantee, and the policy "
                f"has no [without_guarantee.{kind}]; order noise where the experiment has it"
            )
    summed = demands.summed_sites
    if summed is not None and summed < 2 and policy.secure_sums:
        yield (
            "each site's own figures would be seen, and the policy has secure_sums = true; order "
            "secure sums or noise"
        )
    elif summed is not None and summed < policy.participants and policy.secure_sums:
        yield (
            f"a sum over {summed} sites could be opened, and the policy asks for "
            f"{policy.participants} participants; raise the threshold"
        )
    if demands.events:
        budget = policy.spending
        cost = budget.cost([compose(demands.events)])
        if cost > policy.budget.per_run * (1 + 1e-9):
            yield (
                f"the run costs ε = {cost:.4g} at δ = {budget.delta:g}, and the policy allows "
                f"{policy.budget.per_run:g} a run; ask for less or add more noise"
            )


def admit_order(
    order: RunOrder, policy: SitePolicy, account: SiteAccount, site: str, submitter: str
) -> None:
    """Raise a `RefusedOrderError` unless the policy allows an order whatever its settings are.

    So much can be known before the protocol is loaded: the experiment, who ordered it, how often.
    """
    with account.open() as (ledger, _):
        now = datetime.now(UTC)
        refused = tuple(_about_order(policy, order, submitter, ledger.notes, now))
        if refused:
            ledger.write(_decision(REFUSED, now, order, submitter, policy, refused))
    if refused:
        raise RefusedOrderError(f"site {site!r} refuses the run: {'; '.join(refused)}")


def _decision(
    what: str,
    now: datetime,
    order: RunOrder,
    submitter: str,
    policy: SitePolicy,
    refused: tuple[str, ...] = (),
) -> LedgerNote:
    at = now.isoformat(timespec="seconds")
    return LedgerNote(what, at, order.run, order.experiment, submitter, policy.digest, refused)


def judge_order(
    schedule: Schedule, config: SiteConfig, account: SiteAccount, site: str, submitter: str
) -> None:
    """Raise a `SettingError` unless a site's policy allows a run; its ledger notes the decision."""
    order, home, policy = schedule.order, account.home, config.policy
    asked = home.read_approval(order.run) or {}
    is_approved = bool(asked.get("approved_by")) and asked.get("order") == order.to_json()
    with account.open() as (ledger, _):
        request = Request(
            schedule, submitter, ledger.notes, is_approved, has_images=config.has_images
        )
        refused = refusals(policy, request)
        taken = any(note.what == TAKEN and note.run == order.run for note in ledger.notes)
        if refused or not taken:
            what = REFUSED if refused else TAKEN
            ledger.write(_decision(what, request.now, order, submitter, policy, refused))
    if refused:
        if policy.experiments.get(order.experiment, ExperimentRule()).approval:
            home.ask_approval(order.run, {"order": order.to_json(), "by": submitter})
        raise RefusedOrderError(f"site {site!r} refuses the run: {'; '.join(refused)}")


def approve_order(account: SiteAccount, run: str, by: str) -> None:
    """Approve of an order that waits for it; exactly that order, with its settings, is meant."""
    home = account.home
    asked = home.read_approval(run)
    if asked is None:
        raise SettingError(f"no order of run {run!r} waits for approval here")
    order = asked["order"]
    home.ask_approval(run, {**asked, "approved_by": by})
    with account.open() as (ledger, _):
        now = datetime.now(UTC).isoformat(timespec="seconds")
        ledger.write(LedgerNote(APPROVED, now, run, order["experiment"], by))


def explain_order(policy: SitePolicy, request: Request) -> list[str]:
    """Return in plain words what a run would send, with which guarantee, and what is refused."""
    schedule = request.schedule
    demands, order = schedule.protocol.demands, schedule.order
    who = request.submitter or "whoever may submit"
    lines = [f"{order.experiment}, ordered by {who}, with {len(schedule.federation.sites)} sites"]
    if demands.events:
        delta = policy.budget.delta
        cost = epsilon(compose(demands.events), delta)
        lines.append(f"with noise: ε = {cost:.3g} at δ = {delta:g} of what is released in the run")
    for kind in demands.plain:
        rule = policy.spending.allowances.get(kind)
        words = "not allowed" if rule is None else f"allowed, {rule.people} people a figure or more"
        lines.append(f"without a guarantee: {kind} ({words})")
    if not (demands.events or demands.plain):
        lines.append("nothing is declared; the gate judges every release")
    refused = refusals(policy, request)
    lines += [f"refused: {sentence}" for sentence in refused]
    return [*lines, "the site refuses the run" if refused else "the site takes part"]
