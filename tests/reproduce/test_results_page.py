"""The page of results in a browser: nothing is cut off or runs out of a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: run make test EXTRAS=all")

from browser import phone, requested, scheme, webdriver

PAGE = Path(__file__).parents[2] / "docs" / "results" / "index.html"
#: What a reader opens may be wider than the screen, and is then moved within its box.
_BOXES = "[...document.querySelectorAll('.wide')].filter(box => !box.closest('details'))"
_COLOURS = "['body', 'td', 'tr.heading em'].map(css => getComputedStyle(document.querySelector(css)).color)"


def test_on_a_phone_no_table_is_wider_than_the_screen(browser: webdriver.Chrome) -> None:
    phone(browser)
    browser.get(PAGE.as_uri())
    browser.execute_script("document.querySelectorAll('details').forEach(each => each.open = true)")
    width, screen = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    boxes = browser.execute_script(f"return {_BOXES}.map(box => [box.scrollWidth, box.clientWidth])")
    pictures = browser.execute_script("return [...document.images].map(each => [each.naturalWidth, each.width])")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= screen == 360
    assert len(boxes) > 10
    assert [box for box in boxes if box[0] > box[1]] == []
    assert all(natural > 0 and shown < screen for natural, shown in pictures)
    assert not [address for address in requested(browser) if address.startswith("http")]


def test_figures_can_be_read_in_the_dark(browser: webdriver.Chrome) -> None:
    scheme(browser, "dark")
    browser.get(PAGE.as_uri())
    colours = browser.execute_script(f"return {_COLOURS}")
    scheme(browser, "light")
    for colour in colours:
        assert min(int(part) for part in colour.removeprefix("rgb(").rstrip(")").split(", ")) > 150
