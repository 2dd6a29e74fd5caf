"""`cofill attack`: what an attacker makes of something that was released."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer import Option

from cofill.cli._options import (
    LISTED,
    SHOWN,
    Listing,
    Output,
    Seed,
    examples,
    numbers_between_commas,
)
from cofill.cli._show import entry_facts, entry_lines, say

attack = typer.Typer(
    no_args_is_help=True, help="Attack a release, to know what it gives away before it is sent."
)


@examples(
    "cofill attack mean --records r.parquet --mean mean.json --out guesses.parquet",
    "cofill attack mean --records r.csv --mean mean.json --prior 0.3 --priors 0.2,0.3,0.4 "
    "--out guesses.csv",
    "cofill attack mean --records r.csv --mean mean.json --prior 0.5 --noise laplace:0.04 "
    "--truth label --out guesses.csv",
)
def mean(
    records: Annotated[str, Option(help="One row a person: .csv, .parquet or a database.")],
    mean_file: Annotated[
        str,
        Option(
            "--mean",
            help='JSON: {"column": mean, …} of the positive class, or {"means": {"class": '
            '{"column": mean, …}, …}, "priors": {"class": share, …}}; sums and counts, and means '
            "by group, too.",
        ),
    ],
    out: Annotated[str, Option(help="File for the guesses, .csv or .parquet.")],
    prior: Annotated[
        float | None, Option(help="Share of the records in the class; estimated if left out.")
    ] = None,
    priors: Annotated[
        str | None, Option(help="Shares to attack with besides, such as 0.2,0.3,0.4: what if?")
    ] = None,
    noise: Annotated[
        str | None, Option(help="Noise on the mean: laplace:0.04, gaussian:0.1 or unknown:0.1.")
    ] = None,
    id_column: Annotated[str | None, Option("--id", help="Column to name people by.")] = None,
    truth: Annotated[str | None, Option(help="Column with the true class, to judge by.")] = None,
    positive: Annotated[str, Option(help="The value of --truth that is positive.")] = "1",
    contributed: Annotated[
        str | None, Option(help="Column that says whose record is in the mean (1 or 0).")
    ] = None,
    method: Annotated[str, Option(help="An attack that `cofill attack list` names.")] = "best",
    seed: Seed = 0,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace earlier guesses.")] = False,
    output: Output = SHOWN,
) -> None:
    """Guess who belongs to a class from the class's released mean."""
    from cofill.attack import MeanAttackJob, run_mean_attack

    shares = () if priors is None else numbers_between_commas(priors, "--priors", float, "0.2,0.3")
    job = MeanAttackJob(
        records=records,
        mean=mean_file,
        out=out,
        prior=prior,
        priors=shares,
        noise=noise,
        id=id_column,
        truth=truth,
        positive=positive,
        contributed=contributed,
        method=method,
        seed=seed,
        overwrite=overwrite,
    )
    facts = run_mean_attack(job)

    def show() -> None:
        for sentence in _sentences(facts):
            say(sentence)
        say(f"written to {out}")

    output.print({**facts, "out": out}, show)


@examples("cofill attack list", "cofill attack list --json")
def list_attacks(listing: Listing = LISTED) -> None:
    """List the attacks on a released mean, those of installed packages among them."""
    from cofill.attack import MEAN_ATTACKS

    listing.print(
        [entry_facts(entry) for entry in MEAN_ATTACKS],
        lambda: typer.echo("\n".join(entry_lines(MEAN_ATTACKS))),
    )


def _sentences(facts: Mapping[str, Any]) -> Iterator[str]:
    yield from _of_classes(facts) if "guessed" in facts else _of_one_class(facts)
    if facts["expected_accuracy"] is not None:
        yield f"expected accuracy, without labels: {facts['expected_accuracy']:.1%}"
    named = {
        "guessed": "guessed positive",
        "expected_accuracy": "expected accuracy",
        "accuracy": "accuracy",
    }
    for row in facts.get("sensitivity", ()):
        figures = (f", {w} {row[name]:.1%}" for name, w in named.items() if row[name] is not None)
        yield f"with the share {row['prior']:.1%}: {row['outcome']}{''.join(figures)}"
    judged = facts.get("judged")
    if judged is not None:
        for group in ("all", "contributors", "others"):
            if group in judged:
                people, accuracy = judged[group]["individuals"], judged[group]["accuracy"]
                interval = _interval(judged[group]["interval_95"])
                yield f"accuracy, {group} ({people}): {accuracy:.1%} {interval}"
        floor, ceiling = judged["floor"], judged["ceiling"]
        yield (
            f"floor: larger class {floor['larger_class']:.1%}, clusters {floor['clusters']:.1%}; "
            f"ceiling: supervised {ceiling['supervised']:.1%}"
        )
        yield judged["measured"]
    for note in facts["notes"]:
        yield f"note: {note}"


def _of_classes(facts: Mapping[str, Any]) -> Iterator[str]:
    sizes = sorted(facts["guessed"].items(), key=lambda kind: -kind[1])
    listed = ", ".join(f"{name} {count}" for name, count in sizes[:10])
    yield (
        f"{facts['method']}: {facts['records']} records guessed to be in {len(sizes)} classes "
        f"({listed}{', …' if len(sizes) > 10 else ''}), by {facts['features']} columns"
    )
    if not facts["priors_given"]:
        shares = ", ".join(f"{name} {share:.1%}" for name, share in facts["priors"].items())
        yield f"shares, from the means: {shares}"


def _of_one_class(facts: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{facts['method']}: {facts['guessed_positive']} of {facts['records']} records guessed "
        f"positive, by {facts['features']} columns"
    )
    if facts["prior_interval_95"] is not None:
        interval = _interval(facts["prior_interval_95"])
        yield f"share of positives, from the mean: {facts['prior']:.1%} {interval}"


def _interval(ends: Sequence[float]) -> str:
    return f"(95 % interval {ends[0]:.1%} to {ends[1]:.1%})"
