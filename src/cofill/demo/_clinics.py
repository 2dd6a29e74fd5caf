"""Second chapter: ten clinics with incomplete pairs of images learn one model, then find groups.

The images are 8 × 8 digits and their edges. Half of a clinic's patients have both, a quarter one of
the two only. Weights cross borders, images do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cofill.cluster import ClusterJob, ClusterResult, run_cluster
from cofill.completion import Progress
from cofill.federate import FederatedCompletion, LocalSettings, PairScores, RoundSettings, RowSite
from cofill.metrics import Recorder, ResultRecord, psnr
from cofill.metrics import purity as purity_of
from cofill.privacy import Ledger, SentLog
from cofill.views import MultiView, by_row_paired, load, to_table, write_table

_SITES, _ROUNDS, _TEST = 10, 8, 297  # the 1,500 others are 10 clinics of 150 patients


@dataclass(frozen=True, eq=False)
class Clinics:
    """What the clinics reached: figures on images nobody trained on, groups, what was sent."""

    record: ResultRecord
    groups: ClusterResult
    ledger: Ledger
    sent: SentLog
    sites: Mapping[str, RowSite]
    strangers: MultiView

    @property
    def purity(self) -> float:
        """Share of the patients in a group of mostly their own digit."""
        return float(self.record.summary["federated/purity/kmeans"]["mean"] or 0.0)


def clinics(out: Path, *, seed: int, report_progress: Progress) -> Clinics:
    """Complete the clinics' images, measure on images that no clinic has, and group the patients.

    Writes each clinic's completed images, ``clinics.json`` (a record with the rounds and some
    pictures), ``ledger.jsonl``, what the clinics sent (``sent``) and the folder ``groups``.
    """
    digits = load("digits")
    order = np.random.default_rng(seed).permutation(digits.views.n_individuals)
    test, train = np.sort(order[:_TEST]), np.sort(order[_TEST:])
    patients, strangers = digits.views.take(train), digits.views.take(test)
    by_clinic = by_row_paired(
        patients,
        [f"clinic_{k + 1:02d}" for k in range(_SITES)],
        paired=750,
        only={"image": 375, "edge": 375},
        key=seed,
    )
    scores = PairScores(strangers)
    recorder = Recorder("clinics", seeds=[seed], settings={"sites": _SITES, "rounds": _ROUNDS})
    curve: list[dict[str, Any]] = []

    def after(number: int, model: FederatedCompletion) -> None:
        if number:
            curve.append({"round": number, **scores.errors(model)})

    model = FederatedCompletion(
        # Eight rounds of few pairs are too short for the default network, and 8 × 8 pixels small:
        # this one reaches more by then, in less time. Images are moved by a pixel while it learns,
        # or it knows clinics' patients from others.
        network={"patch": 2, "width": 64, "blocks": 1, "shift": 1},
        local=LocalSettings(batch=6, learning_rate=3e-3, moments="reset"),
        strategy={"name": "fedavg", "momentum": 0.0},
        settings=RoundSettings(rounds=_ROUNDS, secure=True),
        seed=seed,
    )
    folder = out / "clinics"
    folder.mkdir()
    model.sent = SentLog(folder / "sent")
    model.fit_sites(
        by_clinic, progress=lambda what, share: report_progress(what, 0.7 * share), on_round=after
    )
    mean_errors = _mean_image_errors(by_clinic, strangers)
    for method, errors in {"federated": scores.errors(model), "mean": mean_errors}.items():
        for direction, error in errors.items():
            recorder.add(method, "psnr", direction, [psnr(error)])
            recorder.add(method, "mse255", direction, [error])
    recorder.note("curves", {"federated": curve})
    recorder.note("images", {"federated": {f"round {_ROUNDS}": scores.pictures(model)}})
    sources = _write_images(model, by_clinic, folder)
    model.ledger_.save(folder / "ledger.jsonl")
    groups = run_cluster(
        ClusterJob(
            sources, id=patients["image"].id_name, out=str(folder / "groups"), k=10, seed=seed
        ),
        lambda what, share: report_progress(f"groups: {what}", 0.7 + 0.3 * share),
    )
    labels = np.asarray(digits.labels)[train]
    ids = np.concatenate([views.ids for views in by_clinic.values()])
    purity = purity_of(labels[np.searchsorted(patients.ids, ids)], groups.clusterer.labels_)
    recorder.add("federated", "purity", "kmeans", [purity])
    record = recorder.finish()
    record.write(folder / "clinics.json")
    return Clinics(record, groups, model.ledger_, model.sent, model.federation_.sites, strangers)


def _write_images(
    model: FederatedCompletion, by_clinic: Mapping[str, MultiView], folder: Path
) -> dict[str, str]:
    """Write each clinic's completed images to a folder of its own; return the files."""
    paths = {}
    for site, completed in model.complete_sites(by_clinic).items():
        (folder / site).mkdir()
        for name, view in completed.views.items():
            path = folder / site / f"{name}.parquet"
            write_table(to_table(view), path)
            paths[f"{site}/{name}"] = str(path)
    return paths


def _mean_image_errors(by_clinic: Mapping[str, MultiView], test: MultiView) -> dict[str, float]:
    """Return the squared errors of the clinics' mean images, on the scale of 0 to 255."""
    errors = {}
    for direction, name in (("x2y", "edge"), ("y2x", "image")):
        rows = np.concatenate([views[name].cells for views in by_clinic.values()])
        error = np.mean((test[name].cells - rows.mean(axis=0)) ** 2)
        errors[direction] = float(error * (255 / rows.max()) ** 2)
    return errors | {"all": (errors["x2y"] + errors["y2x"]) / 2}
