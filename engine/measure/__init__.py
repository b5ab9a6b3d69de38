"""Measuring: clocks, traces, metrics, the machine. Below serving; no torch at import."""
