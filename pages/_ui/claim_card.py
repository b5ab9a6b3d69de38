"""A claim of a source text as HTML: the whole card, and the short form that lessons show. Pure; all that varies is escaped.

Its words are those of pages/claims, filled with the claim's own numbers, so no sentence can say another number than the
formula beside it.
"""

from __future__ import annotations

import re
from html import escape

from engine.claims import Claim, Input, Line, Measurement, Reading
from pages._ui import fmt, outcome, parts
from pages._ui.words import Words

BYTES = re.compile(r"(?<=\d) (?=B\b)")
POWER, NO_BREAK = re.compile(r" × (10[⁰¹²³⁴⁵⁶⁷⁸⁹])"), "\u00a0×\u00a0\\1"
SUBSCRIPT = re.compile(r"\b([A-Za-z])_([a-z]+)\b")


def facts(claim: Claim, words: Words) -> dict[str, str]:
    """What a claim's sentences may name: NAME, NAME_said and NAME_x of a line, NAME_SYMBOL of its inputs."""
    found: dict[str, str] = {}
    for line in claim.lines:
        found[line.id] = shown(line.value, line.unit, words)
        found |= {f"{line.id}_{given.symbol}": shown(given.value, given.unit, words) for given in line.inputs}
        if line.said:
            found[f"{line.id}_said"] = said(line, words)
            found[f"{line.id}_x"] = shown(line.ratio, "x", words)
    return found


def card(claim: Claim, found: list[tuple[dict, Measurement]], words: Words) -> str:
    """Everything of a claim. found: results that have something to say to it, with what they say."""
    known = facts(claim, words)

    def say(key: str) -> str:
        return _prose(words(f"{claim.id}.{key}", **known))

    return (
        f"<article class='lab-claim' id='claim-{claim.id}' aria-labelledby='claim-{claim.id}-title'>"
        f"<header><span class='lab-claim-id'>{claim.id}</span><h2 id='claim-{claim.id}-title'>{say('title')}</h2>"
        f"{verdict(claim, words)}<p class='lab-quiet'>{escape(_place(claim, words))}</p></header>"
        f"<div class='lab-claim-body'><div><p class='lab-claim-sum'>{say('sum')}</p><p>{say('why')}</p>"
        f"<p><b>{escape(words('card.right'))}</b> {say('right')}</p>{_measured(claim, found, words)}</div>"
        f"<div>{parts.badge('computed', words)}<div class='lab-claim-lines'>"
        f"{''.join(_line(claim, line, words) for line in claim.lines)}</div></div></div>"
        f"<details><summary>{escape(words('card.inputs'))}</summary>{_inputs(claim, words)}</details></article>"
    )


def rows(claims: list[Claim], words: Words, *, link: bool = False) -> str:
    """Claims in short, one below the other: what is claimed, what comes out, the verdict. link: to the cards on the page."""
    made = ""
    for claim in claims:
        known = facts(claim, words)
        title = _prose(words(f"{claim.id}.title", **known))
        title = f"<a href='#claim-{claim.id}'>{title}</a>" if link else title
        made += (
            f"<li><span class='lab-claim-id'>{claim.id}</span><span class='lab-claim-title'>{title}</span>"
            f"<span class='lab-claim-sum'>{_prose(words(f'{claim.id}.sum', **known))}</span>{verdict(claim, words)}</li>"
        )
    return f"<ul class='lab-claims'>{made}</ul>"


def verdict(claim: Claim, words: Words) -> str:
    """An icon and a word, with what the word means on hover."""
    name, what = (words(f"verdict.{claim.verdict}.{part}") for part in ("name", "what"))
    return (
        f"<span class='lab-claim-verdict lab-verdict-{claim.verdict}' title='{escape(what, quote=True)}'>"
        f"<i aria-hidden='true'></i>{escape(name)}</span>"
    )


