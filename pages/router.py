"""The page table. Runs before every page: language, navigation, the bar above each page."""

from pathlib import Path

import streamlit as st

from pages._ui import course, session

LOGO = Path(__file__).parent / "static" / "logo.svg"

words = session.words()
st.logo(LOGO, size="large")
pages = {"home": st.Page("home/page.py", title=words("nav.home"), default=True)}
for name in ("course", *course.LESSONS, "quiz", "claims"):
    pages[name] = st.Page(f"{name}/page.py", title=words(f"nav.{name}"), url_path=name)
st.session_state["pages"] = pages
page = st.navigation(list(pages.values()), position="top")
name = words("app.title") if page.url_path == "" else f"{page.title} · {words('app.title')}"
st.set_page_config(page_title=name, page_icon=LOGO, layout="wide")
# A link in the navigation drops the query; the language belongs to every address that is passed on.
if st.query_params.get("lang") != session.language():
    st.query_params["lang"] = session.language()

with st.container(horizontal=True, horizontal_alignment="right", key="lab-bar"):
    session.language_switch()
page.run()
