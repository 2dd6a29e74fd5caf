"""`cofill audit`: what an attacker gets from releases, as a report that can be filed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cofill.cli import _options as options
from cofill.cli._options import examples
from cofill.cli._show import ReportProgress, console, make_table, progress_line, say
from cofill.errors import SettingError
from cofill.files import check_new_folder

if TYPE_CHECKING:
    from cofill.audit import Audit

audit = typer.Typer(
    no_args_is_help=True,
    help="Say what releases give away: attacks, guarantees, verdicts, and what to change.",
)

Out = Annotated[Path, Option(help="A new folder for audit.html and audit.json.")]
Delta = Annotated[float, Option(help="δ of the guarantees; above 0 for Gaussian noise.")]
BudgetOption = Annotated[
    float | None, Option("--budget", help="ε that a site may spend; more is refused.")
]
Smallest = Annotated[int, Option("--k", help="Groups of fewer people are too small.")]


@examples(
    "cofill audit run completed/ --out audit/",
    "cofill audit run trial/ --attribute mean.radius --out audit/",
)
def run(
    folder: Annotated[
        Path, Argument(help="The folder of a finished run, or a site's kit.", metavar="DIR")
    ],
    out: Out,
    view: Annotated[
        list[str] | None,
        Option(help="Where a view's rows are now, if moved.", metavar="NAME=SOURCE"),
    ] = None,
    attribute: Annotated[
        str | None, Option(help="A private fact to infer from codes.", metavar="VIEW.COLUMN")
    ] = None,
    budget: BudgetOption = None,
    k: Smallest = 5,
    seed: options.Seed = 0,
    output: options.Output = options.SHOWN,
) -> None:
    """Audit everything that a finished run has released.

    The auditor owns the rows; what is attacked are the releases that the run kept as they left.
    """
    from cofill.audit import CodeAuditSettings, audit_run

    view_name, _, column = (attribute or "").partition(".")
    if attribute is not None and not (view_name and column):
        raise SettingError(f"--attribute must be VIEW.COLUMN, got {attribute!r}")
    sources = options.pairs(view, "--view")
    _write_audit(
        lambda report_progress: audit_run(
            folder,
            views=sources,
            attribute=None if attribute is None else (view_name, column),
            budget=budget,
            codes=CodeAuditSettings(decoders=_decoders(seed), k=k),
            progress=report_progress,
        ),
        out,
        output,
    )


@examples("cofill audit codes --codes codes.csv --rows lab.csv --id person --out audit/")
def codes(
    codes: Annotated[str, Option(help="Codes as released, one row a person.")],
    rows: Annotated[str, Option(help="The private rows of the same people.")],
    out: Out,
    id_column: options.IdColumn,
    known: Annotated[str | None, Option(help="What the receiver has of them anyway.")] = None,
    public: Annotated[str | None, Option(help="Other people's rows: attack without pairs.")] = None,
    attribute: Annotated[str | None, Option(help="A column to infer, taken out of --rows.")] = None,
    second: Annotated[str | None, Option(help="Another site's codes of these people.")] = None,
    repeats: Annotated[int, Option(help="How often pairs are drawn anew.")] = 3,
    k: Smallest = 5,
    seed: options.Seed = 0,
    output: options.Output = options.SHOWN,
) -> None:
    """Audit saved codes: rows behind them, attributes, linkage, who looks alike."""
    from cofill.audit import CodeAuditSettings, audit_codes, code_files

    def attack(_: object) -> Audit:
        beside = {"known": known, "public": public, "attribute": attribute, "second": second}
        tables = code_files(codes, rows, id=id_column, **beside)
        settings = CodeAuditSettings(decoders=_decoders(seed, repeats), k=k)
        named = attribute or "attribute"
        return audit_codes(**tables, attribute_name=named, settings=settings)

    _write_audit(attack, out, output)


@examples("cofill audit mean --records records.csv --truth label --low 0 --high 1 --out audit/")
def mean(
    records: Annotated[str, Option(help="Records, one row a person.")],
    truth: Annotated[str, Option(help="The column of the class whose mean is released.")],
    out: Out,
    positive: Annotated[str, Option(help="The value of --truth that is the class.")] = "1",
    contributed: Annotated[
        str | None,
        Option(help="Column that says whose record is in the mean (1 or 0); all if left out."),
    ] = None,
    id_column: Annotated[str | None, Option("--id", help="A column to leave out.")] = None,
    bounds: Annotated[str | None, Option(help='Public bounds: {"column": [low, high], …}.')] = None,
    low: Annotated[float | None, Option(help="Lowest value of every column.")] = None,
    high: Annotated[float | None, Option(help="Highest value of every column.")] = None,
    mechanism: Annotated[
        list[str] | None,
        Option(help="gaussian, laplace or 'laplace per coordinate'; all if left out."),
    ] = None,
    epsilon: Annotated[float, Option(help="ε of a release.")] = 1.0,
    delta: Delta = 1e-5,
    per_coordinate: Annotated[float, Option(help="ε that noise per coordinate claims.")] = 0.01,
    budget: BudgetOption = None,
    method: Annotated[str, Option(help="Attack; see `cofill attack mean`.")] = "likelihood",
    draws: Annotated[
        int | None, Option(help="Releases drawn to prove an ε; a second's worth if left out.")
    ] = None,
    seed: options.Seed = 0,
    output: options.Output = options.SHOWN,
) -> None:
    """Audit the mean of a class before it is released, plain and with noise."""
    from cofill.audit import MeanAuditSettings, audit_mean, mean_files

    mechanisms: dict[str, Any] = {"mechanisms": tuple(mechanism)} if mechanism else {}
    settings = MeanAuditSettings(
        **mechanisms,
        epsilon=epsilon,
        delta=delta,
        per_coordinate=per_coordinate,
        method=method,
        draws=draws,
        seed=seed,
    )

    def attack(_: object) -> Audit:
        rows, labels, inside, box = mean_files(
            records,
            truth=truth,
            positive=positive,
            contributed=contributed,
            id=id_column,
            bounds=bounds,
            low=low,
            high=high,
        )
        return audit_mean(rows, labels, box, contributed=inside, budget=budget, settings=settings)

    _write_audit(attack, out, output)


@examples("cofill audit update --rows lab.csv --id person --widths 32,16 --out audit/")
def update(
    rows: Annotated[str, Option(help="Training rows, one a person.")],
    out: Out,
    id_column: options.IdColumn,
    widths: Annotated[str, Option(help="Widths of the autoencoder behind its input.")] = "32,16",
    epochs: Annotated[int, Option(help="Passes over the rows.")] = 200,
    batch: Annotated[int, Option(help="Rows a step.")] = 32,
    learning_rate: Annotated[float, Option(help="Largest step.")] = 3e-3,
    epsilon: Annotated[float, Option(help="ε of the variants with noise.")] = 1.0,
    delta: Delta = 1e-5,
    clip: Annotated[float, Option(help="Norm that gradients and updates are cut to.")] = 1.0,
    sites: Annotated[int, Option(help="Sites that are summed securely.")] = 3,
    networks: Annotated[int, Option(help="Networks trained to find members.")] = 32,
    seed: options.Seed = 0,
    output: options.Output = options.SHOWN,
) -> None:
    """Audit updates and trained networks before they are sent: rows behind them, and members."""
    from cofill.audit import UpdateAuditSettings, audit_update, training_rows
    from cofill.nets import TrainSettings

    settings = UpdateAuditSettings(
        widths=options.numbers_between_commas(widths, "--widths", int, "32,16"),
        training=TrainSettings(epochs=epochs, batch_size=batch, learning_rate=learning_rate),
        epsilon=epsilon,
        delta=delta,
        clip=clip,
        sites=sites,
        networks=networks,
        attacked=min(8, networks),
        seed=seed,
    )
    _write_audit(
        lambda _: audit_update(training_rows(rows, id=id_column), settings=settings), out, output
    )


@examples(
    "cofill audit views --view clinic=clinic.csv --view lab=lab.parquet --id person --out audit/",
    "cofill audit views --view a=a.csv --view b=b.csv --id id --growth 0.1 --pilot 50 --out audit/",
)
def views(
    view: options.Views,
    id_column: options.IdColumn,
    out: Out,
    growth: Annotated[float, Option(help="By which share errors may grow.")] = 0.25,
    pilot: Annotated[
        int | None,
        Option(
            help="People whose full codes are sent first, where receivers say what they need; a "
            "fifth, at most 100, if left out."
        ),
    ] = None,
    rules: options.Rules = options.NO_RULES,
    seed: options.Seed = 0,
    output: options.Output = options.SHOWN,
) -> None:
    """Audit codes of views before any are sent: what each defence would hide, and cost.

    Takes tables of the same people that are to be completed by codes, tries every defence on
    them, and names the one that leaks least at the error that is allowed.
    """
    from cofill.audit import ViewAuditSettings, audit_views
    from cofill.views import read_views

    settings = ViewAuditSettings(growth=growth, pilot=pilot, seed=seed)
    sources = options.pairs(view, "--view")

    def attack(report_progress: ReportProgress) -> Audit:
        rows = read_views(sources, id=id_column, **rules)
        return audit_views(rows, settings=settings, progress=report_progress)

    _write_audit(attack, out, output)


audit_commands = {"run": run, "codes": codes, "mean": mean, "update": update, "views": views}


def _decoders(seed: int, repeats: int = 1) -> Any:
    from cofill.attack import DecoderSettings

    return DecoderSettings(repeats=repeats, seed=seed)


def _write_audit(
    attack: Callable[[ReportProgress], Audit], out: Path, output: options.Output
) -> None:
    """Make an audit, write it, all or nothing, and print it."""
    check_new_folder(out)  # before the attacks, which can take minutes
    with progress_line(output.is_silent) as report_progress:
        report_progress("attack", 0.0)
        attack(report_progress).write(out)
    facts = json.loads((out / "audit.json").read_text(encoding="utf-8"))
    output.print(facts, lambda: _show(facts, out))


def _show(facts: dict[str, Any], out: Path) -> None:
    headings = ("release", "from → to", "individuals", "population", "claimed", "proved")
    table = make_table(headings, (), title=f"Audit: {facts['title']}")
    for release in facts["releases"]:
        claim, proof = release["claim"], release["proof"]
        table.add_row(
            f"{release['kind']}: {release['what']}",
            f"{release['sender']} → {release['receiver']}",
            release["verdict"]["individual"],
            release["verdict"]["population"],
            "–" if claim is None else f"ε = {float(claim['epsilon']):.3g}",
            "–" if proof is None else f"ε ≥ {float(proof['epsilon']):.2g}",
            style="bold red" if release["refuted"] else None,
        )
    console().print(table)
    for words in dict.fromkeys(
        f"{r['kind']}: {r['change']}" for r in facts["releases"] if r["change"] != "Nothing."
    ):
        say(words)
    for words in facts["notes"]:
        say(f"note: {words}")
    say(f"report in {out / 'audit.html'}, record in {out / 'audit.json'}")
