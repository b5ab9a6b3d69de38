"""The colours of an attention map by day and by night: from nothing to all. Pure data, no streamlit.

The more attention, the farther a colour is from the page: darker by day, lighter by night. Lightness changes steadily in
one direction, so that the order also reads without colour; a test holds that, for every kind of colour vision.
"""

RAMP = {
    "light": ("#f0ece1", "#cfe0d8", "#8fc3c4", "#4b9bb0", "#2a6f9a", "#2c4486", "#231c5c", "#12082e"),
    "dark": ("#1b232e", "#1f3a52", "#1f5673", "#23788a", "#3d9c92", "#78bf8c", "#c0dd8f", "#fdf6bd"),
}
