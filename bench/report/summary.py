"""What a suite found, in some ten lines for the terminal."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import TextWrapper, wrap

import pandas as pd

from bench.judge.against_baseline import by_items, find
from bench.judge.reproduction import Cell
from bench.judge.world import WorldCell
from bench.registry.backbones import NO_BACKBONE
from bench.report.formats import difference_text
from bench.report.leaderboard import on_overall, overall
from bench.report.tables import in_short, world_in_short
from bench.results.suite_results import SuiteResults
from bench.utils.errors import counted

LINES = TextWrapper(width=110, subsequent_indent="    ", break_on_hyphens=False)


def summary(
    suite: SuiteResults,
    cells: Sequence[Cell],
    world: Sequence[WorldCell],
    compared: tuple[pd.DataFrame, pd.DataFrame] | None,
    out: Path,
    figures: Path,
) -> str:
    """What was run, what became of printed numbers, each method against the baseline, and where
    tables, figures and page are."""
    made = [run for run in suite.runs if run.status != "missing"]
    trained = [run for run in made if run.plan.trained]
    seconds = [
        (run.provenance.seconds or 0) + (run.provenance.outcome.seconds or 0) for run in made
    ]
    parts = [
        counted(len({run.plan.text for run in suite.runs}), "system"),
        counted(len({run.plan.seed for run in trained}), "seed"),
        counted(len(trained), "training"),
        f"{sum(seconds) / 60:.1f} minutes of computing",
    ]
    lines = [
        f"{suite.plan.suite}: {', '.join(parts)}. {suite.partial}".rstrip(),
        *([world_in_short(world)] if world else []),
        *(wrap(in_short(cells), LINES.width) if any(cell.ours.n for cell in cells) else []),
        *(_differences(suite, compared[0]) if compared else []),
        f"tables:  {out / 'tables'}/   (sts.md is the suite's own)",
        f"figures: {figures}/",
        f"page:    {out / 'report' / 'index.html'}",
    ]
    return "\n".join(lines) + "\n"


def _differences(suite: SuiteResults, compared: pd.DataFrame) -> list[str]:
    """Each method minus the baseline on the first board, by backbone and word."""
    board = compared["board"].iloc[0]
    rows = on_overall(suite, board, compared).sort_values("difference", ascending=False)
    rows["short"] = rows["label"].mask(
        rows.duplicated(["backbone", "label"], keep=False), rows["name"]
    )
    planned, task = suite.planned(board), overall(suite, board)
    measure = planned.title if task == "Avg" else replace(planned, which=task).title
    title = f"{find(suite, suite.plan.baseline).name}, {measure}"
    over = "over the test items" if by_items(rows) else "paired by seed"
    lines = [f"against {title}, {over}, words after Holm's correction:"]
    for (backbone, word), group in rows.groupby(["backbone", "verdict"]):
        texts = [
            f"{row['short']} {difference_text(row['difference'], row['half_width'], 1)}"
            for row in group.to_dict("records")
        ]
        where = "" if backbone == NO_BACKBONE.name else f"{backbone}, "
        lines += LINES.wrap(f"  {where}{word}: {'; '.join(texts)}")
    return lines
