"""The last line of `pytest -m reported`: how many printed numbers have which verdict."""

from collections import Counter

import pytest

from bench.comparison.verdict import VERDICT_SYMBOLS


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after the summary of failures and skips
def pytest_terminal_summary(terminalreporter):
    result = yield
    counts = Counter(
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name == "verdict"
    )
    if counts:
        parts = [f"{counts[kind]} {kind}" for kind in VERDICT_SYMBOLS if counts[kind]]
        terminalreporter.write_line(f"{counts.total()} printed numbers: {', '.join(parts)}")
    return result
