"""Time a matrix product between parties by another project's library, in whatever runs this file.

    python bench/gram.py mpyc|tenseal ROWS COLUMNS [-M3]

It prints seconds and the largest error as JSON. Nothing of cofill is imported.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np


def tables(rows, columns):
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, columns)), rng.normal(size=(rows, columns))


async def by_mpyc(rows, columns):
    """Three processes on this machine share both tables and open the product."""
    from mpyc.runtime import mpc

    number = mpc.SecFxp(64, 20)
    x, y = tables(rows, columns)
    await mpc.start()
    started = time.perf_counter()
    left = mpc.input(number.array(x), senders=0)
    right = mpc.input(number.array(y), senders=1)
    opened = await mpc.output(left.T @ right)
    seconds = time.perf_counter() - started
    is_first = mpc.pid == 0
    await mpc.shutdown()
    return seconds, np.array(opened, dtype=float), is_first


def by_tenseal(rows, columns):
    """One party encrypts its columns, the other multiplies by its own in the clear."""
    import tenseal as ts

    x, y = tables(rows, columns)
    context = ts.context(
        ts.SCHEME_TYPE.CKKS, poly_modulus_degree=8192, coeff_mod_bit_sizes=[60, 40, 40, 60]
    )
    context.global_scale = 2**40
    context.generate_galois_keys()
    started = time.perf_counter()
    columns_of_x = [ts.ckks_vector(context, column) for column in x.T]
    product = [column.matmul(y.tolist()) for column in columns_of_x]
    opened = np.array([vector.decrypt() for vector in product])
    return time.perf_counter() - started, opened


def main():
    method, rows, columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    is_first = True
    if method == "mpyc":
        from mpyc.runtime import mpc

        seconds, opened, is_first = mpc.run(by_mpyc(rows, columns))
    else:
        seconds, opened = by_tenseal(rows, columns)
    x, y = tables(rows, columns)
    error = float(np.abs(opened - x.T @ y).max())
    if is_first:
        print(json.dumps({"seconds": seconds, "largest_error": error}), flush=True)


if __name__ == "__main__":
    main()
