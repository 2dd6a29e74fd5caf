"""Evaluate every registered method on the demo's data: three hospitals, 30 % of rows missing."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from cofill.completion import CompletionJob, methods, run_completion
from cofill.views import drop_rows, load, to_table, write_table
from cofill_papers import table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="one repeat")
    options = parser.parse_args()
    incomplete, _ = drop_rows(load("wdbc").views, 0.3, key=0)
    with tempfile.TemporaryDirectory() as folder:
        sources = {}
        for name, view in incomplete.items():
            sources[name] = f"{folder}/{name}.csv"
            write_table(to_table(view), Path(sources[name]))
        job = CompletionJob(
            sources=sources,
            id="id",
            out=f"{folder}/out",
            separate=True,
            evaluate=True,
            compare=tuple(m.name for m in methods()),
            repeats=1 if options.quick else 10,
        )
        result = run_completion(job)
    record = result.evaluation
    if record is None:
        raise SystemExit("the job must return an evaluation and returned none")
    facts = {key: result.facts[key] for key in ("individuals", "views")}
    record = replace(record, name="bench_demo", extra=facts)
    print(table(record, metrics=["mse"]))
    if options.out:
        record.write(options.out)


if __name__ == "__main__":
    main()
