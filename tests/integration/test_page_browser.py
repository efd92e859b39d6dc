"""The page in a browser: sorting, filters, what is behind a number, the keyboard."""

from pathlib import Path

import pytest

from tests.support.browser import MISSING, chromium
from tests.support.page_project import COMMAND, write_project

pytestmark = [pytest.mark.slow, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return write_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def session():
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(session, project):
    """The page as it opens; nothing is left in the log of earlier tests."""
    session.open(project.out / "index.html")
    session.console()
    return session


def texts(browser, selector):
    """What is seen of the matching elements."""
    seen = "e.checkVisibility() ? e.innerText.replace(/\\s+/g, ' ').trim() : null"
    return [text for text in run_all(browser, selector, seen) if text is not None]


def run_all(browser, selector, expression):
    """The value of an expression of `e` for each matching element."""
    script = f"return [...document.querySelectorAll(arguments[0])].map((e) => {expression})"
    return browser.run(script, selector)


def focused(browser):
    return browser.run("return document.activeElement.innerText.replace(/\\s+/g, ' ').trim()")


def choose(browser, selector, value):
    script = "e.value = arguments[1]; e.dispatchEvent(new Event('input', { bubbles: true }))"
    browser.run(f"const e = document.querySelector(arguments[0]); {script}", selector, value)


def open_all(browser):
    browser.run("for (const part of document.querySelectorAll('details')) part.open = true")


def test_a_column_sorts_both_ways_and_what_is_missing_stays_last(browser):
    def averages():
        column = "details.leaderboard:first-of-type tbody tr > :nth-child(3)"
        return [text.split()[0] for text in texts(browser, column)]

    scores = ["61.00", "70.50", "75.00", "76.05", "77.50"]
    browser.click("details.leaderboard thead th:first-child button")
    names = [
        text.split(" ")[0].rstrip(",")
        for text in texts(browser, "details.leaderboard:first-of-type tbody th")
    ]
    assert names == sorted(names, key=str.lower)
    head = "details.leaderboard thead th:nth-child(3)"
    browser.click(f"{head} button")
    assert averages() == [*scores[::-1], "–"]
    assert run_all(browser, head, "e.ariaSort")[0] == "descending"
    browser.press("Enter")  # the button keeps the focus
    assert averages() == [*scores, "–"]
    assert run_all(browser, head, "e.ariaSort")[0] == "ascending"


def test_printed_numbers_are_filtered_by_paper_table_verdict_and_words(browser, project):
    for name, value, count in (
        ("source", "sscl", 19), ("table", "sscl_table-2", 17), ("verdict", "open", 8),
    ):  # fmt: skip
        choose(browser, f"#printed-filter [name={name}]", value)
        told = texts(browser, "#printed-filter [role=status]")
        assert told == [f"{count} of {len(project.judged.numbers)} printed numbers"]
    seen = texts(browser, "#sscl_table-2 td:not(.other)[data-entry]")
    assert ["open" in text for text in seen] == [True] * 8
    choose(browser, "#printed-filter [name=verdict]", "")
    browser.write("#printed-filter [name=search]", "IS-BERT")
    assert texts(browser, "#printed-filter [role=status]")[0].startswith("8 of ")
    # The keyboard's stop is a number that is seen.
    stop = "#sscl_table-2 tbody button[tabindex='0']"
    assert run_all(browser, stop, "e.checkVisibility()") == [True]


def test_a_number_opens_its_runs_curves_and_provenance(browser):
    open_all(browser)
    rows = run_all(browser, "#sscl_table-2 tbody tr", "e.cells[0].innerText")
    row = rows.index("SimCSE\nbert-base-uncased, quoted") + 1
    cell = f"#sscl_table-2 tbody tr:nth-child({row}) td:last-child button"
    browser.click(cell)
    assert browser.run("return document.getElementById('entry').matches(':modal')")
    assert texts(browser, "#entry dl:first-child dd")[1] == "76.05 ± 0.87, n = 5"
    runs = texts(browser, "#entry .scroll:first-of-type tr")
    assert runs[0] == "Seed Score Run Steps Best step Seconds Scored"
    assert runs[1] == "0 75.00 simcse-0 250 200 0 2026-11-20 05:54"
    links = run_all(browser, "#entry .scroll a", "e.href")
    assert len(links) == 7  # both settings
    assert all(Path(link.removeprefix("file://")).is_file() for link in links)
    # Five trainings have curves, in four quantities and in the key.
    counts = run_all(browser, "#entry svg", "e.querySelectorAll('polyline').length")
    assert counts == [1] * 5 + [5] * 4
    label = "Selection score (Spearman x 100): from 65.00 to 89.00, steps 50 to 250"
    assert label in run_all(browser, "#entry svg", "e.ariaLabel")
    browser.press("Escape")
    assert not browser.run("return document.getElementById('entry').open")
    assert run_all(browser, cell, "document.activeElement === e") == [True]
    assert browser.console() == []


def test_an_address_opens_its_number(browser):
    address = "sscl/table-2/simcse/bert-base-uncased/avg/test/spearman"
    browser.run(f"location.hash = '{address}'")
    assert browser.run("return document.getElementById('entry').open")
    assert {COMMAND, f"#{address}"} <= set(texts(browser, "#entry dd"))
    browser.press("Escape")
    browser.run("location.hash = 'no/such/number'")
    assert not browser.run("return document.getElementById('entry').open")
    assert browser.console() == []


def test_every_number_and_row_opens_and_brings_no_foreign_element(browser, project):
    result = browser.run(
        "const titles = []; let foreign = 0; const dialog = document.getElementById('entry');"
        "for (const button of document.querySelectorAll('[data-entry] button')) {"
        "  button.click(); titles.push(document.getElementById('entry-title').textContent);"
        "  foreign += dialog.querySelectorAll('img, script').length; dialog.close(); }"
        "return [titles.length, titles.every(Boolean),"
        "  foreign, document.scripts.length, window.hacked ?? null]"
    )
    assert result[0] == len(project.judged.numbers) + len(project.judged.systems)
    assert result[1:] == [True, 0, 2, None]
    assert browser.console() == []


def test_the_keyboard_reaches_everything(browser):
    browser.press("Tab")
    assert focused(browser) == "Skip to the tables"
    browser.press("Enter", "Tab")
    assert browser.run("return document.activeElement.name") == "family"
    # One stop for the numbers of a table, of which arrows reach every one.
    buttons = "[...e.querySelectorAll('tbody button')]"
    stops = run_all(browser, "table", f"{buttons}.filter((b) => b.tabIndex === 0).length")
    assert set(stops) <= {0, 1}
    browser.run("document.querySelector('.printed[open] tbody button').focus()")
    first = focused(browser)
    browser.press("Right")
    second = focused(browser)
    browser.press("Down", "Left", "Up")
    assert focused(browser) == first != second
    browser.press("Right", "Enter")
    assert browser.run("return document.activeElement.closest('dialog') !== null")
    browser.press("Escape")
    assert focused(browser) == second
