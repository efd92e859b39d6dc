"""Placeholder."""

from bench.results.suite_results import SuiteResults


def recipe_of(suite: SuiteResults) -> str:
    return ""


def settings():
    return []
