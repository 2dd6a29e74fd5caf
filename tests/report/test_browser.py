"""The report and the live page in a real browser: drawn, quiet, offline, usable by keyboard."""

import json
import threading

import pytest

from cofill.pages import Line, Page, Section, choice, lines, paragraph, plot
from cofill.report import ProgressLog, watching

from .conftest import SECTIONS, trial_ledger

DRAWN = """
return [...document.querySelectorAll('.canvas')].filter(c => c.offsetParent !== null)
  .map(c => c.querySelectorAll('.main-svg').length > 0)
"""
WIDER = """
const most = document.documentElement.clientWidth + 1;
return [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > most
  && !e.closest('.scroll') && !e.closest('.canvas') && !e.closest('.skip')
  && e.getClientRects().length).map(e => e.outerHTML.slice(0, 80))
"""


@pytest.mark.parametrize(
    ("name", "width", "dark"),
    [("desktop", 1280, False), ("phone", 390, False), ("small", 360, True), ("dark", 1280, True)],
)
def test_the_report_is_drawn_whole_and_quiet(browser, report_file, name, width, dark):
    browser.open(report_file.as_uri(), width=width, dark=dark)
    assert browser.complaints() == []
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    sections = browser.run("return [...document.querySelectorAll('main > section')].map(s => s.id)")
    assert tuple(sections) == SECTIONS
    drawn = browser.run(DRAWN)
    assert len(drawn) >= 12
    assert all(drawn)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run(WIDER) == []
    back = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, back[4:-1].split(","))) < 200) == dark
    browser.shot(f"report_{name}")


def test_the_report_is_drawn_in_time(browser, report_file):
    # The main thread's own time: other work on the machine does not count.
    browser.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    browser.open(report_file.as_uri())
    assert 0.1 < busy(browser) < 3.0


def busy(browser):
    metrics = browser.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(m["value"] for m in metrics if m["name"] == "TaskDuration")


def test_nothing_can_be_fetched_or_run_from_the_report(browser, report_file):
    browser.open(report_file.as_uri())
    tried = """
    const done = arguments[0];
    const script = document.createElement('script');
    script.textContent = 'window.ran = true';
    document.body.append(script);
    fetch('https://example.org/').then(() => done('fetched'), () => done(String(window.ran)));
    """
    assert browser.driver.execute_async_script(tried) == "undefined"
    assert any("Content Security Policy" in words for words in browser.complaints())


def test_every_control_is_reached_by_keyboard_in_reading_order(browser, report_file):
    from selenium.webdriver import ActionChains, Keys

    browser.open(report_file.as_uri())
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    seen = []
    for _ in range(200):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        focused = browser.run(
            "const e = document.activeElement; const all = [...document.querySelectorAll('*')];"
            "return e === document.body ? null : [all.indexOf(e), e.tagName, "
            "getComputedStyle(e).outlineStyle, e.className]"
        )
        if focused is None or (seen and focused[0] == seen[0][0]):
            break
        seen.append(focused)
    assert seen[0][3] == "skip"
    order = [place for place, *_ in seen]
    assert order == sorted(order)
    tags = {tag for _, tag, *_ in seen}
    assert {"A", "BUTTON", "SELECT", "ABBR", "SUMMARY", "DIV"} <= tags
    assert all(outline != "none" for *_, outline, _ in seen)


def test_the_switch_and_the_choices_draw_what_they_show(browser, report_file):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    browser.open(report_file.as_uri())
    ink = "return getComputedStyle(document.querySelector('.xtick text')).fill"
    light = browser.run(ink)
    browser.driver.find_element(By.ID, "theme").click()
    browser.wait("return document.documentElement.dataset.ready === 'dark'")
    assert browser.run(ink) != light
    chosen = Select(browser.driver.find_element(By.CSS_SELECTOR, "#distributions select"))
    chosen.select_by_index(1)
    shown = "return document.querySelector('#distributions > .choice > .option:nth-child(3)')"
    browser.wait(f"{shown}.querySelector('.main-svg')")
    assert not browser.run(f"{shown}.hidden")
    assert browser.complaints() == []


def test_a_word_of_a_record_is_no_markup_for_plotly_either(browser, tmp_path):
    name = '<b onload="x">bold</b>'
    figure = lines({name: Line([1, 2], [1, 2]), "other": Line([1], [1])}, x_axis=name, y_axis="y")
    body = choice("which", {name: plot(figure, name, name), "two": paragraph("two")})
    path = tmp_path / "page.html"
    path.write_text(Page(name, "", [Section(name, body)]).html())
    browser.open(path.as_uri())
    assert browser.run("return document.querySelector('.xtitle').textContent") == name
    assert browser.complaints() == []


def test_a_run_in_the_background_moves_the_live_page(browser, tmp_path):
    log = ProgressLog(tmp_path)
    with watching(tmp_path) as server:
        browser.open(server.url)
        assert browser.wait("return document.getElementById('state').textContent") == "waiting"

        def work():
            log.note(budget={"lab": {"epsilon": 2.0, "delta": 1e-5}})
            log.note(site="clinic", state="training")
            for k in range(1, 4):
                log.note(what="train <b>", share=k / 4)
                log.note(round=k, losses={"pixels": 1 / k})
            trial_ledger().save(tmp_path / "ledger.jsonl")
            log.note(fault="site 'lab' did not answer; left out")

        threading.Thread(target=work).start()
        text = "return document.getElementById('{}').innerText"
        browser.wait("return document.getElementById('percent').textContent === '75 %'")
        assert browser.run(text.format("what")) == "train <b>"
        browser.wait("return document.querySelectorAll('#losses .scatterlayer .trace').length")
        browser.wait(f"{text.format('releases')}.includes('codes')")
        assert "2 releases" in browser.run(text.format("total"))
        browser.wait(f"{text.format('budget')}.includes('lab')")
        site, spent, allowed, left, _ = browser.run(
            "return [...document.querySelectorAll('#budget tbody tr *')].map(c => c.textContent)"
        )
        assert (site, allowed) == ("lab", "2")
        assert float(spent) + float(left) == pytest.approx(2.0)
        assert "training" in browser.run(text.format("sites"))
        browser.wait(f"{text.format('faults')}.includes('left out')")
        assert (
            browser.run("return performance.getEntriesByType('navigation')[0].type") == "navigate"
        )
        browser.shot("watch_desktop")
        log.note(state="finished", share=1, what="end")
        browser.wait("return document.getElementById('state').textContent === 'finished'")
        asked = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
        assert {name.partition("?")[0] for name in asked} == {f"{server.url}state"}
        assert browser.complaints() == []
        browser.open(server.url, width=390, dark=True)
        browser.wait("return document.getElementById('state').textContent === 'finished'")
        browser.wait("return document.querySelectorAll('#losses .scatterlayer .trace').length")
        assert browser.run(WIDER) == []
        assert browser.run("return document.documentElement.scrollWidth") <= 390
        browser.shot("watch_phone_dark")
    browser.wait("return !document.getElementById('lost').hidden")


def test_the_state_holds_what_the_page_shows_and_no_more(tmp_path):
    log = ProgressLog(tmp_path)
    log.note(round=1, losses={"a": 1.0}, rows=[["PATIENT-001", 7]], site="x", extra="PATIENT-001")
    with watching(tmp_path) as server:
        words = server.state().decode()
    assert "PATIENT" not in words
    assert json.loads(words)["losses"] == {"x": [1.0], "series": {"a": [1.0]}}
