"""The figures of README.md: four headline results, the leak of codes, other tools."""

from __future__ import annotations

from bench.records import MISSING, markdown, mean_of, printed, read_record


def headline() -> str:
    """Return one row per capability: our figure beside the one it has to be compared with."""

    def demo(method: str) -> str:
        return f"{mean_of('bench_demo', f'{method}/mse/all'):.2f}"

    attack = "growpu-linear/accuracy/noisy"
    rows = [
        (
            "complete tables of shared patients, only codes exchanged: standardised squared error",
            demo("cooperative"),
            f"{demo('central')} all rows in one place; {demo('knn')} nearest neighbours; "
            f"{demo('mean')} column mean",
        ),
        (
            "complete images at ten sites, only model updates exchanged: PSNR, dB",
            f"{mean_of('fed-vigan', 'fed-best/psnr/all'):.1f}",
            f"{mean_of('fed-vigan', 'central-best/psnr/all'):.1f} all rows in one place; "
            f"{printed('fed-vigan', 'fed-faithful/psnr/all', digits=1)} printed for Fed-VIGAN",
        ),
        (
            "guess a private class from a noisy mean: right guesses",
            f"{100 * mean_of('growpu-mnist', 'best/accuracy/noisy'):.1f} %",
            f"{100 * mean_of('growpu-mnist', attack):.1f} % growPU "
            f"({printed('growpu-mnist', attack, digits=1, scale=100)} % printed); "
            f"{100 * mean_of('growpu-mnist', 'kmeans/accuracy/noisy'):.1f} % without the mean",
        ),
        (
            f"train {read_record('bench_engine').settings['networks']} small networks on two cores",
            f"{mean_of('bench_engine', 'cofill/seconds/all'):.1f} s",
            f"{mean_of('bench_engine', 'pytorch/seconds/all'):.0f} s eager PyTorch; "
            f"{mean_of('bench_engine', 'sklearn/seconds/all'):.0f} s scikit-learn",
        ),
    ]
    return markdown(["task and measure", "cofill", "for comparison"], rows, words=3)


def code_leak() -> str:
    """Return the sentences of the README's box that hold figures."""
    record = read_record("leak-codes")
    leaks = [mean_of("leak-codes", f"none/inversion_r2/{s}") for s in record.extra["verdict"]]
    defended = [v["within"]["inversion_r2"] for v in record.extra["verdict"].values()]
    return (
        f"> Without a defence, a receiver with pairs of rows and codes recovers R² "
        f"{min(leaks):.2f} to {max(leaks):.2f}\n"
        f"> of the other rows. The best defences found still leak {min(defended):.2f} to "
        f"{max(defended):.2f} when the\n"
        "> error of completed rows may grow by a quarter."
    )


def other_tools() -> str:
    """Return what other tools do beside cofill, with a figure where both were measured."""
    federate = read_record("bench_federate").extra["ratio"]

    def imputed(method: str) -> str:
        return " / ".join(f"{mean_of(n, f'{method}/mse/all'):.2f}" for n in ("wdbc", "mfdd"))

    def seconds(tool: str) -> str:
        sizes = ("1 MB", "50 MB")
        return " / ".join(f"{mean_of('bench_network', f'{tool}/round_s/{s}'):.2f}" for s in sizes)

    rows = [
        ("scikit-learn imputers, HyperImpute", "after a join by hand", "no", "no", "no",
         f"error on WDBC / MFDD: k-NN {imputed('knn')}, iterative {imputed('iterative')}; "
         f"cofill {imputed('best')}"),
        ("iMML, multi-view-AE", "yes (multi-view-AE trains on complete rows)", "no", "no", "no",
         MISSING),
        ("Flower, pfl", "bring your own model", "yes", "yes (pfl simulates)", "no",
         f"Flower's simulated round takes {federate['tables']:.0f} (tables) and "
         f"{federate['digits']:.1f} (images) times cofill's"),
        ("NVIDIA FLARE", "bring your own model", "yes", "yes", "no",
         f"round of 1 / 50 MB: {seconds('flare')} s; cofill on top of it {seconds('cofill')} s"),
        ("ML Privacy Meter", "no", MISSING, "no", "membership", MISSING),
        ("cofill", "yes", "yes", "yes, on FLARE", "codes, means, updates, models, ids", MISSING),
    ]  # fmt: skip
    header = ["", "fills rows of several tables", "rows stay with owner", "between machines",
              "attacks its releases", "measured"]  # fmt: skip
    return markdown(header, rows, words=6)


README_BLOCKS = {"headline": headline, "code-leak": code_leak, "other-tools": other_tools}
