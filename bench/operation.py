"""Tables of docs/operators.md from the records of faults and of load."""

from __future__ import annotations

from bench.records import markdown, read_record

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


OPERATION_BLOCKS = {"faults": faults, "load": load}
