"""What a page knows about its reader: language, theme, device of the browser, and the run in the address."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages._ui.language import LANGUAGES, negotiate
from pages._ui.palette import Palette, palette
from pages._ui.web import BrowserName
from pages._ui.words import Words

RUN = "run"


def language() -> str:
    """The reader's language: the address first, then what was chosen in this session, then the browser's."""
    asked = st.query_params.get("lang") or st.session_state.get("lang")
    # What the browser says of itself; the websocket's header is a second choice, some browsers leave it out.
    lang = negotiate(asked, st.context.locale or st.context.headers.get("Accept-Language"))
    st.session_state["lang"] = lang
    return lang


def words(page: str | None = None) -> Words:
    """The texts of a page in the reader's language."""
    return Words(language(), page)


def colors() -> Palette:
    """The palette of the theme the browser shows."""
    return palette(st.context.theme.type)


def on_touch() -> bool:
    """Whether the browser says it is a phone: there a drag over a figure must scroll the page."""
    agent = st.context.headers.get("User-Agent", "")
    return any(mark in agent for mark in ("Mobile", "Android", "iPhone"))


def browser() -> str:
    """The name our cookie gave this browser; where cookies are refused, one for this tab."""
    named = st.context.cookies.get(BrowserName.COOKIE)
    return named or st.session_state.setdefault("browser", secrets.token_urlsafe(16))


def run_id(slot: str = RUN) -> str | None:
    """The run named in the address, kept for the session so that it survives a visit to another page.

    slot: the name in the address; a page with several experiments has one for each.
    """
    found = st.query_params.get(slot) or st.session_state.get(f"shown-{slot}")
    st.session_state[f"shown-{slot}"] = found
    return found


def show_run(run: str | None, slot: str = RUN) -> None:
    """Put a run into the address, or take it out."""
    st.session_state[f"shown-{slot}"] = run
    if run:
        st.query_params[slot] = run
    elif slot in st.query_params:
        del st.query_params[slot]


def open_parts(names: tuple[str, ...], words: Words) -> Iterator[tuple[str, DeltaGenerator]]:
    """Tabs of a page, of which only the open one is made: yields its name and its place.

    The open part is in the address (``?part=NAME``), so that a teacher can send a class to it; it survives a change of
    language although the tabs' titles do not.
    """
    titles = {words(f"part.{name}"): name for name in names}
    kept = f"part-{'-'.join(names)}"  # of this page: another page may have a part of the same name
    wanted = st.query_params.get("part") or st.session_state.get(kept)
    key, shown = f"parts-{words.lang}", f"{kept}-{words.lang}"
    if st.session_state.get("parts-shown") != shown or key not in st.session_state:
        # Not as the tabs' default: with another default they are other tabs, and the next click on them would be lost.
        first = wanted if wanted in names else names[0]
        st.session_state[key] = next(title for title, name in titles.items() if name == first)
        st.session_state["parts-shown"] = shown
    tabs = st.tabs(list(titles), key=key, on_change="rerun")
    for name, tab in zip(names, tabs, strict=True):
        if tab.open:
            st.session_state[kept] = name
            if name != names[0] or "part" in st.query_params:
                st.query_params["part"] = name
            yield name, tab


def language_switch() -> None:
    """Two buttons; the page and its run stay."""
    lang = language()
    chosen = st.segmented_control(
        words()("app.language"),
        list(LANGUAGES),
        format_func=LANGUAGES.get,
        default=lang,
        required=True,
        key=f"language-{lang}",
        label_visibility="collapsed",
    )
    if chosen and chosen != lang:
        st.session_state["lang"] = chosen
        st.query_params["lang"] = chosen
        st.rerun()
    # A screen reader takes the language from the document; the script is our own static file.
    st.html(
        f"<script src='./app/static/lang.js?{lang}' data-lang='{lang}'></script>",
        unsafe_allow_javascript=True,
        width="content",
    )
