"""Pictures of made-up things, grey or in colour, of any size: unlike any data set of the project.

One to three filled shapes (ellipses, rectangles, polygons) with shading, stripes or grain, on a
dark or shaded ground. A second modality is made of a picture as a sensor of another kind might:
its edges (3 × 3 dilation less the picture), a blurred or an inverted and noisy copy.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import grey_dilation, uniform_filter


def draw_things(count, side=28, channels=1, *, seed=0):
    """Return uint8 pictures of shape (count, side, side) or (count, side, side, channels)."""
    rng = np.random.default_rng(seed)
    axis = np.linspace(-1, 1, side, dtype=np.float32)
    x, y = axis[None, None, :], axis[None, :, None]

    def draw(low, high, *more):
        return rng.uniform(low, high, (count, 1, 1, *more)).astype(np.float32)

    ground = draw(0, 0.5) * (rng.random((count, 1, 1)) < 0.4) * (1 + 0.5 * draw(-1, 1) * x)
    pictures = np.repeat(ground[..., None] + 0 * (x + y)[..., None], channels, axis=-1)
    for number in range(3):
        drawn = (number == 0) | (rng.random((count, 1, 1)) < 0.45)
        angle, scale = draw(0, 2 * np.pi), draw(0.25, 0.8) * (0.8**number)
        dx, dy = x - 0.5 * draw(-1, 1), y - 0.5 * draw(-1, 1)
        u = (np.cos(angle) * dx + np.sin(angle) * dy) / scale
        v = (np.cos(angle) * dy - np.sin(angle) * dx) / (scale * draw(0.5, 1.2))
        kind = rng.integers(3, size=(count, 1, 1))
        corners = np.max(
            [np.cos(a) * u + np.sin(a) * v for a in 2 * np.pi * np.arange(5) / 5], axis=0
        )
        reach = np.where(kind == 0, np.hypot(u, v), np.maximum(abs(u), abs(v)))
        reach = np.where(kind == 2, 1.3 * corners, reach)
        cover = np.clip((1 - reach) * scale * side / 2 + 0.5, 0, 1) * drawn
        shade = draw(0.3, 1) + 0.3 * draw(-1, 1) * u + 0.3 * draw(-1, 1) * v
        stripes = np.sin(draw(2, 14) * (u * np.cos(angle) + v * np.sin(angle)) + angle)
        grain = rng.normal(size=shade.shape).astype(np.float32) * draw(0, 0.12)
        texture = shade * (1 + 0.35 * draw(-1, 1) * stripes) + grain
        colour = draw(0.2, 1, channels) if channels > 1 else np.ones(1, np.float32)
        layer = texture[..., None] * colour
        pictures = pictures * (1 - cover[..., None]) + layer * cover[..., None]
    quantised = np.rint(255 * np.clip(pictures, 0, 1)).astype(np.uint8)
    return quantised[..., 0] if channels == 1 else quantised


def second_modality(pictures, kind, *, seed=0):
    """Return pictures of another kind of the same things: ``edge``, ``blur`` or ``negative``."""
    window = (1, 3, 3) + (1,) * (pictures.ndim - 3)
    if kind == "edge":
        return grey_dilation(pictures, size=window, mode="nearest") - pictures
    if kind == "blur":
        return uniform_filter(pictures, size=tuple(2 * w - 1 for w in window), mode="nearest")
    if kind != "negative":
        raise ValueError(f"kind must be edge, blur or negative, got {kind!r}")
    noise = np.random.default_rng(seed).normal(scale=12, size=pictures.shape)
    return np.clip(np.rint(255.0 - pictures + noise), 0, 255).astype(np.uint8)
