"""The tables of docs/results.md that say how well cofill completes, attacks and defends."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from bench.records import MISSING, markdown, mean_of, printed, read_record, with_spread

from cofill.completion import methods
from cofill_papers import find_experiment

CRS_DATA = ("cube", "wdbc", "mfdd")
RELEASED = {"noiseless": "mean", "distribution": "simulated mean", "noisy": "noisy mean"}


def demo() -> str:
    """Return the error per view and method on the demo's data."""
    columns = ["mean", "error", "worst", "all"]
    recorded = [m for m in methods() if f"{m.name}/mse/all" in read_record("bench_demo").summary]
    recorded.sort(key=lambda m: mean_of("bench_demo", f"{m.name}/mse/all"))
    rows = [
        [f"`{m.name}`", "no" if m.facts["pools_rows"] else "yes"]
        + [with_spread("bench_demo", f"{m.name}/mse/{column}") for column in columns]
        for m in recorded
    ]
    return markdown(["method", "rows stay with their owner", *columns], rows, words=2)


def crs_errors() -> str:
    """Return the error over all views by method, for every data set of reconstruction."""
    names = {"equal": "equal weights", "mwm": "paper's method, ours", "crossed": "`mask_folds=5`",
             "best": "`best`, only codes", "private": "`private`, shares",
             "central": "pooled networks",
             "knn": "pooled k-NN", "iterative": "pooled iterative"}  # fmt: skip
    rows = [
        [data, str(len(read_record(data).seeds))]
        + [with_spread(data, f"{method}/mse/all") for method in names]
        for data in (*CRS_DATA, "credit", "tcga")
    ]
    return markdown(["data", "repeats", *names.values()], rows)


def crs_accuracy() -> str:
    """Return how a random forest's accuracy changes on reconstructed rows, in points."""

    def loss(data: str, method: str) -> str:
        means = [
            -100 * (value["mean"] or 0.0)
            for key, value in read_record(data).summary.items()
            if key.startswith(f"{method}/class_diff/view_")
        ]
        return f"{max(0.0, *means):.1f}" if means else MISSING

    rows = []
    for data in CRS_DATA:
        largest = read_record(data).extra["largest_class_diff"]
        changes = [f"{100 * abs(largest[method]['value']):.1f}" for method in ("mwm", "best")]
        losses = [loss(data, method) for method in ("mwm", "best", "central", "others")]
        rows.append([data, *changes, "≤ 7.5", *losses])
    header = ["data", "largest change, paper's method", "`best`", "printed",
              "largest loss, paper's method", "`best`", "pooled networks",
              "forest on the other views' real rows"]  # fmt: skip
    return markdown(header, rows)


def cube_masks() -> str:
    """Return the masks' absolute weights on the cube beside the printed ones."""
    names = {"shared": "features that both views have", "nonshared": "other features"}
    keys = {label: f"mwm/mask_{name}/all" for name, label in names.items()}
    rows = [[label, with_spread("cube", k), printed("cube", k)] for label, k in keys.items()]
    return markdown(["weight of", "ours", "printed"], rows)


def masks_against_equal() -> str:
    """Return on how many views masks err less than equal weights, and the views where not."""
    names = {"mwm": "masks from rows that links were trained on (paper)",
             "crossed": "masks from held-out rows (`mask_folds=5`)"}  # fmt: skip
    rows = []
    for method, label in names.items():
        errors = {
            (data, key.rpartition("view_")[2]): (value["mean"] or 0.0)
            for data in CRS_DATA
            for key, value in read_record(data).summary.items()
            if key.startswith(f"{method}/mse/view_")
        }
        worse = [
            f"`{view}` of {data} ({error:.3f}; equal weights {equal:.3f})"
            for (data, view), error in errors.items()
            if error > (equal := mean_of(data, f"equal/mse/view_{view}"))
        ]
        fou = f"{errors['mfdd', 'fou']:.3f}"
        better = f"{len(errors) - len(worse)} of {len(errors)}"
        rows.append([label, ", ".join(worse) or "none", better, fou])
    header = ["method", "views where it is worse", "views where it is better", "error on `fou`"]
    return markdown(header, rows, words=2)


def federated() -> str:
    """Return the error of images made from the other modality, beside the thesis's figures."""
    experiment = find_experiment("fed-vigan")
    rows = []
    for method in experiment.methods:
        if method.endswith("-pretraining"):  # of parts, which are in the tables by epoch
            continue
        cells = [f"`{method}`"]
        for metric, digits in (("mse255", 1), ("psnr", 2)):
            key = f"{method}/{metric}/all"
            cells.append(with_spread("fed-vigan", key, digits=digits))
            cells.append(printed("fed-vigan", key, digits=digits))
        rows.append(cells)
    header = ["method", "error (0 to 255)²", "printed", "PSNR, dB", "printed"]
    return markdown(header, rows)


