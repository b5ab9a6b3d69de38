"""The transfer lesson in a browser: only its picture is drawn anew when a link is chosen."""


def test_over_a_slower_link_the_bars_are_computed(visit):
    """The badge must follow the choice: a computed time that looks measured is the worst this page could show."""
    watched = visit(locale="en-US")
    page = watched.open("/transfer")
    page.wait_for_selector(".kt-bars")
    page.get_by_label("The way between the pools").click()
    page.get_by_role("option", name="Ethernet 10 Gb/s").click()
    watched.see("The way is computed")
    page.get_by_role("radio", name="384", exact=True).or_(page.get_by_role("button", name="384", exact=True)).first.click()
    page.locator(".kt-text mark").first.wait_for()
