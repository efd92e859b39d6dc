"""The result of a suite, in some ten lines."""

from dataclasses import replace
from pathlib import Path
from textwrap import TextWrapper

from bench.judged.rows import Judged
from bench.report.comparison_table import greatest_first
from bench.report.formats import by_items, paragraphs
from bench.report.tables import in_short, world_in_short

LINES = TextWrapper(width=110, subsequent_indent="    ", break_on_hyphens=False)


def result(judged: Judged) -> list[str]:
    """The runs, the verdicts on printed numbers, and each method against the baseline on the first
    leaderboard: a paragraph each."""
    pairs, about = [], None
    if judged.pairs:
        leaderboard = judged.suite.leaderboard(judged.pairs[0].leaderboard)
        about, cell = leaderboard.planned, (leaderboard.name, leaderboard.overall)
        if leaderboard.overall != "Avg":
            about = replace(about, subject=leaderboard.overall)
        pairs = greatest_first(
            pair for pair in judged.pairs if (pair.leaderboard, pair.task) == cell
        )
    return paragraphs(
        "summary.txt", judged=judged, pairs=pairs, about=about, in_short=in_short,
        world_in_short=world_in_short, by_items=by_items,
    )  # fmt: skip


def summary(judged: Judged, out: Path, figures: Path) -> str:
    """The result for the terminal, and the places of tables, figures and page."""
    places = (
        f"tables:  {out}/tables/   (sts.md is the suite's own)",
        f"figures: {figures}/",
        f"page:    {out}/report/index.html\n",
    )
    return "\n".join([*map(LINES.fill, result(judged)), *places])
