"""`make readme`: put the figures of results/ into the README and draw its picture.

A block between ``<!-- NAME -->`` and ``<!-- end NAME -->`` is made from a record; with ``--check``
nothing is written and a difference is an error.
"""

from __future__ import annotations

import argparse
import re
import sys
from functools import cache
from pathlib import Path

from bench.picture import completion_picture

from cofill.completion import methods
from cofill.metrics import ResultRecord
from cofill_papers import find_experiment

ROOT = Path(__file__).parents[1]
RESULTS, README, PICTURE = ROOT / "results", ROOT / "README.md", ROOT / "docs" / "picture.svg"


@cache
def _record(name: str) -> ResultRecord:
    return ResultRecord.read(RESULTS / f"{name}.json")


def demo_block() -> str:
    """Error per view and method on the demo's data."""
    record = _record("bench_demo")
    places = ["mean", "error", "worst", "all"]
    known = [m for m in methods() if f"{m.name}/mse/all" in record.summary]
    known.sort(key=lambda m: record.summary[f"{m.name}/mse/all"]["mean"] or 0)
    lines = [
        "| method | " + " | ".join(places) + " | rows stay at home |",
        "| --- |" + " ---: |" * len(places) + " :---: |",
    ]
    for m in known:
        cells = [_spread(record, f"{m.name}/mse/{place}") for place in places]
        lines.append(f"| `{m.name}` | {' | '.join(cells)} | {'no' if m.pools_rows else 'yes'} |")
    return "\n".join(lines)


def papers_block() -> str:
    """The paper's experiments: ours beside what it printed."""
    lines = [
        "| data | repeats | equal weights | paper's method, ours | best, only codes | "
        "pooled rows | largest change, paper's method | best | printed |",
        "| --- |" + " ---: |" * 8,
    ]
    for name in ("cube", "wdbc", "mfdd"):
        record = _record(name)
        errors = [_spread(record, f"{m}/mse/all") for m in ("equal", "mwm", "best", "central")]
        largest = record.extra["largest_class_diff"]
        changes = [f"{100 * abs(largest[m]['value']):.1f}" for m in ("mwm", "best")]
        cells = [name, str(len(record.seeds)), *errors, *changes, "≤ 7.5"]
        lines.append(f"| {' | '.join(cells)} |")
    cube = _record("cube")
    shared, other = (_spread(cube, f"mwm/mask_{k}/all") for k in ("shared", "nonshared"))
    lines += [
        "",
        f"Cube masks by gradient descent: {shared} on shared features (printed: 0.920 ± 0.026), "
        f"{other} in absolute value on the others (printed: 0.143 ± 0.034).",
        "",
        _masked(),
        "",
        _losses(),
        "",
        _against_pooled(),
    ]
    return "\n".join(lines)


def _masked() -> str:
    """Say on which views masks are no better than equal weights."""
    views, odd = _no_better("mwm")
    _, crossed = _no_better("crossed")
    said = (
        f"Masks are better than equal weights on {views - len(odd)} of {views} views, as printed "
        f"on almost every one. The exception is {' and '.join(odd)}: the paper's masks weigh what "
        "links say of the rows they have learned from, and so trust most the links that learned "
        "them by heart. Weighing what links say of rows they have not seen (`mask_folds=5`, "
        "`crossed` in the experiments) "
    )
    if crossed:
        return f"{said}is not better on {' and '.join(crossed)}."
    shown = [f"{name} {_mean(name, 'crossed/mse/all'):.3f}" for name in ("cube", "wdbc", "mfdd")]
    return (
        f"{said}is better than equal weights on all {views}: {', '.join(shown)} over all views, "
        f"`fou` {_mean('mfdd', 'crossed/mse/view_fou'):.3f}."
    )


def _mean(name: str, key: str) -> float:
    return _record(name).summary[key]["mean"] or 0.0


