"""A real browser for pages: Chromium without a window, driven by its own driver."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: run make test EXTRAS=all")

from selenium import webdriver
from selenium.webdriver import ActionChains as ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip


@contextmanager
def opened(profile: Path) -> Iterator[webdriver.Chrome]:
    """A browser with a fresh profile; what the console and the network saw is kept."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("there is no Chromium: install the system's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def until(browser: webdriver.Chrome, what: Callable[[], Any], seconds: float = 20.0) -> None:
    """Wait for something that a person would see."""
    WebDriverWait(browser, seconds, poll_frequency=0.1, ignored_exceptions=(Exception,)).until(lambda _: what())


def text(browser: webdriver.Chrome, css: str) -> str:
    return str(browser.find_element(By.CSS_SELECTOR, css).get_attribute("textContent"))


def phone(browser: webdriver.Chrome) -> None:
    """The screen of a small phone, until `Emulation.clearDeviceMetricsOverride`."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    )


def scheme(browser: webdriver.Chrome, name: str) -> None:
    """Prefer `dark` or `light`."""
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]}
    )


def requested(browser: webdriver.Chrome) -> list[str]:
    """Every address asked for since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
