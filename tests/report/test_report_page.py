"""report.html in headless Chromium, from disk: no error, no request, curves, dark and light, a phone, paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from braided.report.folder import write_folder
from braided.run import Job, RunOptions
from conftest import made_up

pytest.importorskip("selenium", reason="selenium is not installed: run make test EXTRAS=all")

from browser import ActionChains, By, phone, requested, scheme, text

NAME = "<b id=injected>&amp;</b>" + "_very_long_name" * 12


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report <&>")
    values, labels = made_up(1_500, d=5, classes=3)
    lines = [f"a,b,c,d,{NAME},label"]
    for row, label in zip(values.tolist(), labels.tolist(), strict=True):
        lines.append(",".join("" if value != value else repr(value) for value in row) + f",{label}")
    (folder / "stream.csv").write_text("\n".join(lines) + "\n")
    options = RunOptions(str(folder / "stream.csv"), ("modl-olr+mlp", "majority"), seeds=2)
    job = Job(options)
    for _ in job.run():
        pass
    return write_folder(job, folder, f"braided run '{folder}/stream.csv'")[-1]


def pixels(browser: Any, css: str, rule: str) -> str:
    return str(browser.execute_script(f"return getComputedStyle(document.querySelector('{css}')).{rule}"))


def test_the_report(browser: Any, report: Path) -> None:
    browser.get("about:blank")
    browser.get_log("browser")
    requested(browser)
    browser.get(report.as_uri())
    asked = [address for address in requested(browser) if not address.startswith("data:")]
    assert asked == [report.as_uri()]
    assert browser.get_log("browser") == []
    assert "stream.csv" in browser.title

    # Curves with many points, not empty frames.
    figures = browser.find_elements(By.CSS_SELECTOR, "figure")
    assert len(figures) >= 10
    longest = browser.execute_script(
        "return [...document.querySelectorAll('figure')].slice(0, 4).map(figure => Math.max(...[...figure"
        ".querySelectorAll('path')].map(path => (path.getAttribute('d') || '').split('L').length)))"
    )
    assert min(longest) > 50, longest
    for figure in figures:
        picture = figure.find_element(By.CSS_SELECTOR, "svg[role=img]")
        assert picture.get_attribute("aria-label")
        assert picture.size["height"] > 80
        assert figure.find_element(By.CSS_SELECTOR, "details table")

    # Names are text.
    assert browser.find_elements(By.ID, "injected") == []
    assert NAME in text(browser, "main")

    looks = {}
    for name in ("light", "dark"):
        scheme(browser, name)
        looks[name] = (
            pixels(browser, "body", "backgroundColor"),
            pixels(browser, "figure svg text", "fill"),
            pixels(browser, "figure svg [id*=line2d] path[style*=c1]", "stroke"),
        )
    assert all(one != other for one, other in zip(looks["light"], looks["dark"], strict=True)), looks

    # The pointer reads the lines.
    strip = browser.find_elements(By.CSS_SELECTOR, "figure .at")[20]
    tip = strip.find_element(By.CSS_SELECTOR, ".tip")
    assert tip.value_of_css_property("visibility") == "hidden"
    ActionChains(browser).move_to_element(strip.find_element(By.CSS_SELECTOR, ".hit")).perform()
    assert tip.value_of_css_property("visibility") == "visible"
    assert "modl-olr+mlp" in tip.text
    box, frame = (part.rect for part in (tip.find_element(By.CSS_SELECTOR, "rect"), figures[0]))
    assert frame["x"] <= box["x"]
    assert box["x"] + box["width"] <= frame["x"] + frame["width"]

    phone(browser)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    # The letters of pictures can be read: a picture keeps its width, and is moved with a finger.
    letters = "return Math.min(...[...document.querySelectorAll('figure svg text:not(.tip text)')].map("
    letters += "word => { const at = word.getScreenCTM(); return "
    letters += "parseFloat(getComputedStyle(word).fontSize) * Math.hypot(at.a, at.b); }))"
    assert browser.execute_script(letters) >= 8
    # Nothing of the result is beyond the screen, and each figure says what it is.
    hidden = "return [...document.querySelectorAll('table.main td')].filter(cell => cell.getClientRects().length && "
    assert browser.execute_script(hidden + "cell.getBoundingClientRect().right > innerWidth).length") == 0
    name = "return getComputedStyle(document.querySelector('table.main td[data-name]'), '::before').content"
    assert "errors" in browser.execute_script(name)
    for details in browser.find_elements(By.CSS_SELECTOR, "details"):
        browser.execute_script("arguments[0].open = true", details)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert pixels(browser, "body", "backgroundColor") == "rgb(255, 255, 255)"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert browser.get_log("browser") == []
