"""The page table. Runs before every page: language, navigation, the bar above each page."""

from pathlib import Path

import streamlit as st

from pages._ui import session

LOGO = Path(__file__).parent / "static" / "logo.svg"

words = session.words()
st.logo(LOGO, size="large")
pages = {
    "home": st.Page("home/page.py", title=words("nav.home"), default=True),
    "schedules": st.Page("schedules/page.py", title=words("nav.schedules"), url_path="schedules"),
    "roofline": st.Page("roofline/page.py", title=words("nav.roofline"), url_path="roofline"),
    "memory": st.Page("memory/page.py", title=words("nav.memory"), url_path="memory"),
    "sinks": st.Page("sinks/page.py", title=words("nav.sinks"), url_path="sinks"),
    "rope": st.Page("rope/page.py", title=words("nav.rope"), url_path="rope"),
    "transfer": st.Page("transfer/page.py", title=words("nav.transfer"), url_path="transfer"),
    "ring": st.Page("ring/page.py", title=words("nav.ring"), url_path="ring"),
    "claims": st.Page("claims/page.py", title=words("nav.claims"), url_path="claims"),
}
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
