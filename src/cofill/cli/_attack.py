"""`cofill attack`: what an attacker makes of something that was released."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from cofill.cli._show import console
from cofill.errors import SettingError

__all__ = ["attack"]

attack = typer.Typer(
    no_args_is_help=True, help="Attack a release, to know what it gives away before it is sent."
)

_EXAMPLES = """
[bold]Examples[/bold]

  cofill attack mean --records r.parquet --mean mean.json --out guesses.parquet

  cofill attack mean --records r.csv --mean mean.json --prior 0.3 --priors 0.2,0.3,0.4
  --out guesses.csv

  cofill attack mean --records r.csv --mean mean.json --prior 0.5 --noise laplace:0.04
  --truth label --out guesses.csv
"""


def mean(
    records: Annotated[
        str, typer.Option(help="One row per individual: .csv, .parquet or a database source.")
    ],
    mean_file: Annotated[
        str,
        typer.Option(
            "--mean",
            help='JSON: {"column": mean, …} of the positive class, or {"means": {"class": '
            '{"column": mean, …}, …}, "priors": {"class": share, …}}.',
        ),
    ],
    out: Annotated[str, typer.Option(help="File for the guesses, .csv or .parquet.")],
    prior: Annotated[
        float | None,
        typer.Option(help="Share of the records in the class; estimated if left out."),
    ] = None,
    priors: Annotated[
        str | None,
        typer.Option(help="Shares to attack with besides, such as 0.2,0.3,0.4: what if?"),
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(help="Noise on the mean, such as laplace:0.04, gaussian:0.1 or unknown:0.1."),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column to name individuals by in the guesses.")
    ] = None,
    truth: Annotated[
        str | None, typer.Option(help="Column with the true class, to judge the guesses by.")
    ] = None,
    positive: Annotated[str, typer.Option(help="The value of --truth that is positive.")] = "1",
    contributed: Annotated[
        str | None, typer.Option(help="Column that says whose record went into the mean (1 or 0).")
    ] = None,
    method: Annotated[
        str,
        typer.Option(help="best, likelihood, discriminant, growpu, nnpu, upu or kmeans."),
    ] = "best",
    seed: Annotated[int, typer.Option(help="Start of all randomness.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace earlier guesses.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but faults.")] = False,
) -> None:
    """Guess who belongs to a class from the class's released mean."""
    from cofill.attack import MeanAttackJob, run_mean_attack

    job = MeanAttackJob(
        records=records,
        mean=mean_file,
        out=out,
        prior=prior,
        priors=_shares(priors),
        noise=noise,
        id=id_column,
        truth=truth,
        positive=positive,
        contributed=contributed,
        method=method,
        seed=seed,
        overwrite=overwrite,
    )
    result = run_mean_attack(job)
    if as_json:
        typer.echo(json.dumps({**result.facts, "out": str(result.out)}, indent=2))
    elif not quiet:
        _show(result.facts, str(result.out))


mean.__doc__ = f"{mean.__doc__}\n{_EXAMPLES}"


def _shares(text: str | None) -> tuple[float, ...]:
    """Read shares between commas."""
    try:
        return () if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise SettingError(
            f"--priors must be shares between commas, such as 0.2,0.3,0.4, got {text!r}"
        ) from None


def _show(facts: dict[str, Any], out: str) -> None:
    screen = console()
    if "guessed" in facts:
        most = sorted(facts["guessed"].items(), key=lambda kind: -kind[1])
        listed = ", ".join(f"{name} {count}" for name, count in most[:10])
        screen.print(
            f"{facts['method']}: {facts['records']} records guessed to be in {len(most)} classes "
            f"({listed}{', …' if len(most) > 10 else ''}), by {facts['features']} columns",
            soft_wrap=True,
        )
        if not facts["priors_given"]:
            found = ", ".join(f"{name} {share:.1%}" for name, share in facts["priors"].items())
            screen.print(f"shares, from the means: {found}", soft_wrap=True)
    else:
        screen.print(
            f"{facts['method']}: {facts['guessed_positive']} of {facts['records']} records guessed "
            f"positive, by {facts['features']} columns"
        )
        if facts["prior_interval_95"] is not None:
            low, high = facts["prior_interval_95"]
            screen.print(
                f"share of positives, from the mean: {facts['prior']:.1%} "
                f"(95 % interval {low:.1%} to {high:.1%})"
            )
    if facts["expected_accuracy"] is not None:
        screen.print(f"expected accuracy, without labels: {facts['expected_accuracy']:.1%}")
    for row in facts.get("sensitivity", ()):
        told = f"with the share {row['prior']:.1%}: {row['outcome']}"
        for name, words in (
            ("guessed", "guessed positive"),
            ("sureness", "expected accuracy"),
            ("accuracy", "accuracy"),
        ):
            told += "" if row[name] is None else f", {words} {row[name]:.1%}"
        screen.print(told, soft_wrap=True)
    judged = facts.get("judged")
    if judged is not None:
        for group in ("all", "contributors", "others"):
            if group in judged:
                found = judged[group]
                low, high = found["interval_95"]
                screen.print(
                    f"accuracy, {group} ({found['individuals']}): {found['accuracy']:.1%} "
                    f"(95 % interval {low:.1%} to {high:.1%})"
                )
        floor, ceiling = judged["floor"], judged["ceiling"]
        screen.print(
            f"floor: larger class {floor['larger_class']:.1%}, clusters "
            f"{floor['clusters']:.1%}; ceiling: supervised {ceiling['supervised']:.1%}"
        )
        screen.print(judged["measured"], soft_wrap=True)
    for note in facts["notes"]:
        screen.print(f"note: {note}", soft_wrap=True)
    screen.print(f"written to {out}", soft_wrap=True)