def federated_details() -> str:
    """Return what the runs behind `federated` took, and VIGAN's generators on their own."""
    record = read_record("fed-vigan")
    seconds = record.extra["seconds"]["fed-best"]["all_seeds"] / len(record.seeds)
    rows = [
        ["seconds for one repeat of `fed-best` (ten sites, forty rounds) on one H200",
         f"{seconds:.0f}"],
    ]  # fmt: skip
    for method in ("fed-faithful", "central-faithful", "local-faithful"):
        curve = record.extra["curves"].get(method, [])
        for when, entry in (
            ("after pre-training", curve[:1]),
            ("after the last round", curve[-1:]),
        ):
            if entry:
                label = f"error of the generators of `{method}` on their own, {when}"
                rows.append([label, f"{entry[0]['generators_all']:,.0f}"])
    for where, words in (("local", "the fifth site"), ("fed", "the mean of ten sites' models")):
        for part in ("autoencoder", "generators"):
            label = f"error of the {part} before any round, {words}"
            rows.append(
                [label, with_spread("fed-vigan", f"{where}-pretraining/mse255/{part}", digits=0)]
            )
    return markdown(["quantity", "value"], rows)


def noniid() -> str:
    """Return dB of images completed by each strategy where sites have few classes each."""
    data, ways = "fed-noniid", ("x2y", "y2x", "all")
    rows = [
        [f"`{method}`", *(with_spread(data, f"{method}/psnr/{way}", digits=2) for way in ways)]
        for method in find_experiment(data).methods
    ]
    return markdown(["strategy", "edges, dB", "images, dB", "all, dB"], rows)


def images() -> str:
    """Return dB of images made from the other modality, beside a plain U-Net of the same run."""
    names = {
        "usps": "USPS, 16 × 16", "mnist": "MNIST, 28 × 28", "things": "made-up, 28 × 28"
    }  # fmt: skip
    ways = {"there": "edges", "back": "image"}
    rows = []
    for name, label in names.items():
        for way, target in ways.items():
            cells = [
                with_spread("bench_images", f"{method}/{way}/{name}", digits=2)
                for method in ("unet", "one_place", "ten_sites")
            ]
            seconds = mean_of("bench_images", f"one_place/seconds/{name}")
            passes = mean_of("bench_images", f"unet/passes/{name}")
            rows.append([label, target, *cells, f"{seconds:.0f}", f"{passes:.0f}"])
    header = ["pictures", "completed", "plain U-Net", "one place", "ten sites",
              "seconds of one place, and of the U-Net", "passes of the U-Net"]  # fmt: skip
    return markdown(header, rows, words=2)


def groups() -> str:
    """Return how near the groups of completed individuals are to those of the real ones."""
    data = "fed-vigan-clusters"
    deep = ", ".join(f"{v:.3f}" for v in read_record(data).values["fed-best/acc/deep"])
    labels = {
        "K-means on the real images: purity": ("real", "real", "purity"),
        "K-means after completion: purity": ("fed-best", "fed-faithful", "purity"),
        "K-means after completion: normalised mutual information with the groups of real images": (
            "fed-best", "fed-faithful", "nmi"),
    }  # fmt: skip
    rows = [
        [
            label,
            with_spread(data, f"{ours}/{metric}/kmeans"),
            printed(data if paper == "real" else "fed-vigan", f"{paper}/{metric}/kmeans"),
        ]
        for label, (ours, paper, metric) in labels.items()
    ]
    rows.append(
        [
            f"deep clustering at the ten sites, no labels: accuracy (repeats: {deep})",
            with_spread(data, "fed-best/acc/deep"),
            MISSING,
        ]
    )
    return markdown(["measure", "ours", "printed"], rows)


def incomplete_groups() -> str:
    """Return accuracy, mutual information and Rand index of groups where half lack a view, in %."""
    names = {"handwritten": "Handwritten, fou and kar", "scene15": "Scene-15, 20 and 59 columns"}
    methods = {"multiview": "`MultiViewClustering`", "multiview-five": "the same, five sites",
               "multiview-all": "the same in one place, all groupings vote",
               "ridge-spectral": "ridge fill, spectral clustering",
               "mean-kmeans": "mean fill, k-means"}  # fmt: skip
    rows = []
    for data, label in names.items():
        for method, words in methods.items():
            cells = [
                with_spread("imvc", f"{method}/{metric}/{data}_0.5", digits=1, scale=100)
                for metric in ("acc", "nmi", "ari")
            ]
            rows.append([label, words, *cells])
        cells = [
            printed("imvc", f"multiview/{metric}/{data}_0.5", digits=1, scale=100)
            for metric in ("acc", "nmi", "ari")
        ]
        rows.append([label, "published", *cells])
    return markdown(["data", "method", "ACC", "NMI", "ARI"], rows, words=2)


