"""Apply the rules of papers/PROTOCOL.md to the lines of the grids, and print what they choose.

python -m bench.grids.choose
"""

from __future__ import annotations

import gzip
import json
import math
import statistics
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

_ROUNDS = 2_000  # of pre-training in Fig. 4
_ORDER = {
    "act": ("relu", "tanh"),
    "opt": ("sgd", "momentum", "adam"),
    "loss": ("logistic", "sigmoid"),
    "init": (0, 1),
    "each": (0, 1),
}
_READING = ("gen", "judge", "batch", "alt", "lr", "loss", "range", "lam", "init")


@cache
def read_lines(name: str) -> list[dict[str, Any]]:
    """Return the lines of a grid that are runs."""
    path = Path(__file__).with_name(f"{name}.jsonl.gz")
    lines = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
    return [line for line in lines if "lr" in line]


def growpu_readings() -> list[dict[str, Any]]:
    """Return each setting of growPU with its runs on both pairs, the paper's stages among them."""
    runs = defaultdict(list)
    for line in read_lines("growpu"):
        if line["kind"] == "grow":
            runs[*(line[name] for name in _ORDER), line["lr"]].append(line)
    readings = []
    for key, pair in runs.items():
        setting = dict(zip((*_ORDER, "lr"), key, strict=True))
        readings.append(
            {
                **setting,
                "reached": all(not any(r["lim"]) and r["stage"] == 3 for r in pair),
                "length": statistics.median(r["lens"][0] for r in pair),
                "accuracy": [r["end"][1] for r in pair],
                "precision": [r["pre"][2] for r in pair if "pre" in r],
            }
        )
    return readings


def choose_growpu() -> dict[str, Any]:
    """Return the setting that the rule chooses.

    nnPU and uPU are looked at on 4 against 9 only: on the other pair their time was cut.
    """
    others = {
        (r["act"], r["opt"], r["init"], r["lr"], r["nn"]): r
        for r in read_lines("growpu")
        if r["kind"] == "pu" and r["digits"] == [4, 9]
    }
    nearest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for reading in growpu_readings():
        away = abs(math.log(reading["length"] / _ROUNDS))
        if not reading["reached"] or away > math.log(2):
            continue
        combination = tuple(reading[name] for name in _ORDER)
        if combination not in nearest or away < nearest[combination]["away"]:
            nearest[combination] = {**reading, "away": away}
    left = []
    for reading in nearest.values():
        same = tuple(reading[name] for name in ("act", "opt", "init", "lr"))
        nnpu, upu = others[*same, 1], others[*same, 0]
        if upu["share"][-1] < 0.05:
            left.append({**reading, "off": nnpu["off"]})
    least = min(reading["off"] for reading in left)
    equal = [reading for reading in left if reading["off"] <= least + 0.005]
    return min(equal, key=lambda r: [_ORDER[name].index(r[name]) for name in _ORDER])


def vigan_readings() -> dict[tuple[Any, ...], float]:
    """Return each setting's error by that of a blank image, geometric mean of both data sets."""
    errors: dict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
    for line in read_lines("vigan"):
        if line["n"] == 1500 and len(line["curve"]) == 5:
            share = sum(line["curve"][-1]) / sum(line["blank"])
            errors[tuple(line[name] for name in _READING)][line["data"]] = share
    return {k: math.sqrt(e["mnist"] * e["usps"]) for k, e in errors.items() if len(e) == 2}


def choose_vigan() -> dict[str, Any]:
    """Return the setting that the rule chooses."""
    readings = vigan_readings()
    least = min(readings.values())

    def departures(key: tuple[Any, ...]) -> tuple[int, float]:
        setting = dict(zip(_READING, key, strict=True))
        stated = setting["alt"], setting["range"] == "01", setting["loss"] == "printed"
        return 3 - sum(stated), readings[key]

    near = [key for key, error in readings.items() if error <= 1.05 * least]
    chosen = min(near, key=departures)
    return {**dict(zip(_READING, chosen, strict=True)), "error": readings[chosen]}


if __name__ == "__main__":
    print(json.dumps({"growpu": choose_growpu(), "vigan": choose_vigan()}, indent=1))
