"""The live page in headless Chromium: it loads, updates while records flow, shows a reset, survives a restart."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from help_serve import LINES, SMALL_SPEC, Server, http, ndjson, rows, served, taught
from test_error_alarm import noisy_rows

from braided import MODLClassifier
from browser import ActionChains, By, phone, scheme, text, until, webdriver

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
        assert f"curl -X PUT {server.url}/models/demo -H" in text(browser, "#empty")
        assert f"--to {server.url}/models/demo" in text(browser, "#empty")
        for name, spec in (("demo", SMALL_SPEC), ("fragile", FRAGILE)):
            assert http.put(f"{server.url}/models/{name}", json=spec, timeout=60).status_code == 201
        card = "article[data-model=demo]"
        for at in range(0, 300, 100):
            teach(server, "demo", items[at : at + 100])
            until(browser, lambda at=at: str(at + 100) in text(browser, f"{card} .figures"))
        details = http.get(f"{server.url}/models/demo").json()
        assert f"{100 * details['error']:.1f}%" in text(browser, f"{card} .figures")
        assert len(browser.find_elements(By.CSS_SELECTOR, f"{card} svg polyline")) == 5
        lead = text(browser, f"{card} .figure.lead")
        assert lead.startswith(f"{100 * details['window_error']:.1f}%wrong in the last 300")
        for guess in details["plain_guesses"]:
            assert f"{guess['name']} {100 * guess['window_error']:.1f}%" in lead
            shown = text(browser, f"{card} tr[data-guess='{guess['name']}']")
            assert shown.count(f"{100 * guess['error']:.1f}%") >= 1, shown
        assert len(browser.find_elements(By.CSS_SELECTOR, f"{card} .cells")) == 5
        for own in http.get(f"{server.url}/models/demo").json()["classes"]:
            assert browser.find_elements(By.CSS_SELECTOR, f"{card} table[data-table=classes] tr[data-label='{own}']")
        latest = browser.find_elements(By.CSS_SELECTOR, f"{card} table[data-table=latest] tr")
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
    tokens.write_text("read read-token-0123456789\nadminister write-token-0123456789\n")
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


def test_the_least_available_features_come_first_with_their_names_whole(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    often, seldom = "Zeitstempel.day_of_year.sin", "Zeitstempel.day_of_year.cos"
    items = [{"x": {often: float(t)} | ({seldom: 1.0} if t % 3 else {}), "y": t % 2} for t in range(60)]
    with served(tmp_path / "state") as server:
        http.put(f"{server.url}/models/demo", json=SMALL_SPEC, timeout=60)
        teach(server, "demo", items)
        browser.get(f"{server.url}/")
        phone(browser)
        names_of = "article[data-model=demo] .strip > span:nth-child(3n+1)"
        until(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, names_of)) == 2)
        assert [name.text for name in browser.find_elements(By.CSS_SELECTOR, names_of)] == [seldom, often]
        cut = "return [...document.querySelectorAll(arguments[0])].some(one => one.scrollWidth > one.clientWidth)"
        assert not browser.execute_script(cut, names_of)
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def ticks(browser: webdriver.Chrome, card: str) -> list[int]:
    found = browser.find_elements(By.CSS_SELECTOR, f"{card} .chart text[data-tick]")
    return [int(tick.get_attribute("data-tick") or "") for tick in found]


def names(browser: webdriver.Chrome) -> list[str]:
    return [row.get_attribute("data-row") or "" for row in browser.find_elements(By.CSS_SELECTOR, "#overview tbody tr")]


def test_several_models(browser: webdriver.Chrome, tmp_path: Path) -> None:
    browser.get_log("browser")
    taught(rows(700)).save(tmp_path / "file")
    with served(tmp_path / "state") as server:
        url = f"{server.url}/models"
        octets = {"Content-Type": "application/octet-stream"}
        sent = http.put(
            f"{url}/imported/checkpoint", content=(tmp_path / "file").read_bytes(), headers=octets, timeout=60
        )
        assert sent.status_code == 201
        teach(server, "imported", rows(900)[700:])
        assert http.put(f"{url}/pump", json=SMALL_SPEC, timeout=60).status_code == 201
        http.post(f"{url}/pump/learn", content=ndjson(noisy_rows(4_500, 3_600)), headers=LINES, timeout=60)
        number = {"task": "regression", "learners": [{"type": "LinearConfig"}]}
        assert http.put(f"{url}/flow", json=number, timeout=60).status_code == 201
        teach(server, "flow", [{"x": {"a": t % 7}, "y": 10.0 * (t % 7)} for t in range(120)])
        browser.get(f"{server.url}/")
        until(browser, lambda: len(names(browser)) == 3)

        # Records from before it came here are among those that are shown, along the axis as well.
        until(
            browser,
            lambda: "900records700 before it came here" in text(browser, "article[data-model=imported] .figures"),
        )
        assert min(ticks(browser, "article[data-model=imported]")) >= 700
        assert max(ticks(browser, "article[data-model=imported]")) == 900
        assert text(browser, "article[data-model=imported] table[data-table=latest] td").startswith("900")
        assert ticks(browser, "article[data-model=pump]") == [1_000, 2_000, 3_000, 4_000]
        assert "records" in text(browser, "article[data-model=pump] .chart")

        # An alarm is marked where it was raised.
        (mark,) = http.get(f"{url}/pump").json()["alarm_marks"]
        assert browser.find_elements(By.CSS_SELECTOR, f"article[data-model=pump] g[data-mark='{mark[0]}']")
        assert f"jumped at record {mark[0]:,}" in text(browser, "article[data-model=pump] g[data-mark] title")
        assert text(browser, "tr[data-row=pump] td:last-child") == "error jumped"

        # The table is sorted by any column, and opens and closes cards.
        records, by_name = {"flow": 120, "imported": 900, "pump": 4_500}, ["flow", "imported", "pump"]
        assert names(browser) == by_name
        button = browser.find_element(By.CSS_SELECTOR, "button[data-sort=records]")
        for order in (False, True):
            button.click()
            assert names(browser) == sorted(by_name, key=records.__getitem__, reverse=order)
            assert text(browser, "th[aria-sort]") == "records"
        browser.find_element(By.CSS_SELECTOR, "button[data-open=flow]").click()
        assert not browser.find_elements(By.CSS_SELECTOR, "article[data-model=flow]")
        assert browser.find_elements(By.CSS_SELECTOR, "article[data-model=pump]")

        browser.execute_script("document.querySelector('article[data-model=pump] .chart').scrollIntoView()")
        ActionChains(browser).move_to_element(
            browser.find_element(By.CSS_SELECTOR, "article[data-model=pump] .chart")
        ).perform()
        assert re.match(r"record [0-9,]+: all together [0-9.]+%, ", text(browser, "article[data-model=pump] .reading"))

        phone(browser)
        browser.execute_script("for (const button of document.querySelectorAll('[data-open=flow]')) button.click()")
        until(browser, lambda: browser.execute_script("return document.documentElement.scrollWidth") <= 360)
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        assert [entry for entry in browser.get_log("browser") if "ERR_" not in entry["message"]] == []


def test_what_can_be_asked_of_a_model(browser: webdriver.Chrome, tmp_path: Path) -> None:
    tokens, found = tmp_path / "tokens", tmp_path / "found"
    tokens.write_text("read read-token-0123456789\nadminister write-token-0123456789\n")
    writing = {"Authorization": "Bearer write-token-0123456789"}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(found)})
    with served(tmp_path / "state", "--token-file", str(tokens)) as server:
        http.put(f"{server.url}/models/demo", json=SMALL_SPEC, headers=writing, timeout=60)
        teach(server, "demo", rows(300), "write-token-0123456789")
        browser.get(f"{server.url}/")
        field = browser.find_element(By.ID, "token")
        until(browser, field.is_displayed)
        field.send_keys("read-token-0123456789")
        field.submit()
        card = "article[data-model=demo]"
        until(browser, lambda: "300" in text(browser, f"{card} .figures"))

        # A fleet says how many keys it has, and explains nothing.
        http.put(f"{server.url}/models/fleet", json={"preset": "lean", "key": "at"}, headers=writing, timeout=300)
        # The first fleet may be answered before its kernels are compiled.
        there = f"{server.url}/models/fleet"
        until(browser, lambda: http.get(there, headers=writing, timeout=60).status_code == 200, 240)
        at_two = [{"x": {**item["x"], "at": f"place {t % 2}"}, "y": item["y"]} for t, item in enumerate(rows(60))]
        teach(server, "fleet", at_two, "write-token-0123456789")
        until(browser, lambda: "2 keys" in text(browser, "article[data-model=fleet] header"))
        for name in ("demo", "fleet"):
            why = browser.find_element(By.CSS_SELECTOR, f"article[data-model={name}] [data-action=explain]")
            assert why.is_displayed() == (name == "demo")

        browser.find_element(By.CSS_SELECTOR, f"{card} [data-action=download]").click()
        until(browser, lambda: (found / "demo.braided").exists())
        assert MODLClassifier.load(found / "demo.braided").records_learned == 300

        browser.find_element(By.CSS_SELECTOR, f"{card} [data-action=inspect]").click()
        until(browser, lambda: json.loads(text(browser, "dialog pre"))["version"] == 300)
        browser.find_element(By.CSS_SELECTOR, "dialog header button").click()

        browser.find_element(By.CSS_SELECTOR, f"{card} [data-action=explain]").click()
        area = browser.find_element(By.CSS_SELECTOR, "dialog textarea")
        assert json.loads(area.get_attribute("value") or "")["x"].keys() == {f"f{j}" for j in range(5)}
        area.clear()
        area.send_keys('{"x": {"f0": 2.5, "f1": "wrong"}}')
        button = browser.find_element(By.CSS_SELECTOR, "dialog > div > button")
        button.click()
        until(browser, lambda: "f1" in text(browser, "dialog .trouble"))
        record = {"x": rows(300)[-1]["x"]}
        area.clear()
        area.send_keys(json.dumps(record))
        button.click()
        why = http.post(f"{server.url}/models/demo/explain", json=record, headers=writing, timeout=60).json()
        until(browser, lambda: why["label"] in text(browser, "dialog [data-answer] b"))
        shown = browser.find_elements(By.CSS_SELECTOR, "table[data-table=effects] tr td:first-child")
        assert [cell.text for cell in shown] == [effect["feature"] for effect in why["effects"]]
        browser.find_element(By.CSS_SELECTOR, "dialog header button").click()

        # Of raw records, what stands there to begin with can be answered as it is.
        http.put(f"{server.url}/models/raw", json={**SMALL_SPEC, "encode": True}, headers=writing, timeout=60)
        days = [{"x": {"at": f"2026-03-{1 + t:02}", "who": f"W{t % 3}", "t": t}, "y": f"y{t % 2}"} for t in range(20)]
        teach(server, "raw", days, "write-token-0123456789")
        until(browser, lambda: "3 values" in text(browser, "article[data-model=raw]"))
        browser.find_element(By.CSS_SELECTOR, "article[data-model=raw] [data-action=explain]").click()
        area = browser.find_element(By.CSS_SELECTOR, "dialog textarea")
        assert json.loads(area.get_attribute("value") or "") == {"x": {"at": "2026-03-01", "who": "W0", "t": 0}}
        browser.find_element(By.CSS_SELECTOR, "dialog > div > button").click()
        until(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, "table[data-table=effects] td")) == 6)
