"""Streams between parties in plotly's JSON form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cofill.pages._figures import Figure, Number, plain_words, series_colour
from cofill.pages._quantity import byte_size


def flow(links: Sequence[tuple[str, str, str, Number]]) -> Figure:
    """Return what went from whom to whom: senders on the left, receivers on the right.

    Parameters
    ----------
    links
        ``(sender, receiver, words, bytes)`` each; the words are shown on hover.

    Examples
    --------
    >>> figure = flow([("lab", "clinic", "codes", 1200), ("clinic", "lab", "codes", 800)])
    >>> figure["data"][0]["node"]["label"], figure["data"][0]["link"]["target"]
    (['lab', 'clinic', 'lab', 'clinic'], [3, 2])
    """
    parties = list(dict.fromkeys([*(link[0] for link in links), *(link[1] for link in links)]))
    senders = [name for name in parties if any(link[0] == name for link in links)]
    receivers = [name for name in parties if any(link[1] == name for link in links)]
    trace = {
        "type": "sankey",
        "arrangement": "fixed",
        "node": {
            "label": [plain_words(name) for name in (*senders, *receivers)],
            "color": [series_colour(parties.index(name)) for name in (*senders, *receivers)],
            "x": [0.001] * len(senders) + [0.999] * len(receivers),
            "y": [*_heights(links, senders, 0), *_heights(links, receivers, 1)],
            "pad": 22,
            "thickness": 14,
            "line": {"width": 0},
            "hovertemplate": "%{label}<extra></extra>",
        },
        "link": {
            "source": [senders.index(sender) for sender, *_ in links],
            "target": [len(senders) + receivers.index(receiver) for _, receiver, *_ in links],
            "value": [max(size, 1) for *_, size in links],
            "color": "--flow",
            "label": [plain_words(f"{words}: {byte_size(size)}") for _, _, words, size in links],
            "hovertemplate": "%{source.label} → %{target.label}<br>%{label}<extra></extra>",
        },
        "textfont": {"color": "--ink", "size": 13},
    }
    height = 120 + 44 * max(len(senders), len(receivers))
    margin = {"l": 8, "r": 8, "t": 20, "b": 28}
    return {"data": [trace], "layout": {"height": height, "margin": margin}}


def _heights(
    links: Sequence[tuple[str, str, str, Number]], parties: Sequence[str], side: int
) -> list[float]:
    """Return where the middles of parties stand, from 0 on top to 1, by what flows there."""
    amounts = [sum(max(link[3], 1) for link in links if link[side] == name) for name in parties]
    shares = np.array(amounts, dtype=np.float64) / sum(amounts)
    return np.clip(np.cumsum(shares) - shares / 2, 0.001, 0.999).tolist()
