"""The colours and patterns of everything a timeline can show, by day and by night.

The style sheet has the same colours (a test holds that) and adds a pattern to
each, so that a picture also reads in greyscale and in print. A test computes the
distances between the colours as people with protanopia, deuteranopia and
tritanopia see them, and the contrast with the background. Pure data, no streamlit.
"""

from __future__ import annotations

from dataclasses import dataclass

CATEGORIES = ("prefill", "chunk", "decode", "mixed", "transfer", "stall")
SCHEDULES = ("unified", "chunked", "disaggregated")


@dataclass(frozen=True)
class Swatch:
    """The colours of one category: its surface, and the lines of its pattern."""

    color: str
    ink: str


@dataclass(frozen=True)
class Palette:
    """Everything a figure needs to know about colour in one mode."""

    mode: str
    paper: str
    ink: str
    muted: str
    grid: str
    categories: dict[str, Swatch]


LIGHT = Palette(
    mode="light",
    paper="#fbfaf7",
    ink="#1e2430",
    muted="#5b6270",
    grid="#e2ddd2",
    categories={
        "prefill": Swatch("#3d39c4", "#8f90ea"),
        "chunk": Swatch("#4492dc", "#cfe3f8"),
        "decode": Swatch("#1f8071", "#1f8071"),
        "mixed": Swatch("#c77b05", "#f9e2b4"),
        "transfer": Swatch("#822e82", "#dba9dc"),
        "stall": Swatch("#fdf0ee", "#c03929"),
    },
)

DARK = Palette(
    mode="dark",
    paper="#11161d",
    ink="#e9e6e0",
    muted="#a4adb9",
    grid="#2a333f",
    categories={
        "prefill": Swatch("#6578fe", "#2d34a8"),
        "chunk": Swatch("#b3d0f9", "#4d7fbd"),
        "decode": Swatch("#35cea9", "#35cea9"),
        "mixed": Swatch("#f0b23e", "#8a5a06"),
        "transfer": Swatch("#be8bda", "#5d2c78"),
        "stall": Swatch("#2b1a1b", "#f16f55"),
    },
)


def palette(mode: str | None) -> Palette:
    """The palette of a theme type as the browser reports it; light when it does not say."""
    return DARK if mode == "dark" else LIGHT