def shown(value: float, unit: str, words: Words) -> str:
    """A number with its unit, as sentences and tables write it. Bytes in GB and in GiB."""
    if unit == "B":
        return f"{_three(value / 1e9)} GB ({_three(value / 2**30)} GiB)" if value >= 1e8 else f"{fmt.count(value)} B"
    if unit in ("FLOP/s", "B/s"):
        return _rate(value, unit)
    if unit in ("tokens", "sequences", "chunks"):
        return words(f"quantity.{unit}_one") if value == 1 else words(f"quantity.{unit}", n=fmt.count(value))
    if unit in ("x", "turns"):
        return words(f"quantity.{unit}", n=_factor(value))
    plain = {
        "B/token": lambda: f"{fmt.count(value)} B",
        "FLOP": lambda: f"{fmt.power(value)} FLOP",
        "FLOP/B": lambda: f"{_factor(value)} FLOP/B",
        "s": lambda: fmt.seconds(value),
        "share": lambda: fmt.share(value),
        "perplexity": lambda: f"{value:,.2f}",
        "count": lambda: fmt.count(value),
        "times": lambda: _factor(value),
        "tokens/s": lambda: fmt.rate(value),
    }
    return plain[unit]() if unit in plain else f"{value:,.10g}"


def said(line: Line, words: Words) -> str:
    """What the text says, in its own roundness: ``1 GB``, ``2–3 requests``."""
    low, high = min(line.said), max(line.said)
    if low != high:
        return words(f"quantity.{line.unit}", n=f"{low:g}–{high:g}")
    if line.unit == "B" and high >= 1e9:
        return f"{high / 1e9:g} GB"
    if line.unit == "FLOP":
        return f"{fmt.power(high).replace('0 ×', ' ×')} FLOP"
    return f"{high:g} s" if line.unit == "s" else shown(high, line.unit, words)


def _prose(text: str) -> str:
    """A sentence in which no line ends within a number or before its unit; here bytes, too, are counted one by one."""
    return parts.prose(BYTES.sub("\u00a0", POWER.sub(NO_BREAK, text)))


def _three(value: float) -> str:
    return f"{value:,.2f}" if value < 10 else f"{value:,.1f}"


def _factor(value: float) -> str:
    """``2.147`` -> ``2.1``; ``1.035`` -> ``1.03``; ``0.25`` stays, ``295.4`` -> ``295``."""
    return "0" if value == 0 else f"{value:.2g}" if value < 1 else fmt.times(value) if value != round(value) else fmt.count(value)


def _rate(value: float, unit: str) -> str:
    what = unit.removesuffix("/s")
    for limit, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= limit:
            return f"{value / limit:,.4g} {prefix}{what}/s"
    return f"{value:,.0f} {unit}"


def _place(claim: Claim, words: Words) -> str:
    return words("card.place", text=words(f"text.{claim.text}.name"), place=words(f"{claim.id}.place"))


# ------------------------------------------------------------------ what was computed


def _line(claim: Claim, line: Line, words: Words) -> str:
    """One computation: what it is of, our value beside the text's, the formula twice."""
    own = {given.symbol: shown(given.value, given.unit, words) for given in line.inputs}
    title = _prose(words(f"{claim.id}.line.{line.id}", **own))
    value = shown(line.value, line.unit, words)
    if line.said:
        numbers = _against(claim, line, value, words)
    else:
        numbers = f"<p class='lab-claim-value'>{_prose(value)}</p>"
    formula = f"<span>{_symbols(line.with_symbols)}</span><span>= {escape(POWER.sub(NO_BREAK, line.with_numbers))}</span>"
    return f"<section class='lab-claim-line'><h3>{title}</h3>{numbers}<p class='lab-claim-formula'>{formula}</p></section>"


