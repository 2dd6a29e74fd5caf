"""`cofill cluster`: tables in, everybody's group out, and a map of the groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from cofill.cli import _options as options
from cofill.cli._options import examples
from cofill.cli._show import console, make_table, progress_line, say

if TYPE_CHECKING:
    from cofill.cluster import ClusterResult


@examples(
    "cofill cluster completed/ --k 5 --out groups/",
    "cofill cluster --view lab=lab.csv --view scan=scan.csv --id person --k 5 --out groups/",
    "cofill cluster --view lab=l.csv --view scan=s.csv --id person --k 5 --method views --out g/",
    "cofill cluster --view north/lab=n.csv --view south/lab=s.csv --id person --out groups/",
)
def cluster(
    out: Annotated[str, Option(help="A new folder for the result.")],
    folder: options.CompletedFolder = None,
    view: Annotated[
        list[str] | None,
        Option(
            help="A view as NAME=SOURCE, or SITE/NAME=SOURCE where several sites work together; "
            "a source is a .csv or .parquet file, or a database as URL#table.",
            metavar="NAME=SOURCE",
        ),
    ] = None,
    id_column: options.OptionalId = None,
    k: Annotated[int | None, Option(help="Number of groups; chosen if left out.")] = None,
    method: Annotated[str, Option(help="'kmeans', 'deep' or 'views'.")] = "kmeans",
    settings: options.Settings = None,
    rules: options.Rules = options.NO_RULES,
    formulas: options.Formulas = "escape",
    seed: options.Seed = 0,
    output: options.Output = options.SHOWN,
) -> None:
    """Find groups among individuals, at one site or at several that show no row.

    Individuals must be complete; with the method 'views', at one site, they may lack views.
    """
    from cofill.cluster import ClusterJob, run_cluster  # scikit-learn and JAX are behind it

    reading = options.reading_of(folder, view, id=id_column, **rules)
    tables = {name: reading.pop(name) for name in ("sources", "id", "kinds", "ignore", "id_type")}
    job = ClusterJob(
        **tables,
        reading=reading,
        out=out,
        k=k,
        method=method,
        settings=options.settings_of(settings),
        formulas=formulas,
        seed=seed,
    )
    with progress_line(output.is_silent) as report_progress:
        result = run_cluster(job, report_progress)
    output.print({**result.facts, "files": list(result.files)}, lambda: _show(result))


def _show(result: ClusterResult) -> None:
    facts = result.facts
    table = make_table((), ("group", "individuals", "share"), box=None)
    total = sum(facts["sizes"])
    for number, size in enumerate(facts["sizes"]):
        table.add_row(str(number), f"{size:,}", f"{size / total:.1%}")
    console().print(table)
    if facts["choice_of_k"] is not None:
        say(f"{facts['k']} groups, chosen by {facts['choice_of_k']['method']}")
    say(f"mean confidence {facts['mean_confidence']:.2f}")
    say(f"written to {result.out}: {', '.join(result.files)}")
