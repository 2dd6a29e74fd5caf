"""What the growPU paper prints in Tables 1 and 4 to 8: percentages of records guessed right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["TABLE_1", "TABLE_4", "TABLE_5", "TABLE_6", "TABLE_7", "TABLE_8", "printed"]

TABLE_5 = {
    "growpu-linear": (93.6, 84.6, 91.8),
    "nnpu-linear": (79.9, 79.2, 81.0),
    "upu-linear": (79.4, 70.3, 75.8),
    "oracle-linear": (95.0,),
    "growpu-3lp": (92.0, 86.3, 91.9),
    "nnpu-3lp": (85.7, 81.3, 85.8),
    "upu-3lp": (50.5, 50.2, 50.1),
    "oracle-3lp": (98.4,),
    "kmeans": (68.0,),
}
TABLE_6 = {
    "growpu-linear": (93.3, 84.1, 90.9),
    "nnpu-linear": (79.0, 81.6, 79.8),
    "upu-linear": (72.4, 67.2, 70.4),
    "growpu-3lp": (90.1, 85.7, 90.2),
    "nnpu-3lp": (84.2, 81.6, 82.8),
    "upu-3lp": (51.2, 51.9, 50.5),
}
TABLE_7 = {
    "growpu-linear": (88.1, 81.0, 84.6),
    "nnpu-linear": (73.0, 68.7, 73.4),
    "upu-linear": (64.9, 62.9, 65.2),
    "oracle-linear": (89.1,),
    "growpu-3lp": (85.4, 80.1, 82.6),
    "nnpu-3lp": (77.5, 76.0, 76.2),
    "upu-3lp": (50.7, 50.6, 50.1),
    "oracle-3lp": (89.2,),
    "kmeans": (60.0,),
}
TABLE_8 = {
    "growpu-linear": (88.0, 83.5, 83.5),
    "nnpu-linear": (72.7, 71.0, 72.9),
    "upu-linear": (71.1, 62.9, 72.6),
    "growpu-3lp": (83.8, 80.9, 81.4),
    "nnpu-3lp": (77.8, 76.3, 76.0),
    "upu-3lp": (51.8, 50.6, 50.7),
}
TABLE_4 = {
    "nnpu": {
        "mnist": (83.8, 84.6, 85.7, 81.7, 79.4, 77.9, 78.0, 78.4, 78.7),
        "behaviour": (77.2, 77.5, 77.4, 70.5, 72.6, 70.3, 59.4, 55.1, 54.1),
    },
    "growpu": {
        "mnist": (90.3, 91.3, 92.0, 73.6, 78.1, 84.9, 79.1, 84.8, 90.2),
        "behaviour": (84.6, 85.4, 85.1, 84.4, 84.5, 85.4, 84.9, 85.4, 85.3),
    },
}
TABLE_1 = {1000: 94.4, 300: 93.3, 100: 87.2, 30: 79.6, 10: 64.3, 3: 59.1, 1: 51.9}


def printed(rows: Mapping[str, Sequence[float]], kinds: Sequence[str]) -> dict[str, float]:
    """Return a table's percentages as fractions, by the names of figures in a record."""
    return {
        f"{name}/accuracy/{kind}": round(value / 100, 4)
        for name, values in rows.items()
        for kind, value in zip(kinds, values, strict=False)
    }
