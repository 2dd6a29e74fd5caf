"""`cofill federation`, `cofill coordinator`, `cofill site`: organisations over a network."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cofill.cli._options import (
    LISTED,
    SHOWN,
    Listing,
    Output,
    Quiet,
    Seed,
    Settings,
    examples,
    settings_of,
)
from cofill.cli._show import COUNTS, console, make_table, progress_line, say
from cofill.errors import SettingError

if TYPE_CHECKING:
    from typer import Context

    from cofill.network import LocalResult, Session
else:
    # What typer hands over is of the class below its own, and tests check annotations.
    Context = typer.Context.__mro__[1]

federation = typer.Typer(
    no_args_is_help=True, help="Set a federation of organisations up, run it, look at it."
)
site = typer.Typer(invoke_without_command=True)

KitOption = Annotated[Path, Option("--kit", help="The kit of this participant.")]
PersonKit = Annotated[Path, Option("--kit", help="The kit of a person who may submit.")]
RunName = Annotated[str, Argument(help="Name of a run.")]
Wait = Annotated[bool, Option("--wait/--no-wait", help="Wait for the result.")]
EXPERIMENTS = "What to run: private, cooperate (by codes), federate, cluster, deep-cluster or mean."


@examples("cofill coordinator --kit kits/coordinator --watch 8080")
def coordinator(
    kit: KitOption,
    watch: Annotated[
        int | None, Option(help="Port of a live page on this machine; 0 takes a free one.", min=0)
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run the coordinator: it sequences sites and forwards what it cannot read."""
    from cofill.network import Kit, serve

    participant = Kit.read(kit, "coordinator")
    where = f"{participant.federation.address}:{participant.federation.port}"
    with nullcontext() if watch is None else _live_page(kit, watch) as page:

        def ready() -> None:
            if not quiet:
                typer.echo(f"the coordinator is starting at {where}; stop it with Ctrl-C")
            if page is not None:
                typer.echo(f"live page: {page.url}")

        serve(participant, None, ready=ready)


def _live_page(kit: Path, port: int) -> AbstractContextManager[Any]:
    from cofill.report import watching  # pages are behind it, which few coordinators ask for

    return watching(kit, port=port)


@examples("cofill site --kit kits/sites/lab --config site.toml")
def run_site(
    context: Context,
    kit: Annotated[Path | None, Option("--kit", help="The kit of this site.")] = None,
    config: Annotated[Path | None, Option(help="What it brings and allows: site.toml.")] = None,
    quiet: Quiet = False,
) -> None:
    """Run a site, or look after its keys.

    Its rows stay here; sealed releases leave through its gate.
    """
    if context.invoked_subcommand is not None:
        return
    if kit is None or config is None:
        raise SettingError("cofill site needs --kit KIT and --config site.toml")
    from cofill.network import Kit, SiteConfig, read_people, read_site_views, serve

    participant = Kit.read(kit, "site")
    site_config = SiteConfig.read(config)
    site_config.check_against(participant.federation, participant.name, config)
    # Read before anything starts, so that a fault ends the command with one sentence.
    views = read_site_views(site_config, participant.federation)
    read_people(site_config, participant.federation)

    def ready() -> None:
        if not quiet:
            rows = ", ".join(f"{name}: {len(view):,} individuals" for name, view in views.items())
            typer.echo(f"site {participant.name!r} is starting ({rows}); stop it with Ctrl-C")

    serve(participant, config, ready=ready)


@examples(
    "cofill site keys --kit kits/sites/lab --out lab.json",
    "cofill site keys --kit kits/sites/clinic --pin lab.json",
)
def keys(
    kit: KitOption,
    out: Annotated[Path | None, Option(help="Make keys; write the public ones here.")] = None,
    pin: Annotated[Path | None, Option(help="Pin the public keys of another party.")] = None,
) -> None:
    """Make keys that nobody else has held, or pin the new keys of another party."""
    from cofill.network import Kit, pin_keys, renew_keys
    from cofill.protocol import PartyFolder

    if (out is None) == (pin is None):
        raise SettingError("cofill site keys needs either --out FILE or --pin FILE")
    note = PartyFolder(kit / "cofill").read_kit() if kit.is_dir() else {}
    participant = Kit.read(kit, "coordinator" if note.get("kind") == "coordinator" else "site")
    if out is not None:
        public = renew_keys(participant, out)
        typer.echo(f"{participant.name} has new keys; give {out} to every other party, who pins it")
        typer.echo(f"read them these digits over the telephone: {public.digits(participant.name)}")
    elif pin is not None:
        name, public = pin_keys(participant, pin)
        typer.echo(f"pinned the keys of {name}: {public.digits(name)}")
        typer.echo(f"call {name}; if they read other digits, somebody has put keys in between")


