"""Where the marks of the plots stand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

WIDTH = 160  # of a plot, in pixels
MARGIN = 5  # a mark at the end of the scale is drawn whole
BARS = 32
HEIGHT = 24


def place(value: float, start: float, end: float) -> float:
    """Return the horizontal place of a value on the scale from `start` to `end`."""
    share = (value - start) / (end - start) if end > start else 0.5
    return round(MARGIN + (WIDTH - 2 * MARGIN) * min(max(share, 0), 1), 1)


def histogram(values: Sequence[float], end: float) -> str:
    """Return the bars of a histogram on the scale from 0 to `end`, as the path of a drawing."""
    counts, _ = np.histogram(values, BARS, (0, end or 1))
    step = WIDTH // BARS
    heights = (HEIGHT * float(count) / counts.max() for count in counts)
    return "".join(
        f"M{step * number} {HEIGHT}v-{max(1, height):.0f}h{step - 1}V{HEIGHT}z"
        for number, height in enumerate(heights)
        if height
    )
