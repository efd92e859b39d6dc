"""Scores against printed numbers and against a baseline: intervals, tests, verdicts, as rows."""