def means() -> str:
    """Return the share of digits guessed from a released mean beside the paper's, in %."""
    attacks = ["kmeans", "nnpu-linear", "nnpu-3lp", "growpu-linear", "growpu-3lp",
               "discriminant", "likelihood", "best", "oracle-linear", "oracle-3lp"]  # fmt: skip
    rows = []
    for attack in attacks:
        cells = [f"`{attack}`"]
        for release in RELEASED:
            key = f"{attack}/accuracy/{release}"
            cells.append(with_spread("growpu-mnist", key, digits=1, scale=100))
            cells.append(printed("growpu-mnist", key, digits=1, scale=100))
        rows.append(cells)
    header = ["attack", *(cell for name in RELEASED.values() for cell in (name, "printed"))]
    return markdown(header, rows)


def behaviour() -> str:
    """Return the share of generated users guessed, in %, with the paper's figures in brackets."""
    data = "growpu-behaviour"

    known = read_record(data).summary

    def percent(attack: str, release: str) -> float | None:
        figure = known.get(f"{attack}/accuracy/{release}")
        return None if figure is None else 100 * figure["mean"]

    def shown(share: float | None) -> str:
        return MISSING if share is None else f"{share:.1f}"

    rows = []
    for release, label in RELEASED.items():
        for classifier, layers in (("linear", "linear"), ("3lp", "one hidden layer")):
            attacks = [f"{attack}-{classifier}" for attack in ("upu", "nnpu", "growpu")]
            shares = [percent(attack, release) for attack in attacks]
            cells = [
                f"{shown(share)} ({printed(data, f'{a}/accuracy/{release}', digits=1, scale=100)})"
                for a, share in zip(attacks, shares, strict=True)
            ]
            complete = [share for share in shares if share is not None]
            better = all(less < more for less, more in pairwise(complete))
            order = "not run" if len(complete) < 3 else "yes" if better else "no"
            rows.append([label, layers, *cells, order, shown(percent("best", release))])
    header = ["released", "classifier", "uPU", "nnPU", "growPU", "the paper's order", "`best`"]
    for bound, attack, knowledge in (
        ("floor", "kmeans", "K-means"),
        ("ceiling", "oracle-3lp", "all labels"),
    ):
        rows.append([bound, knowledge, *[""] * 4, shown(percent(attack, "noiseless"))])
    return markdown(header, rows, words=2)


def leaks() -> str:
    """Return what codes give away, and the best that a defence reaches."""

    def defended(name: str, leak: float, growth: float) -> str:
        return f"{leak:.2f} at + {growth:.0%} (`{name}`)"

    bounds = read_record("leak-bound").summary
    rows = []
    for data, verdict in read_record("leak-codes").extra["verdict"].items():
        within, bound = verdict["within"], bounds.get(f"any-25/least_leak/{data}")
        rows.append(
            [
                data,
                defended(within["name"], within["inversion_r2"], within["mse_growth"]),
                defended(verdict["best"], verdict["inversion_r2"], verdict["mse_growth"]),
                *(with_spread("leak-codes", f"{n}/inversion_r2/{data}") for n in ("paper", "none")),
                f"{verdict['inferred_at_goal']:.2f}",
                MISSING if bound is None else f"{bound['mean']:.2f}",
            ]
        )
    header = ["data", "least leak at an error of at most + 25 %", "nearest to both goals",
              "paper's codes", "ours, no defence", "revealed by the other views' codes",
              "least leak of any codes at + 25 %"]  # fmt: skip
    return markdown(header, rows, words=3)


def predict() -> str:
    """Return how well credit default is told by what is known of clients, and by classifier."""
    names = {"own": "own view only", "mean": "completed by the mean",
             "cooperative": "completed, rows stay at home (`cooperative`)",
             "pooled": "completed, tables together (`pooled`)",
             "holes": "holes left as they are", "all": "nothing was missing"}  # fmt: skip
    rows = [
        [label, *(with_spread("bench_predict", f"{n}/auc/{c}") for c in ("logistic", "boosting"))]
        for n, label in names.items()
    ]
    return markdown(["what is known of a client", "logistic regression", "boosting"], rows)


