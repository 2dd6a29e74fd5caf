"""Tables of docs/operators.md from the records of faults, outages and load."""

from __future__ import annotations

from bench.records import MISSING, markdown, read_record

_FAULTS = {
    "kill": "killed",
    "full_disk": "full disk",
    "lost_answer": "answer lost, then twice",
    "source_gone": "table gone",
    "clock_ahead": "clock a day ahead",
    "clock_behind": "a day behind",
}


def faults() -> str:
    """Return how many faults each protocol has survived, by kind."""
    values = read_record("faults").values
    experiments = dict.fromkeys(key.partition("/")[0] for key in values)
    header = ["protocol", "steps", *_FAULTS.values(), "released again"]
    rows = []
    for name in experiments:
        again = sum(sum(values[f"{name}/again/{fault}"]) for fault in _FAULTS)
        rows.append(
            [
                f"`{name}`",
                f"{max(values[f'{name}/steps/kill']):.0f}",
                *(_survived(values, name, fault) for fault in _FAULTS),
                f"{again:.0f}",
            ]
        )
    return markdown(header, rows)


def _survived(values: dict[str, list[float]], name: str, fault: str) -> str:
    """Return the number of faults in runs that ended as if nothing had happened, of all."""
    pairs = zip(values[f"{name}/trials/{fault}"], values[f"{name}/whole/{fault}"], strict=True)
    counts = [(trials, trials * whole) for trials, whole in pairs]
    return f"{sum(c[1] for c in counts):.0f} of {sum(c[0] for c in counts):.0f}"


def outages() -> str:
    """Return how runs ended in which something was gone for a while, and how long they stood."""
    record = read_record("outages")
    experiments = dict.fromkeys(key.partition("/")[0] for key in record.values)
    words = {"cut": "line cut", "hole": "line swallows all", "stop": "site stopped",
             "database": "database stopped"}  # fmt: skip
    seconds = record.settings["seconds"]
    header = ["protocol", *(f"{words[f]} for {seconds[f]:.0f} s" for f in words)]
    rows = [
        [f"`{name}`", *(_outage(record.values, name, f) for f in words)] for name in experiments
    ]
    return markdown(header, rows)


def _outage(values: dict[str, list[float]], name: str, fault: str) -> str:
    if f"{name}/whole/{fault}" not in values:
        return MISSING
    if not values[f"{name}/whole/{fault}"][0]:
        return "**not whole**"
    return f"whole, {values[f'{name}/stall_s/{fault}'][0]:.1f} s"


def load() -> str:
    """Return what thirty sites took, and what a site's process had in the middle and at the end."""
    values = {key: series[0] for key, series in read_record("load").values.items()}
    sites = read_record("load").settings["sites"]
    rows = [
        [
            f"`{name}` at {sites} sites",
            f"{values[f'{name}/results/{sites}_sites']:.0f} sites have results",
            f"{values[f'{name}/seconds/{sites}_sites']:.0f} s",
            f"{values[f'{name}/mebibytes/{sites}_sites']:,.0f} MiB",
        ]
        for name in ("mean", "cluster")
    ]
    for when, words in (("early", "in the middle"), ("late", "in the last fifth")):
        figures = {what: values[f"rounds/{what}/{when}"] for what in ("threads", "files")}
        disk = values[f"rounds/kit_mebibytes/{when}"]
        rows.append(
            [
                f"a site's process, {words} of {read_record('load').settings['rounds']} rounds",
                f"{figures['threads']:.0f} threads, {figures['files']:.0f} open files",
                f"{disk:.1f} MiB in its kit",
                f"{values[f'rounds/mebibytes/{when}']:,.0f} MiB",
            ]
        )
    return markdown(["what", "", "", "memory"], rows)


OPERATION_BLOCKS = {"faults": faults, "outages": outages, "load": load}
