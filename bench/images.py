"""Images and a second modality of them: one place and ten sites, beside a plain U-Net in PyTorch.

    python -m bench images [--quick]
    python -m bench.images --inside --set things_blurred --change 'network={"shift": 0}'

Sets: digits of 16 × 16 (USPS) and of 28 × 28 (MNIST), 6,000 pairs with their edges, and made-up
things in grey and in colour (`bench.pictures`). Figures are dB on test pictures, from the first
modality to the second and back. cofill trains one network for both ways with its defaults, repeats
as one batch; the U-Net is one network for each way and trains as long as cofill did in one place
for one repeat, the compiling of programs included, with a cosine of its steps over that time.
Secure sums are off: they change the model by rounding only, and are no work of the device.

Settings are chosen with ``--inside``, which trains on five of six training pictures, judges by the
others and reads no test picture.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np
from bench.pictures import draw_things, second_modality

from cofill.federate import FederatedCompletion, fit_sites_many
from cofill.metrics import Recorder
from cofill.paths import data_folder, keep_compiled_programs
from cofill.views import MultiView, by_row, load

MARGIN = 0.5  # dB that may be missing
PAIRS, TESTS, SITES = 6000, 2000, 10
SETS = {
    "usps": ("usps", "edge"),
    "mnist": ("mnist", "edge"),
    "things": ("grey", "edge"),
    "things_in_colour": ("colour", "edge"),
    "things_blurred": ("grey", "blur"),
}
RECORDED = tuple(SETS)[:4]  # the others are for choosing settings
WAYS = ("there", "back")


def pictures_of(name, part, count):
    """Return so many pictures of a set's part, ``train`` or ``test``."""
    if name == "mnist":
        view = load(name, part=part).views["image"]
        return view.cells[:count].reshape(-1, 28, 28).astype(np.uint8)
    if name == "usps":
        stored = np.load(data_folder() / "usps.npz")
        return stored["X" if part == "train" else "X_test"][:count]
    side, channels = (32, 3) if name == "colour" else (28, 1)
    return draw_things(count, side, channels, seed=0 if part == "train" else 1)


def pairs_of(name, part, count):
    first, kind = SETS[name]
    pictures = pictures_of(first, part, count)
    return pictures, second_modality(pictures, kind, seed=0 if part == "train" else 1)


def split_pairs(name, pairs, tests, *, inside):
    """Return pairs to train on and to judge by; ``inside`` takes both from the training part."""
    train = pairs_of(name, "train", pairs)
    if not inside:
        return train, pairs_of(name, "test", tests)
    cut = 5 * len(train[0]) // 6
    return tuple(p[:cut] for p in train), tuple(p[cut:] for p in train)


def decibels(predicted, true):
    error = np.mean((np.asarray(predicted, float) - true.reshape(len(true), -1)) ** 2)
    return 10 * math.log10(255**2 / error)


def fit_cofill(train, test, sites, seeds, **settings):
    """Return dB there and back and the seconds of a repeat, per seed; and the fitted models."""
    views, tests = (
        MultiView.from_arrays(dict(zip(("first", "second"), pair, strict=True)))
        for pair in (train, test)
    )
    held = [{"all": views} if sites == 1 else by_row(views, sites, key=seed) for seed in seeds]
    start = time.perf_counter()
    models = [FederatedCompletion(seed=seed, secure=False, **settings) for seed in seeds]
    fit_sites_many(models, held)
    seconds = (time.perf_counter() - start) / len(seeds)
    rows = []
    for model in models:
        scores = []
        for hidden, true in (("second", test[1]), ("first", test[0])):
            completed = model.complete(tests.hide({hidden: np.ones(len(true), bool)}))
            scores.append(decibels(completed.views[hidden].cells, true))
        rows.append((*scores, seconds))
    return rows, models