def _no_better(method: str) -> tuple[int, list[str]]:
    """Return how many views there are, and those on which a method errs more than equal weights."""
    views, odd = 0, []
    for name in ("cube", "wdbc", "mfdd"):
        record = _record(name)
        for key in record.summary:
            if not key.startswith(f"{method}/mse/view_"):
                continue
            view = key.rpartition("view_")[2]
            masked, equal = (
                record.summary[f"{m}/mse/view_{view}"]["mean"] or 0.0 for m in (method, "equal")
            )
            views += 1
            if masked > equal:
                odd.append(f"`{view}` of {name.upper()} ({masked:.3f} against {equal:.3f})")
    return views, odd


def _losses() -> str:
    """Say how much accuracy is lost at most, which is less than the largest change."""
    words = []
    for name in ("wdbc", "mfdd"):
        record = _record(name)
        lost = {
            m: max(
                0.0,
                *(
                    -100 * (found["mean"] or 0.0)
                    for key, found in record.summary.items()
                    if key.startswith(f"{m}/class_diff/view_")
                ),
            )
            for m in ("mwm", "best", "central", "others")
        }
        words.append(
            f"{lost['mwm']:.1f}, {lost['best']:.1f} and, from pooled rows, {lost['central']:.1f} "
            f"points on {name.upper()}, where a forest that learns from the real rows of the other "
            f"views instead loses {lost['others']:.1f}"
        )
    return (
        "A change is not always a loss. The paper's method and `best` lose at most "
        f"{', and '.join(words)}: rows made of other views cannot tell more of the class than they "
        "do, though other classifiers may read more of it there than this forest. The larger "
        "changes on MFDD are gains, because the other views know more of the digit than the view "
        "that is reconstructed."
    )


def _against_pooled() -> str:
    """Compare what only codes reach with imputation over pooled rows."""
    names = {"best": "`best`", "knn": "k nearest neighbours", "iterative": "iterative imputation"}
    words = []
    for name in ("wdbc", "mfdd", "credit", "tcga"):
        record = _record(name)
        found = [
            f"{say} {record.summary[f'{m}/mse/all']['mean']:.3f}"
            for m, say in names.items()
            if f"{m}/mse/all" in record.summary
        ]
        words.append(f"{name} {', '.join(found)}")
    return (
        "Against methods that see all rows in one place (standardised MSE): " + "; ".join(words)
    ) + "."


