"""What a suite found, in some ten lines for the terminal."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import wrap

import pandas as pd

from bench.comparison.against_baseline import NothingToCompare, against
from bench.comparison.reproduction import Cell
from bench.comparison.world import WORDS, WorldCell
from bench.report.comparison_table import baseline_name
from bench.results.suite_results import SuiteResults
from bench.utils.errors import counted

WIDTH = 110  # characters of a line


def summary(
    suite: SuiteResults, cells: Sequence[Cell], world: Sequence[WorldCell], out: Path, figures: Path
) -> str:
    """The lines: what was run, what became of printed numbers, each method against the baseline,
    and where tables, figures and page are."""
    systems = {run.plan.text for run in suite.runs}
    made = [run.provenance for run in suite.runs if run.provenance]
    trained = [origin for origin in made if origin["run"]["trained"]]
    seeds = {origin["run"]["seed"] for origin in trained}
    seconds = [origin["seconds"] + (origin["outcome"].get("seconds") or 0) for origin in made]
    parts = [
        counted(len(systems), "system"),
        counted(len(seeds), "seed"),
        counted(len(trained), "training"),
        f"{sum(seconds) / 60:.1f} minutes of computing",
    ]
    lines = [f"{suite.plan.suite}: {', '.join(parts)}. {suite.partial}".rstrip()]
    if world:
        counts = Counter(WORDS[cell.verdict.kind] for cell in world)
        lines.append(f"{counted(len(world), 'score')} of the embedded world: {_listed(counts)}")
    counts = Counter(cell.ours.verdict.kind for cell in cells)
    lines.append(f"{counted(len(cells), 'printed number')} of papers: {_listed(counts)}")
    if suite.plan.baseline:
        with suppress(NothingToCompare):
            lines += _compared(suite)
    lines += [
        f"tables:  {out / 'tables'}/   (sts.md is the suite's own)",
        f"figures: {figures}/",
        f"page:    {out / 'report' / 'index.html'}",
    ]
    return "\n".join(lines) + "\n"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in counts.most_common())


def _compared(suite: SuiteResults) -> list[str]:
    """Each method against the baseline on the first board, by backbone and word."""
    frame, _ = against(suite, suite.plan.baseline)
    board = frame["board"].iloc[0]
    rows = frame[(frame["board"] == board) & (frame["task"] == suite.boards[board].overall)]
    title = f"{baseline_name(suite, frame)}, {suite.planned(board).title}"
    lines = [f"against {title}, paired by seed:"]
    for (backbone, word), group in rows.groupby(["backbone", "verdict"], sort=False):
        texts = []
        for row in group.sort_values("difference", ascending=False).to_dict("records"):
            width = "" if pd.isna(row["half_width"]) else f" ± {row['half_width']:.1f}"
            texts.append(f"{row['name']} {row['difference']:+.1f}{width}")
        start = f"  {backbone}, {word}: "
        lines += wrap("; ".join(texts), WIDTH, initial_indent=start, subsequent_indent="    ")
    return lines
