"""The colours of the page's design tokens, and their contrast."""

from __future__ import annotations

from collections.abc import Sequence

# A function of a token's name: its colour as red, green and blue, from 0 to 255.
READ_COLOR = """(name) => {
  const element = document.body.appendChild(document.createElement("p"));
  element.style.color = `var(${name})`;
  const context = new OffscreenCanvas(1, 1).getContext("2d");
  context.fillStyle = getComputedStyle(element).color;
  element.remove();
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}"""


def contrast(first: Sequence[int], second: Sequence[int]) -> float:
    """Return the contrast ratio of two colours, from 1 to 21, by WCAG 2."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: Sequence[int]) -> float:
    red, green, blue = (_linear(level / 255) for level in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