def federated_block() -> str:
    """How well missing images are made from the other modality, beside the thesis's figures."""
    record = _record("fed-vigan")
    printed = find_experiment("fed-vigan").published
    lines = [
        "| method | error (0 to 255)² | printed | PSNR, dB | printed |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name in find_experiment("fed-vigan").methods:
        cells = []
        for metric, digits in (("mse255", 1), ("psnr", 2)):
            found, paper = (d.get(f"{name}/{metric}/all") for d in (record.summary, printed))
            cells.append(f"{found['mean']:,.{digits}f} ± {found['std']:.{digits}f}")
            cells.append("–" if paper is None else f"{paper:,.{digits}f}")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    took = record.extra["seconds"]["fed-best"]["all_seeds"] / len(record.seeds)
    blank = record.extra["curves"]["fed-faithful"][-1]["generators_all"]
    lines += [
        "",
        f"A repeat of `fed-best`, ten sites and forty rounds, took {took:.0f} s on one H200 (three "
        "repeats as a batch, beside other work). With the generators' loss as printed, log(1 − D), "
        f"VIGAN's generators alone end with an error of {blank:,.0f}, as good as blank, and its "
        "autoencoder does the work; pix2pix, which has none, fails.",
        "",
        _groups(),
    ]
    return "\n".join(lines)


def _groups() -> str:
    """Say how near the groups of completed individuals are to those of the real ones."""
    record = _record("fed-vigan-clusters")
    deep = ", ".join(f"{100 * value:.1f}" for value in record.values["fed-best/acc/deep"])
    return (
        "K-means over both modalities of all 60,000 individuals (`cofill reproduce "
        "fed-vigan-clusters`) has a purity of "
        f"{_spread(record, 'fed-best/purity/kmeans')} after completion by `fed-best` and of "
        f"{_spread(record, 'real/purity/kmeans')} on the real images (printed: 0.415 and 0.496); "
        "the groups' mutual information with those of the real images, normalised, is "
        f"{_spread(record, 'fed-best/nmi/kmeans')} (printed: 0.329). Deep clustering over the ten "
        f"sites, without labels, groups {_spread(record, 'fed-best/acc/deep')} of the "
        f"individuals by their digit ({deep} % in three repeats)."
    )


def means_block() -> str:
    """Who is guessed from a released mean: ours beside what the paper printed, in %."""
    record = _record("growpu-mnist")
    printed = find_experiment("growpu-mnist").published
    kinds = {"noiseless": "mean", "distribution": "simulated mean", "noisy": "noisy mean"}
    lines = [
        "| attack | " + " | ".join(f"{k} | printed" for k in kinds.values()) + " |",
        "| --- |" + " ---: |" * 2 * len(kinds),
    ]
    for name in ("kmeans", "nnpu-linear", "nnpu-3lp", "growpu-linear", "growpu-3lp",
                 "discriminant", "likelihood", "best", "oracle-linear", "oracle-3lp"):  # fmt: skip
        cells = []
        for kind in kinds:
            key = f"{name}/accuracy/{kind}"
            found, paper = record.summary[key], printed.get(key)
            cells.append(f"{100 * found['mean']:.1f} ± {100 * found['std']:.1f}")
            cells.append("–" if paper is None else f"{100 * paper:.1f}")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    lines += ["", *_behaviour(kinds), ""]
    lines.append(
        "Networks were trained on an H200, the other attacks ran on two cores; all were given the "
        "same simulated means, which are in the records. " + _on_two_cores(record)
    )
    return "\n".join(lines)


def _on_two_cores(record: ResultRecord) -> str:
    """Say how long the whole table takes without an accelerator, and that it says the same."""
    whole = _record("growpu-mnist-cpu")
    apart = [
        abs((found["mean"] or 0.0) - (record.summary[key]["mean"] or 0.0))
        for key, found in whole.summary.items()
        if key.split("/")[1:] in (["accuracy", "noiseless"], ["accuracy", "noisy"])
    ]
    return (
        "On two cores, which had other work too, the whole table took "
        f"{whole.duration_s / 60:.0f} minutes; its figures for the exact and the noisy mean are "
        f"within {100 * max(apart):.2f} points of these (`results/growpu-mnist-cpu.json`)."
    )


def _behaviour(kinds: dict[str, str]) -> list[str]:
    """Compare attacks on the made-up users with what the paper printed of its own."""
    found = _record("growpu-behaviour").summary
    printed = find_experiment("growpu-behaviour").published

    def percent(name: str, kind: str) -> float:
        return 100 * (found[f"{name}/accuracy/{kind}"]["mean"] or 0.0)

    lines = [
        "The paper's behavioural data are private; ours come from a generator with the statistics "
        "it prints (`cofill reproduce growpu-behaviour`, floor "
        f"{percent('kmeans', 'noiseless'):.1f}, ceiling {percent('oracle-3lp', 'noiseless'):.1f}; "
        "printed figures in brackets):",
        "",
        "| released | classifier | uPU | nnPU | growPU | `best` |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    odd = []
    for kind, words in kinds.items():
        for classifier, of in (("linear", "linear"), ("3lp", "a hidden layer")):
            names = [f"{attack}-{classifier}" for attack in ("upu", "nnpu", "growpu")]
            own = [percent(name, kind) for name in names]
            cells = [
                f"{value:.1f} ({100 * printed[f'{name}/accuracy/{kind}']:.1f})"
                for name, value in zip(names, own, strict=True)
            ]
            lines.append(f"| {words} | {of} | {' | '.join(cells)} | {percent('best', kind):.1f} |")
            if own != sorted(own):
                odd.append(f"the {words} with {'linear classifiers' if of == 'linear' else of}")
    lines += [
        "",
        "The paper's order, uPU before nnPU before growPU, "
        + (f"does not hold for {'; '.join(odd)}. " if odd else "holds throughout. ")
        + "Most of these records have one field that is not zero, so that hundreds are equal and "
        "change sides together or not at all. "
        "`discriminant`, `likelihood` and `best` are told how large the noise on a coordinate is; "
        "that of a simulated mean is found by simulating as many records, whoever they are, whose "
        "mean the attacker knows. The networks have no use for it.",
    ]
    return lines


def leaks_block() -> str:
    """What codes give away, and the best that a defence reaches."""
    record = _record("leak-codes")
    bounds = _record("leak-bound").summary
    least = {
        key.split("/")[2]: f"{found['mean']:.2f}"
        for key, found in bounds.items()
        if key.startswith("any-25/least_leak/") and not key.endswith("/all")
    }
    lines = [
        "| data | paper's codes | ours, no defence | least leak at an error of at most + 25 % | "
        "nearest to both goals | told by the other views' codes |",
        "| --- | ---: | ---: | --- | --- | ---: |",
    ]

    def words(name: str, leak: float, growth: float) -> str:
        return f"{leak:.2f} at + {growth:.0%} (`{name}`)"

    for source, verdict in record.extra["verdict"].items():
        leak = {n: _spread(record, f"{n}/inversion_r2/{source}") for n in ("paper", "none")}
        within = verdict["within"]
        lines.append(
            f"| {source} | {leak['paper']} | {leak['none']} | "
            f"{words(within['name'], within['inversion_r2'], within['mse_growth'])} | "
            f"{words(verdict['best'], verdict['inversion_r2'], verdict['mse_growth'])} | "
            f"{verdict['inferred_at_goal']:.2f} |"
        )
    lines += [
        "",
        "Leak is the mean R² of the features behind a code, by the best attacker among those with "
        f"10, 100 and everybody else's pairs, over {len(record.seeds)} repeats (`cofill reproduce "
        "leak-codes`); error is that of completed rows against codes without a defence. The goal "
        "was a leak below 0.2 at an error below + 25 %. It was not reached, and no codes can reach "
        "it against whoever uses all that he gets: what completes a row gives it away. A party "
        "that has a person's codes from all views but one (its own it can make) and as many pairs "
        "as the others learn from completes that view's row as they do, without its code; at "
        "+ 25 % error that explains the share of the row in the last column. Against an attacker "
        "who looks at one view's codes alone, codes that carry only what receivers need (`needs`, "
        "at a price of leak) are the best found; their prices were chosen with test rows in view, "
        "and the few people of the pilot stay exposed. Where regressions are linear and people are "
        "enough to know it, the least leak of any codes at + 25 % error to one receiver of all of "
        f"them is {_listed(least)} (`cofill reproduce leak-bound`; MNIST with 12,000 people).",
    ]
    return "\n".join(lines)


def _listed(least: dict[str, str]) -> str:
    return " and ".join(f"{value} ({source})" for source, value in least.items())


def attack_block() -> str:
    """How fast attacks are."""
    record = _record("bench_attack")
    value = {k: v["mean"] or 0.0 for k, v in record.summary.items()}
    return (
        f"- The discriminant attacks {record.settings['records']:,} sparse records of 200 columns "
        f"in {value['discriminant/seconds/sparse']:.0f} s with "
        f"{value['discriminant/peak_gib/sparse']:.1f} GiB. Fifteen runs of growPU as one batch "
        f"are {value['pytorch/times_cofill/linear']:.1f} (linear) and "
        f"{value['pytorch/times_cofill/3lp-300']:.1f} (300 hidden units) times faster on two cores "
        "than the same loop in eager PyTorch. With hidden units it is the matrix products that "
        f"take the time: of the {value['pytorch/ms_per_step/3lp-300']:.1f} ms of PyTorch's step "
        f"the two that cannot be done without take {value['pytorch/ms_of_products/3lp-300']:.1f}."
    )


def cooperate_block() -> str:
    """How fast the paper's system trains."""
    record = _record("bench_cooperate")
    value = {k: v["mean"] or 0.0 for k, v in record.summary.items()}
    return (
        f"- The paper's {record.settings['repeats']} WDBC repeats train and are evaluated in "
        f"{value['cofill/seconds/wdbc']:.0f} s; training the same networks in eager PyTorch takes "
        f"{value['pytorch/times_cofill/wdbc']:.0f} times as long. 32 views with their 992 links "
        f"and 10,000 rows fit and complete in {value['cofill/seconds/views_32']:.0f} s; four views "
        "with one pass of every network in "
        + ", ".join(f"{value[f'cofill/seconds/rows_{n}']:.1f}" for n in (10**4, 10**5, 10**6))
        + " s at 10⁴, 10⁵ and 10⁶ rows."
    )


def engine_block() -> str:
    """How fast networks train, beside the loops people write."""
    record = _record("bench_engine")
    value = {k: v["mean"] or 0.0 for k, v in record.summary.items()}
    work = record.settings
    return (
        f"- Training {work['networks']} small networks (10-15-10, {work['epochs']} epochs) takes "
        f"{value['cofill/seconds/all']:.1f} s: {value['pytorch/times_cofill/all']:.0f} times "
        f"faster than the loop one writes in eager PyTorch {work['torch']}, "
        f"{value['sklearn/times_cofill/all']:.0f} times faster than scikit-learn's `MLPRegressor`, "
        f"to the same loss ({value['cofill/final_loss/all']:.3f}, "
        f"{value['pytorch/final_loss/all']:.3f} and {value['sklearn/final_loss/all']:.3f})."
    )


def rounds_block() -> str:
    """How fast rounds are, in one process and between machines."""
    record = _record("bench_federate")
    ratio, many = record.extra["ratio"], record.extra["thousand_sites"]
    network = _record("bench_network")
    value = {k: v["mean"] or 0.0 for k, v in network.summary.items()}
    return (
        f"- A round of ten sites takes {record.summary['cofill/seconds/tables']['mean']:.3f} s for "
        f"small tables and {record.summary['cofill/seconds/digits']['mean']:.3f} s for 8 × 8 "
        f"images: {ratio['tables']:.0f} and {ratio['digits']:.1f} times faster than the same "
        f"training in Flower {record.settings['flwr']}'s simulation. A thousand sites, "
        f"{many['cohort']} a round: {many['seconds']:.2f} s with {many['peak_gib']:.1f} GiB.\n"
        f"- Between processes with mutual TLS a round of 1 MB takes "
        f"{value['cofill/round_s/1 MB']:.2f} s and one of 50 MB "
        f"{value['cofill/round_s/50 MB']:.1f} s; plain FLARE, without gate, ledger, sealing "
        f"and disk, {value['flare/round_s/1 MB']:.2f} and "
        f"{value['flare/round_s/50 MB']:.1f} s."
    )


def rows_block() -> str:
    """A million rows."""
    record = _record("bench_rows")
    value = {k: v["mean"] or 0.0 for k, v in record.summary.items()}
    work = record.settings
    return (
        f"- {work['rows']:,} individuals × {work['views']} views × {work['features']} features are "
        f"read from Parquet, masked, scaled, completed by the mean and written in "
        f"{value['mean/seconds/all']:.0f} s with {value['mean/peak_gib/all']:.1f} GiB."
    )


def _spread(record: ResultRecord, key: str) -> str:
    value = record.summary[key]
    return f"{value['mean']:.3f} ± {value['std']:.3f}"


def picture() -> str:
    record = _record("bench_demo")
    pooled = [m.name for m in methods() if m.pools_rows]
    return completion_picture(
        record.extra["individuals"], record.extra["views"], record, pooled=pooled
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.readme", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    options = parser.parse_args()
    text = README.read_text()
    blocks = {
        "demo": demo_block,
        "papers": papers_block,
        "federated": federated_block,
        "means": means_block,
        "leaks": leaks_block,
        "engine": engine_block,
        "cooperate": cooperate_block,
        "attack": attack_block,
        "rounds": rounds_block,
        "rows": rows_block,
    }
    for name, make in blocks.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        if not pattern.search(text):
            sys.exit(f"README.md has no block {name!r}")
        new = make()
        text = pattern.sub(lambda m, new=new: f"{m[1]}{new}\n{m[2]}", text)
    made = {README: text, PICTURE: picture()}
    stale = [p for p, new in made.items() if not p.exists() or p.read_text() != new]
    if options.check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} does not show what results/ holds; run `make readme`")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(made[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
