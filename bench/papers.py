"""The tables of docs/results.md that put each table of the papers beside our records.

A figure *agrees* when the printed one lies within the interval in which one more repeat of ours
would be expected (95 %, Student's t); else ours is *higher* or *lower*, and the last column says
why as far as it is known. Where the printed figure lies in an interval that reaches further than a
tenth of ours to either side, that says little, and *cannot tell* stands there. One repeat has no
interval: then *near* is within two points, and of a curve *agrees* is within a tenth of the printed
figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fnmatch import fnmatch

import numpy as np
from bench.grids.choose import choose_growpu, growpu_readings, read_lines
from bench.records import MISSING, has_record, markdown, mean_of, read_record, with_spread
from scipy.stats import t, ttest_1samp

from cofill_papers import PAPERS, find_experiment

BY_METHOD = (*PAPERS["fed-vigan"], *PAPERS["growpu"])  # experiments that are made in parts
KINDS = {"noiseless": "mean", "distribution": "simulated mean", "noisy": "noisy mean"}
_WHY = {  # record, pattern of keys → why ours differs
    ("growpu-*", "*/distribution"): "depends on the generator that simulates the mean",
    ("growpu-behaviour*", "*"): "made-up users, not the paper's",
    ("growpu-*", "growpu-*"): "initial weights, step, optimiser, activation not stated",
    ("growpu-mnist", "kmeans/*"): "tightest of ten starts; the paper's start is not stated",
    ("growpu-*", "oracle-*"): "training of the ceiling not stated",
    ("growpu-*", "*"): "step and optimiser not stated",
    ("nnpu-table1", "*"): "step and optimiser not stated",
    ("fed-vigan-clusters", "real/*"): "K-means of several starts on all 60,000",
    ("fed-vigan", "fed-pix2pix-faithful/*"): "normalisation, optimiser and steps not stated",
    ("fed-vigan", "*/kmeans"): "completed images are nearer to the real ones",
    ("fed-vigan", "*-pretraining/*"): "normalisation, optimiser and steps not stated",
    ("fed-vigan", "*-faithful/*"): "normalisation, optimiser and steps not stated",
    ("cube", "mwm/mask_*"): "masks run until they no longer move",
    ("*", "original/rf/*"): "splits and forests are ours",
}  # fmt: skip


def _reason(name: str, key: str) -> str:
    attack, _, kind = key.split("/")
    ends = read_record(name).extra.get("outcomes", {}).get(f"{attack}/{kind}", {})
    if any("limit" in end for end in ends.values()):
        return "a stage ended at its limit, not at its share"
    fits = (why for (n, k), why in _WHY.items() if fnmatch(name, n) and fnmatch(key, k))
    return next(fits, "not known")


def compare(name: str, key: str, *, digits: int = 1, scale: float = 100.0) -> list[str]:
    """Return the cells printed, ours, interval and verdict of one figure."""
    value = find_experiment(name).published.get(key)
    center = value[0] if isinstance(value, tuple) else value
    shown = MISSING if center is None else f"{scale * center:,.{digits}f}"
    ours = read_record(name).summary.get(key) if has_record(name) else None
    if ours is None or ours["mean"] is None:
        return [shown, MISSING, MISSING, "not run with the frozen settings"]
    mean, n = scale * ours["mean"], ours["n"]
    half = math.inf
    if n > 1:
        half = float(t.ppf(0.975, n - 1)) * scale * (ours["std"] or 0) * math.sqrt(1 + 1 / n)
    low, high = mean - half, mean + half
    interval = f"{low:,.{digits}f} … {high:,.{digits}f}".replace("-", "−") if n > 1 else MISSING
    cells = [shown, f"{mean:,.{digits}f}", interval]
    if center is None:
        return [*cells, MISSING]
    if n == 1:
        side = "higher" if mean > scale * center else "lower"
        near = scale == 100.0 and abs(mean - scale * center) <= 2.0
        return [*cells, "one repeat: near" if near else f"one repeat: {side}"]
    # By what is shown: a figure that is printed with few digits cannot be told from its neighbours.
    unit = 0.5 * 10.0**-digits
    if low - unit <= scale * center <= high + unit:
        return [*cells, "cannot tell" if half > 0.1 * abs(mean) + unit else "agrees"]
    side = "higher" if mean > scale * center else "lower"
    return [*cells, f"{side}: {_reason(name, key)}"]


_HEADER = ["printed", "ours", "one more repeat", "verdict"]


def _table(first: list[str], rows: Iterable[list[str]]) -> str:
    rows = list(rows)
    align = ["---"] * len(first) + ["---:"] * 3 + ["---"]
    lines = ([*first, *_HEADER], align, *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _attacks(name: str, attacks: Iterable[str], kinds: Iterable[str]) -> str:
    kinds = list(kinds)
    rows = []
    for attack in attacks:
        for kind in kinds:
            key = f"{attack}/accuracy/{kind}"
            if key in find_experiment(name).published:
                rows.append([f"`{attack}`", KINDS[kind], *compare(name, key)])
    return _table(["attack", "released"], rows)


_PU = [f"{a}-{c}" for c in ("linear", "3lp") for a in ("growpu", "nnpu", "upu")]
_ENDS = ["oracle-linear", "oracle-3lp", "kmeans"]


def growpu_1() -> str:
    """Return nnPU with labelled positives beside Table 1."""
    labelled = find_experiment("nnpu-table1").published
    rows = [[key.split("/")[2], *compare("nnpu-table1", key)] for key in labelled]
    return _table(["labelled positives"], rows)


def growpu_4() -> str:
    """Return perceptrons of several sizes beside Table 4."""
    data = {"growpu-classifiers": "digits", "growpu-behaviour-classifiers": "users"}
    rows = [
        [f"`{key.split('/')[0]}`", label, *compare(name, key)]
        for name, label in data.items()
        for key in find_experiment(name).published
    ]
    return _table(["attack", "data"], rows)


def growpu_5() -> str:
    """Return attacks on digits beside Table 5."""
    return _attacks("growpu-mnist", _PU + _ENDS, KINDS)


def growpu_6() -> str:
    """Return attacks that see a tenth of the digits beside Table 6."""
    return _attacks("growpu-subset", _PU, KINDS)


def growpu_7() -> str:
    """Return attacks on users beside Table 7."""
    return _attacks("growpu-behaviour", _PU + _ENDS, KINDS)


def growpu_orders() -> str:
    """Return in how many repeats the orders of Table 7 hold."""
    record = read_record("growpu-behaviour")
    orders = (
        ("growpu-linear", "growpu-3lp"),
        ("growpu-linear", "nnpu-linear"),
        ("growpu-3lp", "nnpu-3lp"),
        ("nnpu-3lp", "nnpu-linear"),
        ("nnpu-3lp", "upu-3lp"),
        ("nnpu-linear", "upu-linear"),
    )
    rows = []
    for better, worse in orders:
        cells = [f"`{better}` above `{worse}`"]
        for kind in KINDS:
            series = (record.values[f"{attack}/accuracy/{kind}"] for attack in (better, worse))
            both = [pair for pair in zip(*series, strict=True) if None not in pair]
            cells.append(f"{sum(above > below for above, below in both)} of {len(both)}")
        rows.append(cells)
    return markdown(["order", *KINDS.values()], rows)


def growpu_8() -> str:
    """Return attacks that see a tenth of the users beside Table 8."""
    return _attacks("growpu-behaviour-subset", _PU, KINDS)


def growpu_stages() -> str:
    """Return how the stages of growPU ended, and how long they took."""
    rows = []
    for name, data in (
        ("growpu-mnist", "digits"),
        ("growpu-subset", "a tenth of the digits"),
        ("growpu-behaviour", "users"),
    ):
        if not has_record(name):
            continue
        record = read_record(name)
        for attack in ("growpu-linear", "growpu-3lp"):
            for kind, label in KINDS.items():
                ends = record.extra.get("outcomes", {}).get(f"{attack}/{kind}", {})
                if not ends:
                    continue
                reached = sum(end == "ok" for end in ends.values())
                steps = [
                    f"{mean_of(name, f'{attack}/{stage}_steps/{kind}'):,.0f}"
                    for stage in ("pretrain", "growth")
                ]
                course = _course(name, attack, kind)
                rows.append(
                    [f"`{attack}`", data, label, f"{reached} of {len(ends)}", *steps, *course]
                )
    header = ["attack", "data", "released", "runs whose stages all reached their share",
              "steps of pre-training", "of growth", "still positive late in pre-training",
              "of whom truly", "right after growth", "in the end"]  # fmt: skip
    return markdown(header, rows, words=3)


def _course(name: str, attack: str, kind: str) -> list[str]:
    """Return how the first repeat went, by the points of its curves, in %."""
    record = read_record(name)
    curve = record.extra.get("curves", {}).get(attack, {}).get(kind)
    if curve is None or name == "growpu-subset":  # whose curves are of the tenth alone
        return [MISSING] * 4
    pre, growth = (
        record.values[f"{attack}/{stage}_steps/{kind}"][0] for stage in ("pretrain", "growth")
    )
    steps = np.array(curve["steps"])
    late = max(np.searchsorted(steps, pre) - 1, 0)
    grown = min(np.searchsorted(steps, pre + growth), len(steps) - 1)
    share, right = curve["share"], curve["accuracy"]
    # Half of the records are positive: those guessed rightly beyond it are the positives found.
    truly = 0.5 + (right[late] - 0.5) / share[late] / 2 if share[late] else math.nan
    shown = (share[late], truly, right[grown], right[-1])
    return [f"{100 * value:.1f}" for value in shown]


def growpu_paired() -> str:
    """Return growPU less nnPU and nnPU less uPU on digits, over the repeats that both have."""
    rows = []
    for name, data in (("growpu-mnist", "all digits"), ("growpu-subset", "a tenth")):
        record = read_record(name)
        for classifier in ("linear", "3lp"):
            for kind, label in KINDS.items():
                cells = []
                for more, less in (("growpu", "nnpu"), ("nnpu", "upu")):
                    keys = [f"{attack}-{classifier}/accuracy/{kind}" for attack in (more, less)]
                    if not all(key in record.values for key in keys):
                        cells.append(MISSING)
                        continue
                    pair = [record.per_seed(*key.split("/")) for key in keys]
                    points = 100 * (pair[0] - pair[1])
                    points = points[np.isfinite(points)]
                    p = ttest_1samp(points, 0.0).pvalue if len(points) > 1 else None
                    small = "" if p is None else "; p < 0.001" if p < 0.001 else f"; p = {p:.3f}"
                    cells.append(f"{points.mean():+.1f} ({len(points)}{small})".replace("-", "−"))
                rows.append([data, classifier, label, *cells])
    header = ["attacked with", "classifier", "released", "growPU − nnPU (repeats)",
              "nnPU − uPU (repeats)"]  # fmt: skip
    return markdown(header, rows, words=3)


def growpu_releases() -> str:
    """Return attacks on other releases than those of the tables, in %."""
    name = "growpu-releases"
    if not has_record(name):
        return "Not run yet."
    labels = {
        "some-1": "one random positive", "some-10": "mean of 10", "some-100": "mean of 100",
        "some-1000": "mean of 1,000", "epsilon-0.1": "noise, ε 0.1",
        "epsilon-0.003": "noise, ε 0.003", "epsilon-0.001": "noise, ε 0.001",
    }  # fmt: skip
    record = read_record(name)
    attacks = [a for a in find_experiment(name).attacks if f"{a}/accuracy/some-1" in record.values]
    rows = [
        [label, *(with_spread(name, f"{a}/accuracy/{kind}", digits=1, scale=100) for a in attacks)]
        for kind, label in labels.items()
    ]
    return markdown(["released", *(f"`{a}`" for a in attacks)], rows)


def paper_times() -> str:
    """Return the seconds of each part of the reproductions, by the runs of the records."""
    rows = []
    for paper, names in PAPERS.items():
        for name in names:
            if not has_record(name):
                rows.append([paper, name, *[MISSING] * 3])
                continue
            record = read_record(name)
            whole = {"methods": [], "machine": record.machine, "duration_s": record.duration_s}
            seconds: dict[tuple[str, ...], float] = {}
            for run in record.extra.get("runs", [whole]):
                machine = run["machine"].get("accelerator") or f"{run['machine']['cores']} cores"
                repeats = f"{len(run.get('seeds', record.seeds))}"
                part = f"{name}: {', '.join(run['methods'])}" if name in BY_METHOD else name
                key = (paper, part, repeats, machine)
                seconds[key] = seconds.get(key, 0.0) + run["duration_s"]
            rows += [[*key, f"{spent:,.0f}"] for key, spent in seconds.items()]
    return markdown(["paper", "part", "repeats", "machine", "seconds"], rows, words=2)


def fed_curves() -> str:
    """Return Tables 4.3 to 4.8 and 4.10, epoch by epoch and round by round."""
    curves = read_record("fed-vigan").extra["curves"]
    rows = []
    for number, printed in find_experiment("fed-vigan").printed_curves.items():
        when_of = "round" if printed.phase is None else "epoch"
        entries = {
            entry[when_of]: entry
            for entry in curves.get(printed.method, [])
            if entry.get("phase") == printed.phase
        }
        for when, error in printed.errors.items():
            ours = entries.get(when, {}).get(printed.figure)
            label = [number, printed.title, str(when), f"{error:,.0f}"]
            if ours is None:
                rows.append([*label, MISSING, "not run with the frozen settings"])
                continue
            verdict = "agrees"
            if abs(ours - error) > 0.1 * error:
                side = "higher" if ours > error else "lower"
                key = f"{printed.method}/mse255/all"
                why = _reason("fed-vigan", key)
                if printed.figure == "autoencoder":
                    why = "optimiser and step not stated"
                verdict = f"{side}: {why}"
            rows.append([*label, f"{ours:,.0f}", verdict])
    align = ["---", "---", "---:", "---:", "---:", "---"]
    header = ["table", "what", "epoch or round", "printed", "ours", "verdict"]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, align, *rows))


def fed_ends() -> str:
    """Return the last round of each system of the thesis, over repeats."""
    words = {"mse255": "squared error", "psnr": "PSNR, dB"}
    rows = []
    for key in find_experiment("fed-vigan").published:
        method, metric, _ = key.split("/")
        if metric in words:
            cells = compare("fed-vigan", key, digits=1 if metric == "mse255" else 2, scale=1)
            rows.append([f"`{method}`", words[metric], *cells])
    return _table(["method", "figure"], rows)


def fed_groups() -> str:
    """Return Tables 5.1 and 5.2."""
    rows = []
    for name in ("fed-vigan-clusters", "fed-vigan"):
        for key in find_experiment(name).published:
            method, metric, where = key.split("/")
            if where == "kmeans":
                table = "5.1" if metric in ("purity", "ari") else "5.2"
                cells = compare(name, key, digits=3, scale=1)
                rows.append([table, f"`{method}`", metric, *cells])
    return _table(["table", "completed by", "figure"], sorted(rows, key=lambda row: row[0]))


def crs_2() -> str:
    """Return the forest's accuracy on original rows beside Table II."""
    rows = [
        [data, *compare(data, "original/rf/all", digits=3, scale=1)]
        for data in ("wdbc", "mfdd", "madelon", "cube")
    ]
    return _table(["data"], rows)


