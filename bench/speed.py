"""The tables of docs/results.md that say how fast cofill is."""

from __future__ import annotations

from bench.records import MISSING, markdown, mean_of, read_record


def engine() -> str:
    """Return how long many small networks train, beside the loops people write."""
    settings = read_record("bench_engine").settings
    names = {"cofill": "cofill", "pytorch": f"eager PyTorch {settings['torch']}",
             "sklearn": "scikit-learn's `MLPRegressor`"}  # fmt: skip
    rows = [
        [
            label,
            f"{mean_of('bench_engine', f'{tool}/seconds/all'):.1f}",
            f"{mean_of('bench_engine', f'{tool}/times_cofill/all'):.0f}",
            f"{mean_of('bench_engine', f'{tool}/final_loss/all'):.3f}",
        ]
        for tool, label in names.items()
    ]
    work = f"{settings['networks']} networks (10-15-10, {settings['epochs']} epochs)"
    return markdown([work, "seconds", "times cofill", "final loss"], rows)


def cooperate_speed() -> str:
    """Return how long cooperative reconstruction takes as repeats, views and rows grow."""
    repeats = read_record("bench_cooperate").settings["repeats"]

    def value(key: str, digits: int = 1) -> str:
        return f"{mean_of('bench_cooperate', key):.{digits}f}"

    rows = [
        [f"train and evaluate the paper's {repeats} WDBC repeats", value("cofill/seconds/wdbc")],
        ["train them, without evaluation", value("cofill/train_seconds/wdbc")],
        ["train the same networks in eager PyTorch", value("pytorch/train_seconds/wdbc")],
        ["fit and complete 32 views (992 links), 10,000 rows", value("cofill/seconds/views_32")],
    ] + [
        [f"fit and complete four views, one pass of every network, {count:,} rows",
         value(f"cofill/seconds/rows_{count}")]
        for count in (10**4, 10**5, 10**6)
    ]  # fmt: skip
    return markdown(["work", "seconds"], rows)


def attack_speed() -> str:
    """Return how long attacks on a mean take."""
    records = read_record("bench_attack").settings["records"]

    def value(key: str, digits: int = 1) -> str:
        return f"{mean_of('bench_attack', key):.{digits}f}"

    rows = [
        [f"`discriminant` on {records:,} sparse records of 200 columns: seconds",
         value("discriminant/seconds/sparse")],
        ["the same: peak memory, GiB", value("discriminant/peak_gib/sparse")],
        ["growPU, linear: eager PyTorch's time by ours", value("pytorch/times_cofill/linear")],
        ["growPU, 300 hidden units: eager PyTorch's time by ours",
         value("pytorch/times_cofill/3lp-300")],
        ["growPU, 300 hidden units: a step in PyTorch, ms", value("pytorch/ms_per_step/3lp-300")],
        ["of which its two unavoidable matrix products, ms",
         value("pytorch/ms_of_products/3lp-300")],
    ]  # fmt: skip
    return markdown(["measure", "value"], rows)


def rounds() -> str:
    """Return how long rounds take, in one process and between processes."""
    record = read_record("bench_federate")
    many = record.extra["thousand_sites"]
    rows = [
        [f"ten sites in one process, {label}",
         f"{mean_of('bench_federate', f'cofill/seconds/{name}'):.3f}",
         f"{mean_of('bench_federate', f'flower/seconds/{name}'):.3f}",
         f"Flower {record.settings['flwr']}'s simulation", f"{record.extra['ratio'][name]:.1f}"]
        for name, label in (("tables", "small tables"), ("digits", "8 × 8 images"))
    ]  # fmt: skip
    rows.append(
        [f"a thousand sites, {many['cohort']} a round ({many['peak_gib']:.1f} GiB)",
         f"{many['seconds']:.3f}", MISSING, MISSING, MISSING]
    )  # fmt: skip
    for size in ("1 MB", "50 MB"):
        ours, flare = (
            mean_of("bench_network", f"{tool}/round_s/{size}") for tool in ("cofill", "flare")
        )
        rows.append(
            [f"three sites between processes with mutual TLS, {size}", f"{ours:.3f}",
             f"{flare:.3f}", "plain FLARE, without gate, ledger, sealing and disk",
             f"{flare / ours:.1f}"]
        )  # fmt: skip
    header = ["a round of", "cofill, s", "other, s", "other tool", "ratio of medians"]
    return markdown(header, rows)


def rows_speed() -> str:
    """Return what a million rows take."""
    settings = read_record("bench_rows").settings
    work = (
        f"read {settings['rows']:,} individuals × {settings['views']} views × "
        f"{settings['features']} features from Parquet, mask, scale, complete by the mean, write"
    )
    seconds, peak = (mean_of("bench_rows", f"mean/{m}/all") for m in ("seconds", "peak_gib"))
    return markdown(["work", "seconds", "peak, GiB"], [[work, f"{seconds:.0f}", f"{peak:.1f}"]])


def scale() -> str:
    """Return how long `cofill complete` takes on many people, and how much memory."""

    def value(people: int, metric: str) -> float:
        return mean_of("bench_scale", f"pooled/{metric}/{people}")

    rows = [
        [
            f"{people:,} people × 3 tables × 20 mixed columns",
            f"{value(people, 'seconds'):.0f}",
            f"{value(people, 'processor_seconds'):.0f}",
            f"{value(people, 'peak_gib'):.1f}",
        ]
        for people in read_record("bench_scale").settings["people"]
    ]
    return markdown(["`cofill complete`", "seconds", "processor seconds", "peak, GiB"], rows)


def private_speed() -> str:
    """Return how long completion on secret shares takes, what it sends, and what others take."""
    record = read_record("bench_private")
    people, ids = record.settings["people"], record.settings["ids"]
    gram = "Gram block " + " × ".join(map(str, record.settings["gram"]))

    def value(key: str, digits: int = 1) -> str:
        return f"{mean_of('bench_private', key):,.{digits}f}" if key in record.summary else MISSING

    def figures(where: str) -> list[str]:
        names = ("seconds", "processor_seconds", "peak_gib", "traffic_mb", "largest_message_mb")
        return [value(f"in process/{name}/{where}") for name in names]

    steps = value("flare/steps_s/wdbc")
    rows = [
        ["WDBC, three views, 30 % of the rows missing", *figures("wdbc")],
        ["the same between processes with mutual TLS: all steps", steps, *[MISSING] * 4],
        [f"{people:,} people × 3 views × 20 columns", *figures(f"{people} people")],
        [f"alignment of {ids:,} ids between three sites", *figures(f"alignment of {ids} ids")],
        *(
            [f"{gram} on shares: {name}", value(f"{tool}/seconds/{gram}", 3), *[MISSING] * 4]
            for tool, name in (("cofill", "cofill, with a dealer"), ("mpyc", "mpyc, three parties"),
                               ("tenseal", "TenSEAL, one side in plain"))
        ),
    ]  # fmt: skip
    header = [
        "work",
        "seconds",
        "processor seconds",
        "peak, GiB",
        "sent, MB",
        "largest message, MB",
    ]
    return markdown(header, rows)


SPEED_BLOCKS = {
    "private-speed": private_speed,
    "scale": scale,
    "engine": engine,
    "cooperate-speed": cooperate_speed,
    "attack-speed": attack_speed,
    "rounds": rounds,
    "rows-speed": rows_speed,
}
