"""Pieces of HTML the pages are built from. Pure: data in, HTML text out; everything that varies is escaped.

Their looks are in ``pages/static/lab.css``. Streamlit sanitises what it is
given: no scripts, no SVG, no event handlers are used here.
"""

from __future__ import annotations

import re
from html import escape

from pages._ui.board import Line, verdict
from pages._ui.palette import CATEGORIES
from pages._ui.words import Words

NUMBER_AND_UNIT = re.compile(r"(?<=\d) (?=(?:µs|ms|s|min|%|kB|MB|GB|TB|MiB|GiB|tok/s|[MGTP]?FLOP)(?![A-Za-z]))")


def prose(text: str) -> str:
    """A sentence in which no line ends between a number and its unit."""
    return escape(NUMBER_AND_UNIT.sub("\u00a0", text))


def heading(words: Words) -> str:
    """What a page that is no lesson begins with: what it is, its title, and what for."""
    return (
        f"<p class='lab-eyebrow'>{escape(words('page.eyebrow'))}</p><h1 class='lab-title'>{escape(words('page.title'))}</h1>"
        f"<p class='lab-lead'>{escape(words('page.lead'))}</p>"
    )


def cited(text: str) -> str:
    """Where a number of a profile or a paper is from, in the words of the profile: English in both languages, and marked so."""
    return f"<cite lang='en'>{prose(text)}</cite>"


def sentence_citing(words: Words, key: str, text: str) -> str:
    """The sentence of a key about its {sources}, which are cited."""
    return cited(text).join(escape(piece) for piece in words(key, sources="\0").split("\0"))


def badge(provenance: str, words: Words, detail: str = "") -> str:
    """Where a number comes from: an icon and a word, with what the word means on hover."""
    text = escape(words(f"provenance.{provenance}"))
    what = escape(words(f"provenance.{provenance}_what"), quote=True)
    more = f"<span class='lab-badge-detail'>{escape(detail)}</span>" if detail else ""
    return (
        f"<span class='lab-badge lab-badge-{provenance}' title='{what}'><i aria-hidden='true'></i>{text}{more}</span>"
    )


def legend(words: Words, categories: tuple[str, ...] = CATEGORIES) -> str:
    """The categories of a timeline in a line: swatch and name, the meaning on hover."""
    items = "".join(
        f"<li title='{escape(words(f'category.{c}.what'), quote=True)}'>{_swatch(c)}{escape(words(f'category.{c}.name'))}</li>"
        for c in categories
    )
    return f"<ul class='lab-legend'>{items}</ul>"


def glossary(words: Words, categories: tuple[str, ...] = CATEGORIES) -> str:
    """The categories of a timeline with their meaning."""
    items = "".join(
        f"<div>{_swatch(c)}<dt>{escape(words(f'category.{c}.name'))}</dt><dd>{escape(words(f'category.{c}.what'))}</dd></div>"
        for c in categories
    )
    return f"<dl class='lab-glossary'>{items}</dl>"


def _swatch(category: str) -> str:
    return f"<span class='lab-swatch lab-{category}' aria-hidden='true'></span>"


def race(line: Line, words: Words) -> str:
    """One metric as three bars with their numbers, the best one marked."""
    key = line.metric.key
    direction = words("board.lower" if line.metric.better < 0 else "board.higher")
    rows = "".join(
        f"<div class='lab-race-row{' lab-best' if cell.best else ''}'>"
        f"<span class='lab-race-name'>{escape(words(f'schedule.{cell.schedule}.short'))}</span>"
        f"<span class='lab-race-bar'><span style='width:{max(cell.share * 100, 0.6):.1f}%'></span></span>"
        f"<span class='lab-race-value'>{escape(cell.text)}</span>{_pill(words) if cell.best else ''}</div>"
        for cell in line.cells
    )
    return (
        f"<section class='lab-race'><h3>{escape(words(f'metric.{key}.name'))} "
        f"<span class='lab-quiet'>{escape(words(f'metric.{key}.term'))} · {escape(direction)}</span></h3>{rows}</section>"
    )


def races(lines: list[Line], words: Words) -> str:
    """Several metrics beside each other."""
    return f"<div class='lab-races'>{''.join(race(line, words) for line in lines)}</div>"