def crs_3() -> str:
    """Return masks on the cube beside Table III."""
    names = {"shared": "shared feature", "nonshared": "other feature, absolute value"}
    rows = [
        [label, *compare("cube", f"mwm/mask_{name}/all", digits=3, scale=1)]
        for name, label in names.items()
    ]
    return _table(["weight of"], rows)


def crs_6() -> str:
    """Return on which views masks are better than equal weights, by each figure (Fig. 6 and 9)."""
    names = {
        "mse": "squared error", "mrd": "MRD, true values beyond 0.01",
        "mrd_all": "MRD, all but zeros",
        "mrd_0.001": "MRD, beyond 0.001", "mrd_0.1": "MRD, beyond 0.1",
        "mrd_median": "median ratio", "class_diff": "change of the forest's accuracy, absolute",
    }  # fmt: skip
    claims = {"mse": "almost every view", "class_diff": "a majority of views"}
    rows = []
    for metric, label in names.items():
        better, worse, sets = 0, [], []
        for data in ("cube", "wdbc", "mfdd"):
            views = [
                key.rpartition("/")[2]
                for key in read_record(data).summary
                if key.startswith(f"mwm/{metric}/view_")
            ]
            sets += [data] * bool(views)
            for view in views:
                mwm, equal = (abs(mean_of(data, f"{m}/{metric}/{view}")) for m in ("mwm", "equal"))
                better += mwm < equal
                if mwm >= equal:
                    worse.append(f"`{view.removeprefix('view_')}` of {data}")
        if not sets:
            continue
        count = f"{better} of {better + len(worse)}"
        printed = claims.get(metric, "all views")
        agrees = not worse if printed == "all views" else better > len(worse)
        verdict = "agrees" if agrees else "differs"
        rows.append([label, ", ".join(sets), printed, count, ", ".join(worse) or "none", verdict])
    header = ["figure", "data", "masks better, printed", "ours", "views where not", "verdict"]
    align = ["---", "---", "---", "---:", "---", "---"]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, align, *rows))