def _against(claim: Claim, line: Line, value: str, words: Words) -> str:
    """Our value and the text's as two bars, with the ratio in words."""
    most = max(line.value, *line.said)
    pairs = (
        (words("card.ours"), line.value, value, " lab-best"),
        (words("card.theirs", text=claim.text), max(line.said), said(line, words), ""),
    )
    bars = "".join(
        f"<div class='lab-race-row{mark}'><span class='lab-race-name'>{escape(name)}</span>"
        f"<span class='lab-race-bar'><span style='width:{max(size / most * 100, 0.6):.1f}%'></span></span>"
        f"<span class='lab-race-value'>{_prose(text)}</span></div>"
        for name, size, text, mark in pairs
    )
    ratio = words("card.ratio", x=shown(line.ratio, "x", words))
    return f"<div class='lab-claim-bars'>{bars}<p class='lab-quiet'>{escape(ratio)}</p></div>"


def _symbols(formula: str) -> str:
    return SUBSCRIPT.sub(r"\1<sub>\2</sub>", escape(formula))


def _inputs(claim: Claim, words: Words) -> str:
    """Every number that goes into the claim's formulas, once, with where it is from."""
    given = dict.fromkeys(one for line in claim.lines for one in line.inputs)
    columns = ("symbol", "meaning", "value", "source")
    head = "".join(f"<th scope='col'>{escape(words(f'card.column.{name}'))}</th>" for name in columns)
    body = "".join(
        f"<tr><th scope='row'>{_symbols(one.symbol)}</th><td>{escape(words(f'symbol.{one.symbol}'))}</td>"
        f"<td>{_prose(shown(one.value, one.unit, words))}</td><td>{_source(claim, one, words)}</td></tr>"
        for one in given
    )
    label = escape(words("card.inputs"), quote=True)
    return (
        f"<div class='lab-scroll' tabindex='0' role='region' aria-label='{label}'>"
        f"<table class='lab-table lab-claim-inputs'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _source(claim: Claim, given: Input, words: Words) -> str:
    source = given.source
    if source.kind == "published":
        return parts.badge("published", words) + " " + parts.cited(words("source_of.published", title=source.title, text=source.text))
    if source.kind == "text":
        return escape(words("source_of.text", text=words(f"text.{source.text}.name"), place=words(f"{claim.id}.place")))
    return escape(words(f"chosen.{source.text}"))


# ------------------------------------------------------------------ what was measured


def _measured(claim: Claim, found: list[tuple[dict, Measurement]], words: Words) -> str:
    if not claim.measured:
        return ""
    made = ""
    for result, measurement in found:
        busy = outcome.disturbance(result, words)
        note = f"<p class='lab-note'>{_prose(busy)}</p>" if busy else ""
        said_of = _prose(_finding(claim, result, measurement, words))
        made += f"<div class='lab-claim-measured'>{outcome.source_line(result, words)}<p>{said_of}</p>{note}</div>"
    return made or f"<p class='lab-note'>{escape(words('card.measured_none'))}</p>"


def _finding(claim: Claim, result: dict, measurement: Measurement, words: Words) -> str:
    readings = {reading.id: _reading(reading, words) for reading in measurement.readings}
    sentence = words(f"{claim.id}.{result['kind']}.{measurement.finding}", **readings)
    if any(_ranges(reading) for reading in measurement.readings):
        sentence += " " + words("card.repeats", n=_repeats(result))
    return sentence


def _reading(reading: Reading, words: Words) -> str:
    value = shown(reading.value, reading.unit, words)
    if not _ranges(reading):
        return value
    low, high = (shown(end, reading.unit, words) for end in (reading.low, reading.high))
    return words("quantity.spread", value=value, low=low, high=high)


def _ranges(reading: Reading) -> bool:
    return None not in (reading.low, reading.high) and reading.low != reading.high


def _repeats(result: dict) -> int:
    """How often it was measured; 1 where a result does not say."""
    scenario = (result.get("manifest") or {}).get("scenario") or {}
    repeats = scenario.get("repeats") or (scenario.get("base") or {}).get("repeats")
    return repeats if isinstance(repeats, int) else 1