@examples("cofill federation init federation.toml --out kits")
def init(
    config: Annotated[Path, Argument(help="federation.toml", metavar="FEDERATION.TOML")],
    out: Annotated[Path, Option(help="A new folder for the kits.")] = Path("kits"),
    quiet: Quiet = False,
) -> None:
    """Make a start-up kit for the coordinator, each site and each person."""
    from cofill.network import FederationConfig, make_kits

    federation_config = FederationConfig.read(config)
    make_kits(federation_config, out)
    if not quiet:
        typer.echo(
            f"kits are in {out}: coordinator, {len(federation_config.sites)} sites, "
            f"{len(federation_config.people)} people"
        )
        typer.echo("give each participant its own kit by a safe way; sites should make own keys")


@examples("cofill federation run private --kit kits/people/ada --set features=100")
def run_experiment(
    kit: PersonKit,
    experiment: Annotated[str, Argument(help=EXPERIMENTS)] = "private",
    setting: Settings = None,
    seed: Seed = 0,
    wait: Wait = True,
    output: Output = SHOWN,
) -> None:
    """Start a run at all sites."""
    from cofill.network import Kit, RunOrder, new_run, schedule_of

    order = RunOrder(new_run(), experiment, {**settings_of(setting), "seed": seed})
    schedule_of(order, Kit.read(kit, "person").federation)  # a wrong setting ends it here
    _submit(kit, order, output, wait=wait)


@examples("cofill federation resume RUN --kit kits/people/ada")
def resume(
    run: Annotated[str, Argument(help="Name of a run that was cut off, or that a site missed.")],
    kit: PersonKit,
    wait: Wait = True,
    output: Output = SHOWN,
) -> None:
    """Go on with a run from the last step that every site had done.

    Of a run that has finished without a site, that site alone takes what was handed out to it and
    completes its rows.
    """
    with _session(kit) as session:
        state = session.find(run)
        if not state.ended:
            raise SettingError(f"run {run} has not ended ({state.status}); stop it first")
        if state.completed and not session.outcome(state.job)["late"]:
            raise SettingError(f"run {run} has finished; there is nothing to resume")
        order = session.order(run)
    _submit(kit, order, output, wait=wait, resumed=True)


@examples("cofill federation status --kit kits/people/ada")
def status(kit: PersonKit, listing: Listing = LISTED) -> None:
    """Say which sites are connected and how runs stand."""
    with _session(kit) as session:
        sites = {name: name in session.sites() for name in session.kit.federation.names}
        runs = session.runs()

    def show() -> None:
        for name, is_connected in sites.items():
            typer.echo(f"site {name}: {'connected' if is_connected else 'not connected'}")
        for run in runs:
            typer.echo(f"run {run.run}: {run.status} ({run.duration})")

    listing.print({"sites": sites, "runs": [vars(run) for run in runs]}, show)


@examples("cofill federation results RUN --kit kits/people/ada --json")
def results(run: RunName, kit: PersonKit, listing: Listing = LISTED) -> None:
    """Show how a run went; completed rows are at the sites, not here."""
    with _session(kit) as session:
        state = session.find(run)
        if not state.ended:
            raise SettingError(f"run {run} has not ended yet ({state.status})")
        outcome = session.outcome(state.job)
    listing.print(outcome, lambda: _show_outcome(outcome))


@examples("cofill federation stop RUN --kit kits/people/ada")
def stop(run: RunName, kit: PersonKit) -> None:
    """Stop a run; results of other runs stay where they are."""
    with _session(kit) as session:
        session.stop(run)
    typer.echo(f"run {run} is being stopped")


@examples("cofill federation ledger --kit kits/sites/lab")
def ledger(kit: KitOption, listing: Listing = LISTED) -> None:
    """Show what has left this site, and check that no line was changed."""
    from cofill.network import Kit
    from cofill.privacy import Ledger

    path = Kit.read(kit, "site").home / "ledger.jsonl"
    entries = Ledger.load(path) if path.exists() else Ledger()

    def show() -> None:
        for entry in entries:
            cost = "no guarantee" if entry.epsilon is None else f"ε = {entry.epsilon:.3g}"
            typer.echo(
                f"{entry.step}: {entry.kind} to {entry.receiver}, {entry.individuals:,} "
                f"individuals, {entry.bytes:,} bytes, {cost}"
            )
        typer.echo(f"{entries}; unchanged; head {entries.head}")

    listing.print(entries.to_list(), show)


