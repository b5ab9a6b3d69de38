"""Predict, then look: a question that is answered before the numbers are read, and what came out beside the answer.

One closed line per question, so that the page stays as it is for who only looks. What was predicted is kept with the
reader's progress; the comparison is with the result that the page shows, a recording or the reader's own run.
"""

from __future__ import annotations

from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.errors import LabError
from engine.quiz.coursework import Prediction
from pages._ui import coursework, outcome, parts, progress, run_panel
from pages._ui.coursework import Comparison
from pages._ui.words import Words


def section(
    lesson: str,
    part: str,
    words: Words,
    result: dict | None = None,
    *,
    active: bool = False,
    place: DeltaGenerator | None = None,
    experiment: str | None = None,
) -> None:
    """The predictions of a part of a lesson. result: what the page shows of the experiment, which may be unknown until after
    the place was made; active: a run is under way; experiment: only the questions of this one, where a part has several."""
    try:
        found = coursework.of(lesson).predictions
    except LabError as error:
        run_panel.failed(error, words)
        return
    with place or st.container():
        for prediction in found:
            if prediction.part == part and experiment in (None, prediction.experiment):
                _one(prediction, words, result, active)


@st.fragment
def _one(prediction: Prediction, words: Words, result: dict | None, active: bool) -> None:
    """Only this runs again when the reader commits."""
    given = _given(prediction)
    found = None if given is None or (prediction.experiment and result is None) else coursework.compare(prediction, given, result, words)
    with st.container(key=f"lab-predict-{prediction.id}"):
        with st.expander(_label(prediction, given, found, words), expanded=_opened(prediction, given, result)):
            if given is None:
                _ask(prediction, words)
            else:
                _told(prediction, given, found, words, result, active)


def _label(prediction: Prediction, given: str | float | None, found: Comparison | None, words: Words) -> str:
    if given is None:
        return f"**{words('predict.label')}** {prediction.question[words.lang]}"
    mine = words("predict.label_given", given=coursework.said(prediction, given, words))
    return f"**{mine}**" + (f" {words('predict.label_found', found=found.shown)}" if found else "")


def _opened(prediction: Prediction, given: str | float | None, result: dict | None) -> bool:
    """Open where there is news: right after committing, and when the reader's own run has answered."""
    own = result is not None and result.get("provenance") == "measured"
    return given is not None and (own or bool(st.session_state.get(f"predict-now-{prediction.id}")))


def _given(prediction: Prediction) -> str | float | None:
    kept = progress.known().get(f"predict:{prediction.id}", {}).get("given", st.session_state.get(f"predict-kept-{prediction.id}"))
    return kept if coursework.valid(prediction, kept) else None


def _ask(prediction: Prediction, words: Words) -> None:
    """The answer to commit to. It is written down before anything is compared."""
    key = f"predict-{prediction.id}"
    with st.form(f"form-{key}", border=False):
        if prediction.kind == "choice":
            texts = {option.id: option.text[words.lang] for option in prediction.options}
            st.radio(prediction.question[words.lang], list(texts), index=None, format_func=texts.get, key=key, label_visibility="collapsed")
        else:
            unit = coursework.unit_name(prediction.unit, words)
            label = words("predict.number", unit=unit) if unit else words("predict.number_plain")
            st.number_input(label, value=None, step=None, key=key, width=220)
        st.form_submit_button(words("predict.commit"), on_click=_commit, args=(prediction,), key=f"commit-{key}")
    if st.session_state.pop(f"predict-empty-{prediction.id}", False):
        st.html(f"<p class='lab-note' role='alert'>{escape(words('predict.empty'))}</p>")


def _commit(prediction: Prediction) -> None:
    given = st.session_state.get(f"predict-{prediction.id}")
    if coursework.valid(prediction, given):
        _keep(prediction, given)
    else:
        st.session_state[f"predict-empty-{prediction.id}"] = True


def _keep(prediction: Prediction, given: str | float | None) -> None:
    """In the reader's progress; in the session only where that cannot be kept, so that what is erased is gone from every tab."""
    st.session_state[f"predict-now-{prediction.id}"] = given is not None
    error = progress.note(f"predict:{prediction.id}", {"given": given})
    st.session_state[f"predict-kept-{prediction.id}"] = given if error else None


def _told(prediction: Prediction, given: str | float, found: Comparison | None, words: Words, result: dict | None, active: bool) -> None:
    """The prediction beside what came out, what that means, and the way to predict anew."""
    said = [f"<p class='lab-said'>{parts.prose(prediction.question[words.lang])}</p>"]
    if found:
        said += [_source(prediction, result, words), _pair(prediction, given, found, words), *_meaning(prediction, found, words, result)]
    else:
        reason = "active" if active else "none" if result is None else "silent"
        said.append(f"<p class='lab-note'>{parts.prose(words(f'predict.{reason}'))}</p>")
    st.html("".join(said))
    st.button(words("predict.anew"), key=f"anew-{prediction.id}", type="tertiary", on_click=_keep, args=(prediction, None))


def _source(prediction: Prediction, result: dict | None, words: Words) -> str:
    return outcome.source_line(result, words) if prediction.experiment else f"<div class='lab-source'>{parts.badge('computed', words)}</div>"


def _pair(prediction: Prediction, given: str | float, found: Comparison, words: Words) -> str:
    """Two rows, with bars where both are numbers."""
    came = words("predict.measured" if prediction.experiment else "predict.computed")
    mine = float(given) if prediction.kind == "number" else None
    most = max(mine, found.number) if mine is not None and found.number is not None else 0
    rows = ""
    for name, text, size, best in ((words("predict.yours"), coursework.said(prediction, given, words), mine, ""), (came, found.shown, found.number, " lab-best")):
        bar = f"<span class='lab-race-bar'><span style='width:{max(size / most * 100, 0.6):.1f}%'></span></span>" if most > 0 and mine is not None else ""
        rows += f"<div class='lab-predict-row{best}'><span class='lab-race-name'>{escape(name)}</span>{bar}<span class='lab-race-value'>{escape(text)}</span></div>"
    return f"<div class='lab-predict-pair{'' if most > 0 else ' lab-predict-words'}'>{rows}</div>"


def _meaning(prediction: Prediction, found: Comparison, words: Words, result: dict | None) -> list[str]:
    """How near it was; why it comes out so, or that this result is not what the lesson expects."""
    why = (prediction.explain if found.expected else prediction.against)[words.lang].format(measured=found.shown)
    made = [f"<p class='lab-said'><b>{escape(words(f'predict.state_{found.state}'))}</b> {parts.prose(why)}</p>"]
    if not found.expected:
        made.insert(0, f"<p class='lab-predict-against'>{escape(words('predict.against'))}</p>")
    if prediction.timed and result and (result.get("disturbance") or {}).get("disturbed"):
        made.append(f"<p class='lab-note'>{escape(words('predict.disturbed'))}</p>")
    return made
