"""The Claims page: what the two source texts say, recomputed, with what was measured beside it."""

from html import escape

import streamlit as st

from engine.claims import LESSONS, TEXTS, VERDICTS, claims
from pages._ui import claim_card, parts, session
from pages._ui import claims as shared

words = session.words("claims")
ANY = "any"


def choose(name: str, options: tuple[str, ...], label) -> str | None:
    """A filter that is kept in the address; None for all."""
    asked, key = st.query_params.get(name), f"claims-{name}-{words.lang}"
    st.session_state.setdefault(key, asked if asked in options else ANY)
    chosen = st.segmented_control(
        words(f"filter.{name}"),
        [ANY, *options],
        required=True,
        key=key,
        format_func=lambda option: words("filter.any") if option == ANY else label(option),
    )
    if chosen != ANY:
        st.query_params[name] = chosen
        return chosen
    if name in st.query_params:
        del st.query_params[name]
    return None


def one(known: dict) -> str | None:
    """The claim the address asks for alone, with the way back to all."""
    asked = st.query_params.get("claim")
    if asked is None:
        return None
    with st.container(horizontal=True, vertical_alignment="center"):
        text = words("page.single", id=asked) if asked in known else words("page.unknown")
        st.html(parts.notice(text, kind="info"), width="stretch")
        if st.button(words("page.everything"), key="everything"):
            del st.query_params["claim"]
            st.rerun()
    return asked if asked in known else None


known = claims()
verdicts = tuple(option for option in VERDICTS if any(claim.verdict == option for claim in known.values()))
lessons = tuple(option for option in LESSONS if any(option in claim.lessons for claim in known.values()))
st.html(parts.heading(words))
alone = one(known)
if alone:
    chosen = [known[alone]]
else:
    with st.container(horizontal=True, gap="medium", key="lab-claims-filter"):
        text = choose("text", TEXTS, lambda option: words(f"text.{option}.name"))
        verdict = choose("verdict", verdicts, lambda option: words(f"verdict.{option}.name"))
        lesson = choose("lesson", lessons, lambda option: words(f"nav.{option}"))
    chosen = [
        claim
        for claim in known.values()
        if text in (None, claim.text) and verdict in (None, claim.verdict) and (lesson is None or lesson in claim.lessons)
    ]
    texts = " · ".join(f"{words(f'text.{t}.name')}: {words(f'text.{t}.what')}" for t in TEXTS)
    count = words("page.count", n=len(chosen), all=len(known)) if chosen else words("page.none")
    st.html(f"<p class='lab-note' role='status'>{escape(count)}. {escape(texts)}</p>" + claim_card.rows(chosen, words, link=True))

results = shared.results({kind for claim in chosen for kind in claim.measured})
for claim in chosen:
    with st.container(key=f"lab-claim-{claim.id}", gap="small"):
        st.html(claim_card.card(claim, shared.measurements(claim, results), words))
        with st.container(horizontal=True, gap="small"):
            for name in claim.lessons:
                if page := st.session_state["pages"].get(name):  # a lesson that is not there yet has no link
                    label = words("page.in_lesson", lesson=words(f"nav.{name}"))
                    st.page_link(page, label=label, query_params={"lang": words.lang})
