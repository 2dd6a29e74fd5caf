"""`cofill site policy` and `cofill site approve`: what a site's operator allows, and to whom."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cofill.cli._options import LISTED, Listing, examples
from cofill.errors import SettingError
from cofill.files import write_atomically

if TYPE_CHECKING:
    from cofill.network import Kit, SiteConfig, SitePolicy

SiteKit = Annotated[Path | None, Option("--kit", help="The kit of this site.")]
SiteFile = Annotated[Path | None, Option(help="site.toml; the policy is in its folder.")]


@examples(
    "cofill site policy --out policy.toml",
    "cofill site policy --sign --config site.toml",
    "cofill site policy --explain order.json --kit kits/sites/lab --config site.toml",
)
def policy(
    explain: Annotated[
        Path | None, Option(help="An order: JSON with experiment and settings.")
    ] = None,
    out: Annotated[Path | None, Option(help="Write the default policy here.")] = None,
    sign: Annotated[bool, Option("--sign", help="Have the policy beside --config count.")] = False,
    submitter: Annotated[str, Option(help="Who would give the order.")] = "",
    kit: SiteKit = None,
    config: SiteFile = None,
    yes: Annotated[bool, Option("--yes", help="Do not ask before signing.")] = False,
    listing: Listing = LISTED,
) -> None:
    """Print or write the default policy, sign a policy, or explain what it says to an order.

    A policy that was written or changed counts once it is signed.
    """
    from cofill.network import DEFAULT_POLICY

    if sign:
        _sign(config, yes=yes)
        return
    if explain is None:
        if out is None:
            typer.echo(DEFAULT_POLICY, nl=False)
        elif out.exists():
            raise SettingError(f"{out} exists already and is left as it is; give another file")
        else:
            write_atomically(out, DEFAULT_POLICY.encode())
        return
    participant, site_config = _site(kit, config)
    lines = _explanation(participant, site_config, _read_order(explain), submitter)
    listing.print(lines, lambda: typer.echo("\n".join(lines)))


@examples("cofill site approve RUN --kit kits/sites/lab --config site.toml")
def approve(
    run: Annotated[str, Argument(help="Name of a run that waits for approval.")],
    kit: SiteKit = None,
    config: SiteFile = None,
    yes: Annotated[bool, Option("--yes", help="Do not ask again.")] = False,
) -> None:
    """Show what a run that waits here would send, and approve of it.

    What an audit of such releases finds is in `cofill audit ledger`.
    """
    from cofill.network import SiteAccount, approve_order
    from cofill.protocol import PartyFolder

    participant, site_config = _site(kit, config)
    home = PartyFolder(participant.home)
    waiting = home.read_approval(run)
    if waiting is None:
        raise SettingError(f"no order of run {run!r} waits for approval here")
    order = _order_of(waiting["order"], run)
    for line in _explanation(participant, site_config, order, str(waiting.get("by", ""))):
        typer.echo(line)
    typer.echo(f"settings: {json.dumps(waiting['order']['settings'])}")
    if not yes and not typer.confirm("approve of it?"):
        return
    approve_order(SiteAccount(site_config.account_folder, home), run, getpass.getuser())
    typer.echo(f"approved; whoever ordered {run} can resume it")


site_policy_commands = {"policy": policy, "approve": approve}


def _site(kit: Path | None, config: Path | None) -> tuple[Kit, SiteConfig]:
    if kit is None or config is None:
        raise SettingError("this needs --kit KIT and --config site.toml")
    from cofill.network import Kit, SiteConfig

    return Kit.read(kit, "site"), SiteConfig.read(config, is_unsigned=True)


def _sign(config: Path | None, *, yes: bool) -> None:
    """Show what a policy allows, and have it count if the operator says so."""
    if config is None:
        raise SettingError("this needs --config site.toml, in whose folder the policy is")
    from cofill.network import POLICY_FILE, SiteConfig, sign_policy

    path = config.resolve().parent / POLICY_FILE
    if not path.exists():
        raise SettingError(f"{path} must be there to be signed; without it the default is in force")
    for line in explain_policy(SiteConfig.read(config, is_unsigned=True).policy):
        typer.echo(line)
    if not yes and not typer.confirm("have you read it, and is it to count?"):
        return
    typer.echo(f"signed {path}: {sign_policy(path, getpass.getuser())}")


def explain_policy(policy: SitePolicy) -> list[str]:
    """Return in plain words what a policy allows, and where it allows more than the default."""
    from cofill.network import SitePolicy

    safe, budget = SitePolicy(), policy.budget
    lines = [
        f"takes part in {', '.join(policy.experiments) or 'nothing'}",
        f"tells of no fewer than {policy.smallest_group} people together",
        f"differential privacy of ε = {budget.epsilon:g} in all runs, {budget.per_run:g} in one, "
        f"at δ = {budget.delta:g}",
    ]
    for kind, rule in policy.without_guarantee.items():
        people = rule.people or policy.smallest_group
        whom = f", to {', '.join(rule.to)} only" if rule.to else ""
        mark = "" if kind in safe.without_guarantee else " (not in the default)"
        lines.append(f"without a guarantee: {kind}, of {people} people or more{whom}{mark}")
    looser = {
        "smallest_group": policy.smallest_group < safe.smallest_group,
        "participants": policy.participants < safe.participants,
        "secure_sums": not policy.secure_sums,
        "rounds": policy.rounds > safe.rounds,
        "code_share": policy.code_share > safe.code_share,
        "keyed_hashes": policy.keyed_hashes,
        "training": policy.training != safe.training,
        "budget": budget.epsilon > safe.budget.epsilon or budget.delta > safe.budget.delta,
    }
    more = [name for name, is_looser in looser.items() if is_looser]
    lines.append(f"allows more than the default in {', '.join(more) or 'nothing'}")
    return lines


def _read_order(path: Path) -> Any:
    from cofill.network import new_run

    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise SettingError(f"{path} must be JSON with experiment and settings") from None
    if not isinstance(value, dict) or "experiment" not in value:
        raise SettingError(f"{path} must be a JSON object with experiment and settings")
    return _order_of(value, str(value.get("run") or new_run()))


def _order_of(value: Any, run: str) -> Any:
    from cofill.network import RunOrder

    return RunOrder(run, value["experiment"], value.get("settings", {}))


def _explanation(kit: Kit, config: SiteConfig, order: Any, submitter: str) -> list[str]:
    from cofill.network import Request, explain_order, schedule_of
    from cofill.privacy import Ledger
    from cofill.protocol import PartyFolder

    path = PartyFolder(kit.home).ledger
    notes = Ledger.load(path).notes if path.exists() else ()
    schedule = schedule_of(order, kit.federation)
    request = Request(schedule, submitter, notes, has_images=config.has_images)
    return explain_order(config.policy, request)