def shares() -> str:
    """Return errors on secret shares beside those with codes, on the same splits."""
    names = {"wdbc": "WDBC", "credit": "credit", "scene15": "Scene-15", "tcga": "TCGA",
             "mfdd": "MFDD"}  # fmt: skip
    arithmetic = read_record("bench_shares").settings["arithmetic"]
    rows = [
        [label, arithmetic[name],
         *(with_spread("bench_shares", f"{m}/mse/{name}") for m in ("best", "private")),
         with_spread("bench_shares", f"private/ratio/{name}")]
        for name, label in names.items()
    ]  # fmt: skip
    header = ["data", "arithmetic", "`best`, codes", "`private`", "ratio"]
    return markdown(header, rows, words=2)


def tables() -> str:
    """Return how imputers compare on tables with scattered holes: ranks, distances, seconds."""
    ranks = read_record("bench_tables").extra["ranks"]["all rates"]
    names = {"pooled": "cofill (`pooled`)", "missforest": "iterated random forests (MissForest)",
             "extratrees": "iterated extremely randomised trees",
             "iterated_boosting": "iterated boosting", "boosted": "boosting, once",
             "iterative": "scikit-learn's `IterativeImputer`", "knn": "scikit-learn's `KNNImputer`",
             "mean": "mean"}  # fmt: skip
    rows = [
        [label, f"{r['rank']:.2f}", f"{100 * r['worst']:.1f} %", f"{r['seconds']:.1f}"]
        for name, label in names.items()
        for r in [ranks[name]]
    ]
    header = ["method", "mean rank", "furthest behind the best", "seconds a table"]
    return markdown(header, rows)


def split_tables() -> str:
    """Return by how much three sites with a third of the columns each are behind one site."""
    record = read_record("bench_split")
    behind = record.extra["ranks"]["three sites"]["private"]
    rows = []
    for name in behind:
        part = f"{name}-MCAR-0.3"
        errors = [np.mean(record.values[f"{m}/rmse/{part}"]) for m in ("pooled", "private")]
        rows.append([name, *(f"{e:.4f}" for e in errors), f"{100 * behind[name]:+.1f} %"])
    header = ["table", "one site (`pooled`)", "three sites (`private`)", "behind"]
    return markdown(header, rows)


def by_row() -> str:
    """Return the error of sites that hold other people, against all people in one table."""
    record = read_record("bench_by_row")
    methods = ("alone-five", "network-five", "federated-five", "alone-uneven", "federated-uneven")
    places = [key.split("/")[2] for key in record.values if key.startswith("pooled/rmse/")]
    rows = []
    for place in places:
        pooled = record.values[f"pooled/rmse/{place}"]
        count = sum(value is not None for value in pooled)
        behind = []
        for method in methods:
            ratio = record.summary.get(f"{method}/ratio/{place}")
            behind.append(MISSING if ratio is None else f"{100 * (ratio['mean'] - 1):+.1f} %")
        name, holes = place.rsplit("-", 1)
        error = mean_of("bench_by_row", f"pooled/rmse/{place}")
        rows.append([name, holes, str(count), f"{error:.4f}", *behind])
    header = ["table", "holes", "seeds", "`pooled`", "five sites: alone", "network", "federated",
              "uneven sites: alone", "federated"]  # fmt: skip
    return markdown(header, rows, words=2)


def epsilon() -> str:
    """Return the error of federated completion at each level of privacy that was run."""
    record = read_record("bench_epsilon")
    words = {"default": ("sums", "nothing"), "sums": ("sums, once", "a row"),
             "none": ("network", "nothing"), "record": ("network, DP-SGD", "a row"),
             "site": ("network, noisy updates", "a site")}  # fmt: skip
    rows = []
    for key, values in record.values.items():
        level, metric, where = key.split("/")
        if metric == "error":
            spent = record.summary.get(f"{level}/epsilon/{where}")
            seeds = sum(value is not None for value in values)
            rows.append([*words[level], MISSING if spent is None else f"{spent['mean']:.1f}",
                         with_spread("bench_epsilon", key), str(seeds)])  # fmt: skip
    return markdown(["what is learned", "hidden", "ε", "error", "seeds"], rows, words=2)


PREDICT_BLOCKS = {"predict": predict}
QUALITY_BLOCKS = {
    "demo": demo,
    "tables": tables,
    "split-tables": split_tables,
    "by-row": by_row,
    "epsilon": epsilon,
    "shares": shares,
    "crs-errors": crs_errors,
    "crs-accuracy": crs_accuracy,
    "cube-masks": cube_masks,
    "masks-against-equal": masks_against_equal,
    "federated": federated,
    "federated-details": federated_details,
    "noniid": noniid,
    "groups": groups,
    "incomplete-groups": incomplete_groups,
    "images": images,
    "means": means,
    "behaviour": behaviour,
    "leaks": leaks,
}
