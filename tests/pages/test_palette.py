"""The colours as people with and without colour vision deficiencies see them, and against both backgrounds."""

import itertools
import re
from pathlib import Path

import pytest

from pages._ui.palette import CATEGORIES, Palette, palette

# Machado, Oliveira and Fernandes 2009, severity 1.0, applied to linear RGB.
VISION = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
CSS = (Path(__file__).parents[2] / "pages" / "static" / "lab.css").read_text()
MODES = ("light", "dark")


def linear(color):
    channels = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


def seen(color, vision):
    rgb = linear(color)
    return [min(1.0, max(0.0, sum(m * c for m, c in zip(row, rgb)))) for row in VISION[vision]]


def oklab(rgb):
    r, g, b = rgb
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    medium = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.793617785 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.428592205 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.808675766 * short,
    )


def luminance(color):
    r, g, b = linear(color)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def of_the_style_sheet(name: str, mode: str) -> str:
    return re.search(rf"--{name}: light-dark\((#\w+), (#\w+)\)", CSS)[1 + MODES.index(mode)]


def told_apart_by(colors: Palette, category: str) -> str:
    """The surface of a category, or for a stall the colour of its hatching."""
    swatch = colors.categories[category]
    return swatch.ink if category == "stall" else swatch.color


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("vision", VISION)
def test_any_two_categories_can_be_told_apart(mode, vision):
    colors = palette(mode)
    for a, b in itertools.combinations(CATEGORIES, 2):
        one, other = (oklab(seen(told_apart_by(colors, c), vision)) for c in (a, b))
        assert sum((x - y) ** 2 for x, y in zip(one, other)) ** 0.5 > 0.1, (a, b)


@pytest.mark.parametrize("mode", MODES)
def test_contrast_with_the_background(mode):
    colors = palette(mode)
    for category in CATEGORIES:
        assert contrast(told_apart_by(colors, category), colors.paper) >= 3, category
    for text in ("ink", "muted", "accent"):
        for ground in ("paper", "panel"):
            assert contrast(of_the_style_sheet(text, mode), of_the_style_sheet(ground, mode)) >= 4.5


def test_the_style_sheet_has_the_same_colours():
    """The legend is drawn by the style sheet, the figure from the palette: they must not drift apart."""
    for mode in MODES:
        colors = palette(mode)
        for category in CATEGORIES:
            assert of_the_style_sheet(category, mode) == colors.categories[category].color
        assert of_the_style_sheet("stall-ink", mode) == colors.categories["stall"].ink
        for name in ("ink", "muted", "paper"):
            assert of_the_style_sheet(name, mode) == getattr(colors, name)