def fit_unet(train, test, seed, seconds, width=32, batch=64):
    """Return dB there and back of a U-Net for each way, seconds of both, and passes of one."""
    import torch
    from torch import nn
    from torch.nn import functional

    device = "cuda" if torch.cuda.is_available() else "cpu"

    def tensor(pictures):
        pictures = pictures if pictures.ndim == 4 else pictures[..., None]
        return torch.tensor(pictures).permute(0, 3, 1, 2).float().div(255).to(device)

    def double(inside, outside):
        layers = []
        for channels in (inside, outside):
            layers += [nn.Conv2d(channels, outside, 3, padding=1), nn.BatchNorm2d(outside)]
            layers += [nn.ReLU()]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self, channels, c):
            super().__init__()
            self.first, self.second = double(channels, c), double(c, 2 * c)
            self.middle = double(2 * c, 4 * c)
            self.rise, self.back = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), double(4 * c, 2 * c)
            self.rise_more, self.end = nn.ConvTranspose2d(2 * c, c, 2, 2), double(2 * c, c)
            self.head = nn.Conv2d(c, channels, 1)

        def forward(self, images):
            fine = self.first(images)
            half = self.second(functional.max_pool2d(fine, 2))
            quarter = self.middle(functional.max_pool2d(half, 2))
            half = self.back(torch.cat([half, self.rise(quarter)], 1))
            return self.head(self.end(torch.cat([fine, self.rise_more(half)], 1)))

    train, test = [tensor(p) for p in train], [tensor(p) for p in test]
    start, scores, passes = time.perf_counter(), [], 0
    for there, back in ((0, 1), (1, 0)):
        torch.manual_seed(seed)
        inputs, targets = train[there], train[back]
        net = UNet(inputs.shape[1], width).to(device)
        optimizer = torch.optim.Adam(net.parameters(), 1e-3)
        began, share, passes = time.perf_counter(), 0.0, 0
        while share < 1:
            for rows in torch.randperm(len(inputs), device=device).split(batch):
                share = min((time.perf_counter() - began) / (seconds / 2), 1.0)
                for group in optimizer.param_groups:
                    group["lr"] = 1e-3 * 0.5 * (1 + math.cos(math.pi * share))
                optimizer.zero_grad(set_to_none=True)
                functional.mse_loss(net(inputs[rows]), targets[rows]).backward()
                optimizer.step()
            if device == "cuda":
                torch.cuda.synchronize()  # what is still queued takes its time too
            passes += 1
        net.eval()
        with torch.no_grad():
            parts = [net(rows).clamp(0, 1) for rows in test[there].split(500)]
            error = functional.mse_loss(torch.cat(parts), test[back]).item()
        scores.append(10 * math.log10(1 / error))
    return (*scores, time.perf_counter() - start, passes)


def compare(name, seeds, *, quick, inside, changes):
    """Return rows per seed of one place, ten sites and the U-Net, and the curve of one place."""
    train, test = split_pairs(name, *((300, 100) if quick else (PAIRS, TESTS)), inside=inside)
    rounds = {"rounds": 2} if quick else {}
    one, models = fit_cofill(train, test, 1, seeds, **rounds, **changes)
    curve = [entry["held_out"] for entry in models[0].curve_]
    print(f"{name}, one place: {np.round(np.mean(one, axis=0), 2)}", flush=True)
    ten, _ = fit_cofill(train, test, SITES, seeds, **rounds, **changes)
    print(f"{name}, ten sites: {np.round(np.mean(ten, axis=0), 2)}", flush=True)
    unet = [fit_unet(train, test, seed, one[0][2]) for seed in seeds]
    print(f"{name}, U-Net: {np.round(np.mean(unet, axis=0), 2)}", flush=True)
    return {"one_place": one, "ten_sites": ten, "unet": unet}, curve


def read_values(pairs):
    """Return settings written as NAME=JSON."""
    return {name: json.loads(value) for name, _, value in (p.partition("=") for p in pairs)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", choices=tuple(SETS), action="append", dest="sets")
    parser.add_argument("--inside", action="store_true", help="judge by training pictures")
    parser.add_argument("--change", action="append", default=[], metavar="NAME=JSON")
    options = parser.parse_args()
    keep_compiled_programs()
    device = jax.devices()[0]
    seeds = list(range(1 if options.quick else options.seeds))
    changes = read_values(options.change)
    settings = {"pairs": PAIRS, "tests": TESTS, "sites": SITES, "unet": {"width": 32, "batch": 64}}
    settings |= {"inside": options.inside, "changes": changes, "torch": version("torch")}
    recorder = Recorder(
        "bench_images",
        seeds=seeds,
        settings={"what": "dB on test pictures, seconds of a repeat", **settings},
        accelerator=None if device.platform == "cpu" else device.device_kind,
    )
    sets = options.sets or (RECORDED[:1] if options.quick else RECORDED)
    behind = []
    for name in sets:
        results, curve = compare(
            name, seeds, quick=options.quick, inside=options.inside, changes=changes
        )
        recorder.note(f"held_out_{name}", curve)
        for method, values in results.items():
            figures = ("there", "back", "seconds", "passes")
            for figure, column in zip(figures, np.transpose(values), strict=False):
                recorder.add(method, figure, name, column.tolist())
        means = {method: np.mean(values, axis=0) for method, values in results.items()}
        for k, way in enumerate(WAYS):
            for better, worse in (("one_place", "unet"), ("ten_sites", "one_place")):
                gap = float(means[better][k] - means[worse][k])
                if gap < -MARGIN:
                    behind.append(f"{name} {way}: {better} {gap:+.2f} dB beside {worse}")
        if options.out:  # after every set: a run that is cut off keeps what it has
            recorder.finish().write(options.out)
    print(f"behind in {len(behind)} comparisons", *behind, sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
