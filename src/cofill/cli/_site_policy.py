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
    from cofill.network import Kit, SiteConfig

SiteKit = Annotated[Path | None, Option("--kit", help="The kit of this site.")]
SiteFile = Annotated[Path | None, Option(help="site.toml; the policy is in its folder.")]


@examples(
    "cofill site policy --out policy.toml",
    "cofill site policy --explain order.json --kit kits/sites/lab --config site.toml",
)
def policy(
    explain: Annotated[
        Path | None, Option(help="An order: JSON with experiment and settings.")
    ] = None,
    out: Annotated[Path | None, Option(help="Write the default policy here.")] = None,
    submitter: Annotated[str, Option(help="Who would give the order.")] = "",
    kit: SiteKit = None,
    config: SiteFile = None,
    listing: Listing = LISTED,
) -> None:
    """Print or write the default policy, or explain what the policy in force says to an order."""
    from cofill.network import DEFAULT_POLICY

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

    return Kit.read(kit, "site"), SiteConfig.read(config)


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
    return explain_order(config.policy, Request(schedule, submitter, notes))
