"""Images and a second modality of them: one place and ten sites, beside a plain U-Net in PyTorch.

Sets: digits of 16 × 16 (USPS) and 28 × 28 (MNIST, 6,000 pairs), and made-up things in grey and in
colour (`bench.pictures`). Figures are dB on test pictures, from the first modality to the second
and back. The U-Net is trained for 60 epochs, once for each direction, with a cosine of its steps.
"""

from __future__ import annotations

import math
import time

import numpy as np
from bench.holds import Comparison
from bench.pictures import draw_things, second_modality

from cofill.federate import FederatedCompletion
from cofill.paths import data_folder
from cofill.views import MultiView, by_row, load

MARGIN = 0.5  # dB
SETS = {
    "usps": ("usps", "edge"),
    "mnist": ("mnist", "edge"),
    "things": ("grey", "edge"),
    "things, blurred": ("grey", "blur"),
    "things in colour": ("colour", "edge"),
}


def pictures_of(name, part, count):
    """Return so many pictures of a set's part, ``train`` or ``test``."""
    if name == "mnist":
        view = load(name, part=part).views["image"]
        return view.cells.reshape(len(view), 28, 28)[:count].astype(np.uint8)
    if name == "usps":
        stored = np.load(data_folder() / "usps.npz")
        return stored["X" if part == "train" else "X_test"][:count]
    side, channels = (32, 3) if name == "colour" else (28, 1)
    return draw_things(count, side, channels, seed=0 if part == "train" else 1)


def pairs_of(name, part, count):
    first, kind = SETS[name]
    pictures = pictures_of(first, part, count)
    return pictures, second_modality(pictures, kind, seed=0 if part == "train" else 1)


def decibels(predicted, true):
    error = np.mean((np.asarray(predicted, float) - true.reshape(len(true), -1)) ** 2)
    return 10 * math.log10(255**2 / error)


def fit_cofill(train, test, sites, seed, **settings):
    """Return dB there and back, and the seconds of the fit."""
    views = MultiView.from_arrays(dict(zip(("first", "second"), train, strict=True)))
    held = {"all": views} if sites == 1 else by_row(views, sites, key=seed)
    start = time.perf_counter()
    model = FederatedCompletion(seed=seed, **settings).fit_sites(held)
    seconds = time.perf_counter() - start
    tests = MultiView.from_arrays(dict(zip(("first", "second"), test, strict=True)))
    scores = []
    for hidden, true in (("second", test[1]), ("first", test[0])):
        completed = model.complete(tests.hide({hidden: np.ones(len(true), bool)}))
        scores.append(decibels(completed.views[hidden].cells, true))
    return (*scores, seconds)


def fit_unet(train, test, seed, epochs=60, width=32):
    """Return dB there and back of a U-Net for each direction, and the seconds."""
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
            self.first, self.second, self.middle = (
                double(channels, c), double(c, 2 * c), double(2 * c, 4 * c),
            )  # fmt: skip
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
    start, scores, batch = time.perf_counter(), [], 64
    for there, back in ((0, 1), (1, 0)):
        torch.manual_seed(seed)
        inputs, targets = train[there], train[back]
        net = UNet(inputs.shape[1], width).to(device)
        optimizer = torch.optim.Adam(net.parameters(), 1e-3)
        steps = math.ceil(len(inputs) / batch) * epochs
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(epochs):
            for rows in torch.randperm(len(inputs), device=device).split(batch):
                optimizer.zero_grad(set_to_none=True)
                functional.mse_loss(net(inputs[rows]), targets[rows]).backward()
                optimizer.step()
                schedule.step()
        net.eval()
        with torch.no_grad():
            parts = [net(rows).clamp(0, 1) for rows in test[there].split(500)]
            error = functional.mse_loss(torch.cat(parts), test[back]).item()
        scores.append(10 * math.log10(1 / error))
    return (*scores, time.perf_counter() - start)


def compare(recorder, seeds, *, quick=False):
    """Yield one place against the U-Net and ten sites against one place, per set and direction."""
    counts = (300, 100) if quick else (6000, 2000)
    for name in list(SETS)[:1] if quick else SETS:
        train, test = pairs_of(name, "train", counts[0]), pairs_of(name, "test", counts[1])
        rounds = {"rounds": 2} if quick else {}
        results = {
            "one place": [fit_cofill(train, test, 1, seed, **rounds) for seed in seeds],
            "ten sites": [fit_cofill(train, test, 10, seed, **rounds) for seed in seeds],
            "unet": [fit_unet(train, test, seed, 2 if quick else 60) for seed in seeds],
        }
        for method, values in results.items():
            for figure, column in zip(
                ("there", "back", "seconds"), np.transpose(values), strict=True
            ):
                recorder.add(method, figure, name, column.tolist())
        means = {method: np.mean(values, axis=0) for method, values in results.items()}
        for k, way in enumerate(("there", "back")):
            one, ten, unet = (float(means[m][k]) for m in ("one place", "ten sites", "unet"))
            yield Comparison(f"{name} {way}, one place beside a U-Net", one, unet, MARGIN)
            yield Comparison(f"{name} {way}, ten sites beside one place", ten, one, MARGIN)