def grid_growpu() -> str:
    """Return in how many settings of the grid growPU runs as described, and what the rule took."""
    readings, chosen = growpu_readings(), choose_growpu()
    reached = [r for r in readings if r["reached"]]
    near = [r for r in reached if 1_000 <= r["length"] <= 4_000]
    worst = sorted(min(r["accuracy"]) for r in near)
    rows = [
        ["settings tried, each on 4 against 9 and 8 against 2", f"{len(readings)}"],
        ["all stages reach their shares on both", f"{len(reached)}"],
        ["and pre-training takes 1,000 to 4,000 steps (Fig. 4: about 2,000)", f"{len(near)}"],
        ["of these, classified rightly in the end, on the worse pair: least, median, most",
         f"{100 * worst[0]:.1f}, {100 * worst[len(worst) // 2]:.1f}, {100 * worst[-1]:.1f} %"],
        ["taken by the rule: steps of pre-training, median", f"{chosen['length']:.0f}"],
        ["positive of those still classified so near its end",
         ", ".join(f"{100 * share:.1f} %" for share in chosen["precision"])],
        ["classified rightly in the end",
         ", ".join(f"{100 * share:.1f} %" for share in chosen["accuracy"])],
    ]  # fmt: skip
    return markdown(["quantity", "value"], rows)


