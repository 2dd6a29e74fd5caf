"""Time a million rows: read four views from Parquet, hide rows, scale, complete by the mean.

It runs in a process of its own, so that its peak memory is that of the job.
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

from cofill.completion import make
from cofill.metrics import Recorder
from cofill.views import Scaler, drop_rows, read_views, write_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    options = parser.parse_args()
    rows = 10_000 if options.quick else 1_000_000
    settings = {"rows": rows, "views": 4, "features": 32, "dtype": options.dtype}
    with tempfile.TemporaryDirectory() as folder:
        sources = _write(Path(folder), rows, options.dtype)
        recorder = Recorder("rows", seeds=[0], settings=settings)
        seconds = _run(sources, Path(folder) / "out")
    seconds["all"] = sum(seconds.values())
    for step, value in seconds.items():
        recorder.add("mean", "seconds", step, [value])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    recorder.add("mean", "peak_gib", "all", [peak])
    record = recorder.finish()
    if options.out:
        record.write(options.out)
    print(f"{rows:,} rows × 4 views × 32 features of {options.dtype}")
    for step, value in seconds.items():
        print(f"  {step:<8} {value:6.1f} s")
    print(f"  peak     {peak:6.2f} GiB")


def _write(folder: Path, rows: int, dtype: str) -> dict[str, str]:
    rng = np.random.default_rng(0)
    sources = {}
    for k in range(4):
        columns = {"person": pa.array(rng.permutation(rows))}
        for f in range(32):
            columns[f"f{f}"] = pa.array(rng.normal(size=rows).astype(dtype))
        path = folder / f"view{k}.parquet"
        pq.write_table(pa.table(columns), path)
        sources[f"view{k}"] = str(path)
    return sources


def _run(sources: dict[str, str], out: Path) -> dict[str, float]:
    seconds = {}
    clock = time.perf_counter()

    def lap(step: str) -> None:
        nonlocal clock
        now = time.perf_counter()
        seconds[step] = now - clock
        clock = now

    views = read_views(sources, id="person")
    lap("read")
    views, _ = drop_rows(views, 0.3, key=0)
    lap("mask")
    for view in views.values():
        scaler = Scaler.fit(view)
        encoded = scaler.encode(view.cells, dtype=np.float32)
        if not np.isfinite(encoded).all():
            raise SystemExit("scaling failed")
        del encoded
    lap("scale")
    completed = make("mean").fit_complete(views)
    lap("complete")
    out.mkdir()
    for name in sources:
        write_table(completed.table(name), out / f"{name}.parquet")
    lap("write")
    return seconds


if __name__ == "__main__":
    main()
