"""Time `cofill complete` on many people: three tables of 20 mixed columns, rows and cells missing.

    python -m bench.scale [--people 100000] [--effort normal] [--out results/bench_scale.json]

Everything a user waits for is counted: reading Parquet, learning, filling, writing. It runs in a
process of its own, so that its peak memory is that of the job. Errors are those of the filled cells
in units of the columns' spread (codes: share of wrong ones), beside the mean's and the mode's.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cofill.completion import CompletionJob, run_completion
from cofill.metrics import Recorder

VIEWS = ("bank", "clinic", "shop")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="2,000 people")
    parser.add_argument("--people", type=int, nargs="+", default=[100_000])
    parser.add_argument("--effort", default="normal")
    options = parser.parse_args()
    counts = [2_000] if options.quick else options.people
    settings = {"people": counts, "views": 3, "columns": 20, "effort": options.effort}
    recorder = Recorder("scale", seeds=[0], settings=settings)
    for people in counts:
        for metric, value in run(people, options.effort).items():
            recorder.add("pooled", metric, f"{people}", [value])
            print(f"{people:>9,} people  {metric:<22} {value:8.3f}", flush=True)
    if options.out:
        recorder.finish().write(options.out)


def run(people: int, effort: str) -> dict[str, float]:
    """Return seconds, memory and errors of one job."""
    truth = draw_people(people, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        sources, hidden = {}, {}
        for view in VIEWS:
            present = np.flatnonzero(rng.random(people) < 0.8)
            columns = {"person": pa.array(present)}
            hidden[view] = np.ones((people, 20), bool)
            hidden[view][present] = rng.random((len(present), 20)) < 0.05
            for k, name in enumerate(truth[view].column_names):
                mask = pa.array(hidden[view][present, k])
                column = truth[view][name].take(pa.array(present)).combine_chunks()
                columns[name] = pa.compute.if_else(mask, None, column)
            sources[view] = f"{folder}/{view}.parquet"
            pq.write_table(pa.table(columns), sources[view])
        started, processor = time.perf_counter(), time.process_time()
        job = CompletionJob(sources, "person", f"{folder}/out", settings={"effort": effort})
        result = run_completion(job)
        seconds = time.perf_counter() - started, time.process_time() - processor
        filled = {v: pq.read_table(f"{folder}/out/{v}.parquet") for v in VIEWS}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    figures = {"seconds": seconds[0], "processor_seconds": seconds[1], "peak_gib": peak}
    return figures | score(truth, filled, hidden, result.completed.source.ids)


def score(truth, filled, hidden, ids) -> dict[str, float]:
    """Return errors of the people whom some view knows, beside those of mean and mode."""
    known = np.asarray(ids, dtype=np.int64)
    numbers, wrong, modal = [], [], []
    for view in VIEWS:
        order = np.argsort(np.asarray(filled[view]["person"], dtype=np.int64))
        for k, name in enumerate(truth[view].column_names):
            gone = hidden[view][known, k]
            actual = truth[view][name].to_numpy()[known][gone]
            guess = filled[view][name].to_numpy(zero_copy_only=False)[order][gone]
            if actual.dtype == object:
                values, counts = np.unique(actual.astype(str), return_counts=True)
                wrong.append((actual != guess).mean())
                modal.append((actual != values[counts.argmax()]).mean())
            else:
                numbers.append(((actual - guess) ** 2).mean() / actual.var())
    return {
        "squared_error": float(np.mean(numbers)),
        "wrong_codes": float(np.mean(wrong)),
        "wrong_codes_of_mode": float(np.mean(modal)),
    }


def draw_people(people: int, rng: np.random.Generator) -> dict[str, pa.Table]:
    """Return tables of 12 numbers (some skewed, some counts), 5 categories and 3 yes-or-no each."""
    traits = rng.normal(size=(people, 6))
    tables = {}
    for view in VIEWS:
        mix = rng.normal(size=(6, 20)) / np.sqrt(6)
        bend = rng.normal(size=(6, 20)) / np.sqrt(6)
        raw = traits @ mix + 0.7 * np.tanh(traits @ bend) * np.sign(traits[:, :1])
        raw += 0.6 * rng.normal(size=raw.shape)
        columns = {}
        for k in range(20):
            column = raw[:, k]
            if k < 8:
                columns[f"{view}_number{k}"] = pa.array(np.round(column, 4))
            elif k < 10:
                columns[f"{view}_amount{k}"] = pa.array(np.round(np.exp(column), 2))
            elif k < 12:
                columns[f"{view}_count{k}"] = pa.array(np.floor(np.exp(column)).astype(np.int64))
            else:
                levels = 5 if k < 17 else 2
                cuts = np.quantile(column, np.arange(1, levels) / levels)
                words = np.array([f"{chr(97 + i)}{k}" for i in range(levels)], dtype=object)
                columns[f"{view}_kind{k}"] = pa.array(words[np.searchsorted(cuts, column)])
        tables[view] = pa.table(columns)
    return tables


if __name__ == "__main__":
    main()