def grid_vigan() -> str:
    """Return what generators come to in five epochs at one site, by how they are made."""
    names = {
        ("grid", "grid"): "patches, without normalisation",
        ("gridnorm", "grid"): "patches, normalised",
        ("gridnorm", "patch"): "patches, normalised; discriminator of convolutions",
        ("convraw", "patch"): "convolutions, without normalisation",
        ("conv", "patch"): "convolutions, normalised (`small`)",
        ("published", "patch64"): "the public VIGAN's (`published`)",
    }
    rows = []
    for kind, label in names.items():
        ends = [
            sum(r["curve"][-1]) / 2
            for r in read_lines("vigan")
            if (r["gen"], r["judge"]) == kind and r["data"] == "mnist"
            and r["n"] == 1500 and r["batch"] == 4 and r["alt"] and len(r["curve"]) == 5
        ]  # fmt: skip
        ends.sort()
        least, middle = f"{ends[0]:,.0f}", f"{ends[len(ends) // 2]:,.0f}"
        rows.append([label, f"{len(ends)}", least, middle])
    return markdown(["generators", "settings", "least error", "median"], rows)


PAPER_BLOCKS = {
    "grid-growpu": grid_growpu,
    "grid-vigan": grid_vigan,
    "crs-2": crs_2,
    "crs-3": crs_3,
    "crs-6": crs_6,
    "fed-curves": fed_curves,
    "fed-ends": fed_ends,
    "fed-groups": fed_groups,
    "growpu-1": growpu_1,
    "growpu-4": growpu_4,
    "growpu-5": growpu_5,
    "growpu-6": growpu_6,
    "growpu-7": growpu_7,
    "growpu-8": growpu_8,
    "growpu-orders": growpu_orders,
    "growpu-paired": growpu_paired,
    "growpu-releases": growpu_releases,
    "growpu-stages": growpu_stages,
    "paper-times": paper_times,
}
