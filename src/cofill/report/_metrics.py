"""What metrics are called and how they are read, and the figures of a result record by metric."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from cofill.metrics import ResultRecord
from cofill.pages import Quantity


@dataclass(frozen=True)
class Metric:
    """A figure's name with its unit, how to read it, and a value to compare with."""

    name: str
    words: str
    digits: int = 3
    line_at: float | None = None
    lower_is_better: bool = False


_METRICS = {
    "mse": Metric(
        "standardised MSE",
        "Mean squared error in units of each feature's variance: 0 is perfect, 1 is as good as "
        "filling in the mean. Lower is better.",
        line_at=1.0,
        lower_is_better=True,
    ),
    "r2": Metric("R²", "Share of the variance that is explained: 1 is perfect, 0 is the mean."),
    "mrd": Metric(
        "mean relative difference",
        "Mean of |completed − true| over |true|. Lower is better.",
        lower_is_better=True,
    ),
    "accuracy": Metric("accuracy", "Share that is right: 1 is perfect. Higher is better."),
    "sureness": Metric("expected accuracy", "Share that the attack itself expects to be right."),
    "rf": Metric("random forest accuracy", "Share a random forest classifies rightly."),
    "class_diff": Metric(
        "classification difference",
        "Change of a random forest's accuracy when rows are replaced by their reconstructions.",
        line_at=0.0,
    ),
    "coverage": Metric("coverage", "Share of true values inside their interval."),
    "psnr": Metric("PSNR, dB", "Peak signal-to-noise ratio of images; higher is better.", 2),
    "ssim": Metric("SSIM", "Structural similarity of images: 1 is the same image."),
    "mse255": Metric(
        "MSE, grey levels²", "Squared error on the scale of 0 to 255.", 1, lower_is_better=True
    ),
    "purity": Metric("purity", "Share of individuals in a group whose class is the commonest."),
    "nmi": Metric("NMI", "Normalised mutual information of groups and classes: 1 is the same."),
    "ari": Metric("ARI", "Adjusted Rand index: 1 is the same grouping, 0 is chance."),
}


def metric_of(name: str) -> Metric:
    """Return a metric; an unknown one is called by its key.

    Examples
    --------
    >>> metric_of("psnr").name, metric_of("us_per_step").name, metric_of("cell_r2").name
    ('PSNR, dB', 'us per step', 'R² of hidden cells')
    """
    whole = _METRICS.get(name.removeprefix("cell_"))
    if whole is not None and name.startswith("cell_"):
        return replace(whole, name=f"{whole.name} of hidden cells")
    return _METRICS.get(name, Metric(name.replace("_", " "), ""))


class Figures:
    """The figures of a result record, whose summary is made once."""

    def __init__(self, record: ResultRecord) -> None:
        self.record = record
        self.summary = record.summary

    def of(self, method: str, metric: str, where: str) -> Quantity | None:
        """Return a figure with its spread over the repeats, None where there is none."""
        figure = self.summary.get(f"{method}/{metric}/{where}")
        if figure is None or figure["mean"] is None:
            return None
        n = figure["n"]
        words = f"mean ± standard deviation over {n} repeats" if n > 1 else "one repeat"
        spread = figure["std"] if n > 1 else None
        return Quantity(figure["mean"], spread, digits=metric_of(metric).digits, words=words)

    @property
    def metrics(self) -> list[str]:
        """The metrics there are, in the record's order."""
        return list(dict.fromkeys(key.split("/")[1] for key in self.record.values))

    def methods(self, metric: str) -> list[str]:
        """Return the methods that have a metric, in the record's order."""
        keys = (key.split("/") for key in self.record.values)
        return list(dict.fromkeys(method for method, measured, _ in keys if measured == metric))

    def parts(self, metric: str) -> list[str]:
        """Return the views or parts that a metric was measured on, ``all`` last."""
        keys = (key.split("/") for key in self.summary)
        measured = list(dict.fromkeys(where for _, name, where in keys if name == metric))
        parts = [part for part in measured if part != "all"]
        # "all" beside a single part would say the same twice.
        return [*parts, "all"] if "all" in measured and len(parts) != 1 else parts


@cache
def pools_rows() -> frozenset[str]:
    """Return the methods that see all rows in one place."""
    from cofill.completion import methods

    return frozenset(m.name for m in methods() if m.facts.get("pools_rows"))
