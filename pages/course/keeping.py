"""What is kept of the learner: taken to another browser with a code, left behind on a shared computer, or erased."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.errors import LabError
from engine.service import client
from engine.service.client import Learner
from pages._ui import errors, outcome, parts, session
from pages._ui.web import BrowserName
from pages._ui.words import Words

# In the session: the code just made, what was just done, and whether the question before erasing is open.
CODE, DONE, ASKED = "course-code", "course-done", "course-asked"


def section(words: Words) -> None:
    """What is kept, and everything that can be done with it."""
    try:
        learner = client.learner(session.browser())
    except LabError as error:
        st.html(parts.notice(words("keeping.failed"), errors.sentence(error, words)))
        return
    if done := st.session_state.pop(DONE, None):
        st.html(parts.notice(words(done), kind="info"))
    st.markdown(words.part("keeping"))
    facts = {"topics": len(learner.progress), "browsers": learner.browsers}
    key = "keeping.nothing" if not learner.browsers else "keeping.one" if learner.browsers == 1 else "keeping.several"
    st.html(f"<p class='cr-kept' role='status'>{escape(words(key, **facts))}</p>")
    if BrowserName.COOKIE not in st.context.cookies:
        st.html(parts.notice(words("keeping.no_cookie_title"), words("keeping.no_cookie"), kind="info"))
    make, use = st.columns(2, gap="large")
    with make:
        _make(learner, words)
    with use:
        _use(words)
    leave, erase = st.columns(2, gap="large")
    with leave:
        _leave(learner, words)
    with erase:
        _erase(words)


def _make(learner: Learner, words: Words) -> None:
    outcome.section(words("code.title"))
    if code := st.session_state.get(CODE):
        st.html(f"<p>{escape(words('code.shown'))}</p>")
        st.code(code, language=None)
        if st.button(words("code.noted"), key="code-noted"):
            del st.session_state[CODE]
            st.rerun()
        return
    made = words("code.made", date=learner.code_made_at[:10]) if learner.code_made_at else words("code.none")
    st.html(f"<p>{escape(words('code.what'))}</p><p class='lab-note'>{escape(made)}</p>")
    if st.button(words("code.renew" if learner.code_made_at else "code.make"), key="code-make"):
        try:
            st.session_state[CODE] = client.new_resume_code(session.browser())
        except LabError as error:
            _failed(error, words)
        else:
            st.rerun()


def _use(words: Words) -> None:
    outcome.section(words("resume.title"))
    st.html(f"<p>{escape(words('resume.what'))}</p>")
    with st.form("resume", border=False):
        code = st.text_input(words("resume.code"), max_chars=60, placeholder="ABCD-EFGH-JKMN-PQRS", key="resume-code", autocomplete="off")
        sent = st.form_submit_button(words("resume.go"))
    if sent and code.strip():
        try:
            client.resume(session.browser(), code)
        except LabError as error:
            _failed(error, words)
        else:
            _forget_session("done.resumed")
    elif sent:
        st.html(parts.notice(words("resume.empty"), kind="info"))


def _leave(learner: Learner, words: Words) -> None:
    outcome.section(words("leave.title"))
    st.html(f"<p>{escape(words('leave.what'))}</p>")
    kept = bool(learner.code_made_at)
    if not kept:
        st.html(f"<p class='lab-note'>{escape(words('leave.no_code'))}</p>")
    if st.button(words("leave.go"), key="leave", disabled=not kept):
        try:
            client.leave(session.browser())
        except LabError as error:
            _failed(error, words)
        else:
            _forget_session("done.left")


def _erase(words: Words) -> None:
    outcome.section(words("erase.title"))
    st.html(f"<p>{escape(words('erase.what'))}</p>")
    runs = st.checkbox(words("erase.runs"), key="erase-runs", help=words("erase.runs_help"))
    if not st.session_state.get(ASKED):
        if st.button(words("erase.go"), key="erase"):
            st.session_state[ASKED] = True
            st.rerun()
        return
    st.html(parts.notice(words("erase.sure_runs" if runs else "erase.sure"), words("erase.final")))
    with st.container(horizontal=True, gap="small"):
        sure = st.button(words("erase.yes"), key="erase-yes", type="primary")
        if st.button(words("erase.no"), key="erase-no"):
            del st.session_state[ASKED]
            st.rerun()
    if sure:
        try:
            client.erase(session.browser(), runs)
        except LabError as error:
            _failed(error, words)
        else:
            _forget_session("done.erased_runs" if runs else "done.erased")


def _failed(error: LabError, words: Words) -> None:
    st.html(parts.notice(words("keeping.failed"), errors.sentence(error, words)))


def _forget_session(done: str) -> None:
    """The session has noted answers and runs of who this was before: it begins anew, in the same language."""
    for name in list(st.session_state):
        if name not in ("lang", "browser"):
            del st.session_state[name]
    st.session_state[DONE] = done
    st.rerun()
