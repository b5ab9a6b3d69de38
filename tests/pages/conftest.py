"""For the tests that open a lesson's page."""

import pytest

from engine.paths import data_dir
from pages._ui import session


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A data folder of its own, with this user's models and text, and the reader's name as the cookie would give it."""
    folder = tmp_path_factory.mktemp("home")
    (data_dir() / "models").mkdir(exist_ok=True)
    (folder / "models").symlink_to(data_dir() / "models")
    (folder / "texts").mkdir()
    (folder / "texts" / "kjv").symlink_to(data_dir() / "texts" / "kjv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(folder))
        patch.setattr(session, "browser", lambda: "a-browser-of-these-tests")
        yield


@pytest.fixture(scope="module")
def empty_home(tmp_path_factory):
    """As `home`, of a user who has no model and no text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setattr(session, "browser", lambda: "a-browser-of-these-tests")
        yield
