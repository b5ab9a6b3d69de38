"""What YaRN's paper measured, in a table of the form of ours. Pure; no number of a paper is written here."""

from __future__ import annotations

from engine import profiles
from pages._ui import fmt
from pages._ui.words import Words

TABLE = "yarn-table-5"
# The paper's names of the methods, and ours.
_METHODS = {"none": "none", "PI": "linear", "NTK-aware": "ntk", "NTK-by-parts": "by-parts", "YaRN": "yarn"}
# (factor, steps of fine-tuning, tokens): within the trained length, at all of the factor without a fine-tune, and with one.
_SHOWN = ((4, 0, 2048), (4, 0, 4096), (4, 0, 8192), (16, 0, 32_768), (16, 400, 32_768))

Rows = tuple[list[str], list[list[str]]]


def source(words: Words) -> str:
    """Where in which paper, and on what model and data."""
    table = profiles.table(TABLE)
    conditions = "; ".join(table.conditions[name] for name in ("model", "data", "tuned"))
    return words("papers.source", source=table.source, conditions=conditions)


def rows(words: Words) -> Rows:
    """A row for each method, a column for each factor, fine-tune and length."""
    head = [words("papers.col_method")]
    for factor, steps, tokens in _SHOWN:
        key = "papers.col_tuned" if steps else "papers.col_untuned"
        head.append(words(key, factor=fmt.count(factor), steps=fmt.count(steps), tokens=fmt.count(tokens)))
    return head, [[words(f"method.{ours}"), *(_printed(name, *shown) for shown in _SHOWN)] for name, ours in _METHODS.items()]


def _printed(method: str, factor: int, steps: int, tokens: int) -> str:
    """As the paper prints it: a perplexity, or only what it lies above; a dash where it has none."""
    found = profiles.table(TABLE).find(method=method, steps=steps, tokens=tokens)
    row = next((row for row in found if row["scaling"] == "none" or row.get("scale") == factor), None)
    if row is None or (row["scaling"] == "none" and factor != _SHOWN[0][0]):
        return fmt.DASH
    return f"{row['perplexity']:.2f}" if "perplexity" in row else f"> {fmt.count(row['above'])}"
