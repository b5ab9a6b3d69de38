"""A prediction by keyboard alone: committed before the numbers are read, compared, kept; and the end of a lesson."""

from tests.browser.checks import grave, wide


def test_a_choice_is_committed_by_keyboard_on_a_phone_and_kept(visit):
    """Enter opens, arrows choose, Enter commits; after a reload the prediction is still there beside the measured."""
    watched = visit(locale="ko-KR", width=390, height=844, color_scheme="dark")
    page = watched.open("/schedules")
    box = page.locator(".st-key-lab-predict-schedules-last")
    summary = box.locator("summary")
    summary.focus()
    page.keyboard.press("Enter")
    box.get_by_role("radio").first.focus()
    page.keyboard.press("Space")
    button = box.get_by_role("button", name="이대로 예상하기")
    button.focus()
    page.keyboard.press("Enter")
    watched.see("예상과 다릅니다.")
    assert "내 예상: 통합. 나온 값: 분리형." in summary.inner_text()
    assert not grave(page) and not wide(page)

    page = watched.open("/schedules")
    assert "내 예상: 통합." in page.locator(".st-key-lab-predict-schedules-last summary").inner_text()


def test_a_number_is_set_beside_the_measured_one(visit):
    """Typed with Enter, shown as two bars whose lengths are those of the numbers; predicted anew on wish."""
    watched = visit(width=1280)
    page = watched.open("/schedules?part=waiting")
    box = page.locator(".st-key-lab-predict-schedules-tpot")
    box.locator("summary").click()
    box.locator("input[type=number]").fill("20")
    page.keyboard.press("Enter")
    box.locator(".lab-predict-pair").wait_for()
    mine, found = (bar.bounding_box()["width"] for bar in box.locator(".lab-race-bar > span").all())
    assert 8 < mine / found < 20  # 20 times beside about 1.4
    assert "Measured" in box.inner_text() and "It is less than you expected." in box.inner_text()
    box.get_by_role("button", name="Predict anew").click()
    box.get_by_text("Predict first:").wait_for()


def test_a_lesson_ends_with_words_sources_and_the_next_one(visit):
    """What stands there is read by a screen reader, opens, and leads on."""
    watched = visit(width=1280)
    page = watched.open("/ring")
    end = page.locator(".st-key-lab-closing")
    for title, text in (("Words of this lesson", "Online softmax"), ("Sources", "Striped Attention")):
        end.locator("summary", has_text=title).click()
        end.get_by_text(text).first.wait_for(state="visible")
    assert not grave(page)
    end.get_by_role("link", name="Next: ").click()
    watched.settle()
    watched.until("location.pathname.endsWith('/open')")
