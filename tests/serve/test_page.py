"""The live page in headless Chromium: it loads, updates while records flow, shows a reset, survives a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from help_serve import SMALL_SPEC, Server, http, rows, served

from browser import By, phone, scheme, text, until, webdriver

#: Its MLP runs away within a few records, and is reset.
FRAGILE: dict[str, Any] = {
    "learners": [{"type": "LogisticConfig"}, {"type": "MLPConfig", "hidden": [8, 8], "learning_rate": 1e20}]
}


def teach(server: Server, model: str, items: list[dict[str, Any]], token: str = "") -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = http.post(f"{server.url}/models/{model}/learn", json={"records": items}, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text


def test_the_page(browser: webdriver.Chrome, tmp_path: Path) -> None:
    items = rows(600)
    with served(tmp_path / "state") as server:
        browser.get(f"{server.url}/")
        until(browser, lambda: text(browser, "#state") == "live")
        until(browser, lambda: browser.find_element(By.ID, "empty").is_displayed())
        for name, spec in (("demo", SMALL_SPEC), ("fragile", FRAGILE)):
            assert http.put(f"{server.url}/models/{name}", json=spec, timeout=60).status_code == 201
        card = "article[data-model=demo]"
        for at in range(0, 300, 100):
            teach(server, "demo", items[at : at + 100])
            until(browser, lambda at=at: str(at + 100) in text(browser, f"{card} .figures"))
        details = http.get(f"{server.url}/models/demo").json()
        assert f"{100 * details['error']:.1f}%" in text(browser, f"{card} .figures")
        assert len(browser.find_elements(By.CSS_SELECTOR, f"{card} svg polyline")) == 5
        for guess in details["plain_guesses"]:
            shown = text(browser, f"{card} tr[data-guess='{guess['name']}']")
            assert shown.count(f"{100 * guess['error']:.1f}%") >= 1, shown
        assert len(browser.find_elements(By.CSS_SELECTOR, f"{card} .cells")) == 5
        latest = browser.find_elements(By.CSS_SELECTOR, f"{card} table:last-of-type tr")
        assert latest[1].text.startswith("300")
        assert items[299]["y"] in latest[1].text

        teach(server, "fragile", [{**item, "x": {k: v * 1e6 for k, v in item["x"].items()}} for item in items[:200]])
        resets = http.get(f"{server.url}/models/fragile").json()["resets"]
        assert resets > 0
        until(browser, lambda: f"{resets}" in text(browser, "article[data-model=fragile] p[data-resets]"))
        assert text(browser, "article[data-model=fragile] tr[data-learner=mlp] .reset") == str(resets)

        server.kill()
        until(browser, lambda: "not connected" in text(browser, "#state"))
        server.start()
        until(browser, lambda: text(browser, "#state") == "live")
        teach(server, "demo", items[300:400])
        until(browser, lambda: "400" in text(browser, f"{card} .figures"))
        unexpected = [entry for entry in browser.get_log("browser") if "ERR_" not in entry["message"]]
        assert unexpected == []

        phone(browser)
        until(browser, lambda: browser.execute_script("return document.documentElement.scrollWidth") <= 360)
        colours = set()
        for name in ("light", "dark"):
            scheme(browser, name)
            colours.add(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
        assert len(colours) == 2
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_it_asks_for_a_token_and_shows_text_as_text(browser: webdriver.Chrome, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("read read-token-0123456789\nwrite write-token-0123456789\n")
    bold = "<b id=injected>x</b>"
    with served(tmp_path / "state", "--token-file", str(tokens)) as server:
        writing = {"Authorization": "Bearer write-token-0123456789"}
        http.put(f"{server.url}/models/demo", json=SMALL_SPEC, headers=writing, timeout=60)
        teach(
            server,
            "demo",
            [{"x": {bold: 1.0}, "y": bold}, {"x": {bold: 2.0}, "y": "other"}] * 3,
            writing["Authorization"][7:],
        )
        browser.get(f"{server.url}/")
        field = browser.find_element(By.ID, "token")
        until(browser, field.is_displayed)
        field.send_keys("wrong-token-0123456789")
        field.submit()
        until(browser, field.is_displayed)
        field.send_keys("read-token-0123456789")
        field.submit()
        until(browser, lambda: bold in text(browser, "article[data-model=demo]"))
        assert browser.find_elements(By.ID, "injected") == []
        assert not field.is_displayed()