def metrics_table(lines: list[Line], words: Words) -> str:
    """All metrics with their definitions, one column per schedule."""
    schedules = [cell.schedule for cell in lines[0].cells] if lines else []
    head = "".join(f"<th scope='col'>{escape(words(f'schedule.{s}.name'))}</th>" for s in schedules)
    body = ""
    for line in lines:
        key = line.metric.key
        cells = ""
        for cell in line.cells:
            spread = ""
            if cell.low and cell.high and cell.low != cell.high:
                spread = f"<small>{escape(words('board.spread', low=cell.low, high=cell.high))}</small>"
            of = escape(words(f"schedule.{cell.schedule}.short"), quote=True)
            cells += f"<td data-of='{of}'{' class=lab-best' if cell.best else ''}>{escape(cell.text)}{_pill(words) if cell.best else ''}{spread}</td>"
        level = f"<span class='lab-pill lab-level'>{escape(words('board.tie'))}</span>" if line.level else ""
        body += (
            f"<tr><th scope='row'>{escape(words(f'metric.{key}.name'))} "
            f"<span class='lab-term'>{escape(words(f'metric.{key}.term'))}</span>{level}"
            f"<small>{escape(words(f'metric.{key}.what'))}</small>{_verdict(line, words)}</th>{cells}</tr>"
        )
    return _scrolled(
        f"<table class='lab-table lab-metrics'><thead><tr><th scope='col'>{escape(words('board.metric'))}</th>{head}</tr>"
        f"</thead><tbody>{body}</tbody></table>",
        words("board.metric"),
    )


def _verdict(line: Line, words: Words) -> str:
    found = verdict(line)
    if found is None:
        return ""
    key, facts = found
    if "loser" in facts:
        names = [words(f"schedule.{s}.short") for s in facts["winners"]]
        facts = {**facts, "winners": ", ".join(names), "loser": words(f"schedule.{facts['loser']}.short")}
    return f"<small class='lab-verdict'>{escape(words(key, **facts))}</small>"


def plain_table(head: list[str], rows: list[list[str]], label: str) -> str:
    """A table of texts; the first column names the row."""
    top = "".join(f"<th scope='col'>{escape(h)}</th>" for h in head)
    body = "".join(
        "<tr>"
        + "".join(f"<th scope='row'>{escape(c)}</th>" if i == 0 else f"<td>{escape(c)}</td>" for i, c in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return _scrolled(f"<table class='lab-table'><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>", label)


def figures(entries: list[tuple[str, str]]) -> str:
    """A few numbers in a row, each under what it is."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in entries)
    return f"<dl class='lab-figures'>{items}</dl>"


def cards(entries: list[tuple[str, str, list[str]]]) -> str:
    """Cards side by side: (title, line under it, paragraphs)."""
    made = ""
    for title, under, paragraphs in entries:
        body = "".join(f"<p>{prose(p)}</p>" for p in paragraphs)
        line = f"<p class='lab-quiet'>{escape(under)}</p>" if under else ""
        made += f"<section class='lab-card'><h3>{escape(title)}</h3>{line}{body}</section>"
    return f"<div class='lab-cards'>{made}</div>"


def links(entries: list[tuple[str, str]], label: str) -> str:
    """Files to take away: (text, relative address), as a row of buttons."""
    items = "".join(f"<a class='lab-link' href='{escape(href, quote=True)}' download>{escape(text)}</a>" for text, href in entries)
    return f"<nav class='lab-links' aria-label='{escape(label, quote=True)}'>{items}</nav>"


def notice(title: str, *paragraphs: str, kind: str = "error") -> str:
    """A message box: what happened, and below it why and what to do. ``kind``: "error" or "info"."""
    role = "alert" if kind == "error" else "status"
    body = "".join(f"<p>{escape(text)}</p>" for text in paragraphs)
    return f"<div class='lab-notice lab-notice-{kind}' role='{role}'><b>{escape(title)}</b>{body}</div>"


def _pill(words: Words) -> str:
    return f"<span class='lab-pill'>{escape(words('board.best'))}</span>"


def _scrolled(table: str, label: str) -> str:
    # On a phone a table scrolls inside its own frame, never the page; the frame can be reached by keyboard.
    return f"<div class='lab-scroll' tabindex='0' role='region' aria-label='{escape(label, quote=True)}'>{table}</div>"
