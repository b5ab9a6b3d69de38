"""Every page and every part of it, Korean on a phone and English on a desktop: nothing stands there in the other language, axe has
nothing grave to say, and nothing is to be scrolled sideways for.

Seen and heard: also titles, alternative texts, empty fields, figures, Streamlit's own words, and what opens at a click.
"""

import re
import tomllib

import pytest

from engine.formulas.kv import KV_DTYPES
from engine.profiles import PROFILES_DIR
from pages._ui import course
from tests.browser.checks import PHONE, grave, wide
from tests.browser.reading import DRAWN, READ

PATHS = ("/", "/course", *(f"/{lesson}" for lesson in course.LESSONS), "/quiz", "/claims")
HANGUL = re.compile(r"[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]")
# What is folded away has colours, too; a few of each page are enough.
UNFOLD = "for (const folded of [...document.querySelectorAll('details')].slice(0, 3)) folded.open = true"
BAR = ".st-key-lab-bar"  # the switch calls each language by its own name

# What may stand in English on a Korean page.
ENGLISH = {
    BAR: "the language switch",
    "code, pre, kbd, .katex, sub, .lab-claim-formula, .lab-claim-inputs th": "code and formulas",
    "cite[lang=en]": "where a number is from, in the words of the profile",
    "a[href^=http]": "titles of papers",
    ".lab-term": "the English term beside the Korean one",
    "blockquote, .tl-answer, .tl-prompt, .ht-token, .lab-quoted, .lab-read, .kt-text p": "what a model read and wrote",
    "[data-testid=stIconMaterial]": "the name of an icon, which is drawn in its place",
    ".qz-notes details": "the names of questions",
}
FORMULA = re.compile(r"[=÷√Σ⌊]")
# Quoted tokens, the names of requests and processes (chat-3, decode-0), of files and addresses.
OF_A_RUN = re.compile(r"“[^”]*”|\b(?:chat|long|engine|prefill|decode)-\d+\b|\w+\.json|https?://\S+")
UNITS = set("ms min tok req kB FLOP MFLOP GFLOP TFLOP PFLOP MiB GiB KiB cpu".split())
# Methods and systems, our own model, and a chapter, which Korean texts call by these names, too.
SYSTEMS = "English, Lab model, Prefill vs Decode, StreamingLLM YaRN Ring Attention NTK-aware DeepSpeed ZeRO-Inference Hugging Face Accelerate FlexGen PyTorch Snap GPUDirect"
FORMATS = ("float32", "bfloat16", "float16")
WORD = re.compile(r"[A-Za-z]*[a-z]{2}[A-Za-z]*")


def names() -> set[str]:
    """The words of the names of models, devices, links, papers' tables and number formats."""
    found = set(WORD.findall(" ".join((SYSTEMS, *KV_DTYPES, *FORMATS))))
    for path in PROFILES_DIR.glob("*/*.toml"):
        profile = tomllib.loads(path.read_text(encoding="utf-8"))
        if isinstance(profile.get("title"), str):
            found |= set(WORD.findall(profile["title"]))
        found |= {word for row in profile.get("rows", []) for word in WORD.findall(str(row.get("model", "")))}
    return found


def english(text: str, known: set[str]) -> list[str]:
    """The words that make a text English: all that are no names, where there is no Hangul at all; else four in a row."""
    plain = OF_A_RUN.sub(" ", text)
    if HANGUL.search(plain):
        rows = re.findall(r"(?:[A-Za-z'-]+[ ,]+){3,}[A-Za-z'-]+", re.sub(r"\([^()]*\)", "", plain))
        return [row for row in rows if sum(word not in known for word in WORD.findall(row)) > 2]
    return [] if FORMULA.search(plain) else [word for word in WORD.findall(plain) if word not in known | UNITS]


def still(watched) -> None:
    """Wait until the page has stopped growing: our figures come after its script has run."""
    watched.settle()
    size, same = -1, 0
    while same < 3:
        watched.page.wait_for_timeout(100)
        now = watched.page.evaluate("document.getElementsByTagName('*').length")
        size, same = now, same + 1 if now == size else 0


def views(watched):
    """Opens every page and there every part; gives where it is."""
    for path in PATHS:
        page = watched.open(path)
        tabs = page.get_by_role("tab").count()
        for at in range(max(tabs, 1)):
            if at:
                page.get_by_role("tab").nth(at).evaluate("tab => tab.click()")  # wherever it is: on a phone a row of tabs is pushed aside
            still(watched)
            yield page.url.removeprefix(watched.address)


DEVICES = {"ko-KR": {"color_scheme": "light", **PHONE}, "en-US": {"color_scheme": "dark"}}


@pytest.mark.parametrize("locale", DEVICES)
def test_every_part_of_every_page_is_in_the_readers_language_and_accessible(visit, locale):
    """A text that nobody translated is found wherever it hides; each theme and each width is seen once."""
    watched = visit(locale=locale, **DEVICES[locale])
    page = watched.page
    page.add_init_script(DRAWN)
    korean, known, said, bad = locale == "ko-KR", names(), {}, []
    for address in views(watched):
        assert page.evaluate("document.documentElement.lang") == locale[:2]
        found = page.evaluate(READ, ", ".join(ENGLISH) if korean else BAR)
        assert len(found) > 10, address
        if korean:
            for button in page.get_by_test_id("stPopoverButton").all():
                button.press("Enter")
                page.wait_for_selector("[data-testid=stPopoverBody]")
                found += page.evaluate(READ, ", ".join(ENGLISH))
                page.keyboard.press("Escape")
                page.wait_for_selector("[data-testid=stPopoverBody]", state="hidden")
        said.update({(kind, text): (address, where) for kind, text, where in found})
        bad += [(address, "is wide")] if wide(page) else []
        page.evaluate(UNFOLD)
        bad += [(address, one) for one in grave(page)]
    assert len(said) > 1000
    foreign = {key: at for key, at in said.items() if (english(key[1], known) if korean else foreign_in_english(key[1]))}
    assert not foreign, "\n".join(f"{key} {at}" for key, at in foreign.items())
    assert not bad


def foreign_in_english(text: str) -> bool:
    """Hangul but where it is quoted."""
    return bool(HANGUL.search(re.sub(r"“[^”]*”", "", text)))


def test_streamlits_own_words_follow_the_switch(visit):
    """They were English on Korean pages; and what was made Korean must be English again after a switch without a reload."""
    watched = visit(locale="ko-KR", width=1000)
    page = watched.open("/memory")
    page.get_by_role("link", name="본문으로 건너뛰기").wait_for(state="attached")
    page.get_by_test_id("stTopNavSection").get_by_text("더 보기").wait_for()
    box = page.get_by_role("combobox").first
    box.focus()
    page.keyboard.type("없는 모델")
    watched.see("찾은 것이 없습니다")
    page.keyboard.press("Escape")
    page.locator(f"{BAR} button", has_text="English").click()
    page.get_by_role("link", name="Skip to main content").wait_for(state="attached")
    page.get_by_test_id("stTopNavSection").get_by_text(" more").wait_for()
    watched.settle()
    assert not [text for _, text, _ in page.evaluate(READ.replace("window.drawnTexts", "[]"), BAR) if HANGUL.search(text)]
