"""The last lines of `pytest -m reported`: how many printed numbers, and how many published
checkpoints that print quotes, have which verdict."""

from collections import Counter

import pytest

from bench.judged.verdicts import VERDICT_SYMBOLS


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after the summary of failures and skips
def pytest_terminal_summary(terminalreporter):
    result = yield
    # The tests record their verdicts as properties, which reports of set-up and tear-down repeat.
    counts: dict[str, Counter[str]] = {"verdict": Counter(), "checkpoint": Counter()}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                for name, value in report.user_properties:
                    if name in counts:
                        counts[name][value] += 1
    titles = {"verdict": "printed numbers", "checkpoint": "scores of published checkpoints"}
    for name, title in titles.items():
        parts = [f"{counts[name][kind]} {kind}" for kind in VERDICT_SYMBOLS if counts[name][kind]]
        if parts:
            line = f"{counts[name].total()} {title}: {', '.join(parts)}"
            terminalreporter.write_line(line)
    return result