@examples(
    "cofill federation local --sites 3 --out trial/",
    "cofill federation local --experiment federate --sites 4 --set rounds=5 --out trial/",
)
def local(
    out: Annotated[Path, Option(help="Folder for the whole federation.")] = Path("federation"),
    experiment: Annotated[str, Option(help=EXPERIMENTS)] = "private",
    sites: Annotated[int, Option(help="How many sites: a view or other people each.")] = 3,
    data: Annotated[
        str | None,
        Option(
            help="A data set; see `cofill datasets list`. wdbc by view, digits by row.",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[float, Option(help="Share of rows each site lacks.")] = 0.3,
    setting: Settings = None,
    seed: Seed = 0,
    output: Output = SHOWN,
) -> None:
    """Try a whole federation on this machine: coordinator and sites as processes, mutual TLS."""
    from cofill.network import run_local

    with progress_line(output.is_silent) as report_progress:
        result = run_local(
            out,
            experiment=experiment,
            sites=sites,
            data=data,
            missing=missing,
            seed=seed,
            settings=settings_of(setting),
            report_progress=report_progress,
        )
    output.print(_local_facts(result), lambda: _show_local(result))


federation_commands = {"init": init, "run": run_experiment} | {
    command.__name__: command for command in (resume, status, results, ledger, stop, local)
}


def _submit(kit: Path, order: Any, output: Output, *, wait: bool, resumed: bool = False) -> None:
    from cofill.network import FederationError

    is_under_way = False
    try:
        with _session(kit) as session:
            connected = session.sites()
            missing = sorted(set(session.kit.federation.names) - set(connected))
            # A run that has begun may go on without a site, where the method allows.
            if missing and not (resumed and order.tolerates_absence and connected):
                raise SettingError(f"every site must be connected, {', '.join(missing)} is not")
            job = session.submit(order, connected)
            is_under_way = True
            if not output.is_silent:
                typer.echo(f"run {order.run} was submitted")
            if not wait:
                return
            session.wait(job)
            outcome = session.outcome(job)
    except FederationError as error:
        if not is_under_way:
            raise
        way_out = f"cofill federation resume {order.run} --kit {kit}"
        raise FederationError(
            f"{error}, while run {order.run} was under way; once it runs again, look with `cofill "
            f"federation status --kit {kit}`, and if the run was cut off: {way_out}"
        ) from None
    if outcome["state"] != "finished":
        raise FederationError(f"run {outcome['run']} {outcome['state']}: {outcome['why']}")
    output.print(outcome, lambda: _show_outcome(outcome))


def _session(kit: Path) -> AbstractContextManager[Session]:
    from cofill.network import Kit, open_session  # the engine is behind it

    return open_session(Kit.read(kit, "person"))


def _show_outcome(outcome: Mapping[str, Any]) -> None:
    why = f": {outcome['why']}" if outcome["why"] else ""
    typer.echo(f"run {outcome['run']} {outcome['state']}{why}")
    _show_result(outcome)


def _metrics(metrics: Mapping[str, Mapping[str, Any]]) -> Any:
    headings = {"individuals": "individuals", **COUNTS, "mean_r2": "R²"}
    shown = [key for key in headings if key in next(iter(metrics.values()))]
    named = any(name != figures["site"] for name, figures in metrics.items())
    names = ("view", "site") if named else ("site",)
    table = make_table(names, [headings[k] for k in shown], title="What each site reported")
    for name, figures in metrics.items():
        values = [figures[key] for key in shown]
        cells = [f"{v:.3f}" if isinstance(v, float) else f"{v:,}" for v in values]
        table.add_row(*((name, figures["site"]) if named else (name,)), *cells)
    return table


def _show_result(outcome: Mapping[str, Any]) -> None:
    """Print what sites and the coordinator report of a run, and who was left out of it."""
    if outcome["metrics"]:
        console().print(_metrics(outcome["metrics"]))
    result = outcome.get("result", {})
    curve = result.get("curve") or []
    if curve:
        last = ", ".join(f"{k} {v:.4g}" for k, v in curve[-1].items())
        say(f"{result['rounds']} rounds; the last: {last}")
    if "inertia" in result:
        say(f"{result['k']} groups after {result['rounds']} rounds of sums")
    for name, mean in result.get("sites", {}).items():
        say(f"{name}: {len(mean['mean'])} columns; {mean['guarantee']}")
    for note in (*outcome.get("notes", ()), *result.get("notes", ())):
        say(f"note: {note}")
    if outcome.get("late"):
        say(
            f"{', '.join(outcome['late'])} missed the end; once connected again: "
            f"`cofill federation resume {outcome['run']} --kit KIT`"
        )


def _local_facts(result: LocalResult) -> dict[str, Any]:
    return {
        "run": result.run,
        "seconds": round(result.seconds, 3),
        **{key: result.outcome[key] for key in ("metrics", "result", "notes")},
        "database": result.database,
        "rounds": dict(result.rounds),
        "results": {name: str(path) for name, path in result.results.items()},
        "ledgers": {name: str(path) for name, path in result.ledgers.items()},
    }


def _show_local(result: LocalResult) -> None:
    _show_result(result.outcome)
    for name, path in result.results.items():
        say(f"{name}: rows in {path}, ledger in {result.ledgers[name]}")
    if result.rounds:
        words = "a round took {round_s:.2f} s: {training_s:.2f} s at the slowest site, "
        say((words + "{overhead_s:.2f} s between").format(**result.rounds))
    say(
        f"one site in three read from {result.database}; metrics in "
        f"{result.out / 'metrics.json'}; {result.seconds:.0f} s in all"
    )
