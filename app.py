"""The web application: `streamlit run app.py`.

Starts the engine's service with the server and stops it with it, adds the routes of
our data and puts our middleware around Streamlit. Pages are under pages/, the engine under engine/.
"""

from contextlib import asynccontextmanager

import streamlit as st
from starlette.middleware import Middleware

from engine.service import client
from pages._ui.routes import ROUTES
from pages._ui.web import BrowserName, OwnOrigin, PageShell, SecurityHeaders, StaticGzip, VersionedStatic, room_for_a_class


@asynccontextmanager
async def lifespan(_app):
    room_for_a_class()
    client.start()
    try:
        yield
    finally:
        client.stop()


app = st.App(
    "pages/router.py",
    lifespan=lifespan,
    routes=ROUTES,
    middleware=[Middleware(m) for m in (OwnOrigin, SecurityHeaders, VersionedStatic, StaticGzip, BrowserName, PageShell)],
)
