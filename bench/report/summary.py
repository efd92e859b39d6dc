"""The findings of a suite, in some ten lines for the terminal."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from textwrap import TextWrapper, wrap

from bench.judged.rows import NO_BACKBONE, Judged, PairRow, grouped
from bench.report.comparison_table import greatest_first
from bench.report.formats import by_items, difference_text
from bench.report.tables import in_short, world_in_short
from bench.utils.errors import counted

LINES = TextWrapper(width=110, subsequent_indent="    ", break_on_hyphens=False)


def summary(judged: Judged, out: Path, figures: Path) -> str:
    """The runs, the fate of printed numbers, each method against the baseline, and where
    tables, figures and page are."""
    suite = judged.suite
    made = [run for run in judged.runs if run.status != "missing"]
    trained = [run for run in made if run.trained]
    seconds = sum((run.scoring_seconds or 0) + (run.seconds or 0) for run in made)
    parts = [
        counted(len({run.text for run in judged.runs}), "system"),
        counted(len({run.seed for run in trained}), "seed"),
        counted(len(trained), "training"),
        f"{seconds / 60:.1f} minutes of computing",
    ]
    lines = [f"{suite.suite}: {', '.join(parts)}. {suite.partial}".rstrip()]
    if judged.world:
        lines.append(world_in_short(judged.world))
    if any(number.ours.n for number in judged.numbers):
        lines += wrap(in_short(judged.numbers), LINES.width)
    if judged.pairs:
        lines += _differences(judged)
    lines += [
        f"tables:  {out / 'tables'}/   (sts.md is the suite's own)",
        f"figures: {figures}/",
        f"page:    {out / 'report' / 'index.html'}",
    ]
    return "\n".join(lines) + "\n"


def _differences(judged: Judged) -> list[str]:
    """Each method minus the baseline on the first board, by backbone and word."""
    board = judged.suite.board(judged.pairs[0].board)
    task, planned = board.overall, board.planned
    rows = [pair for pair in judged.pairs if (pair.board, pair.task) == (board.name, task)]
    measure = planned.title if task == "Avg" else replace(planned, subject=task).title
    over = "over the test items" if by_items(rows) else "paired by seed"
    title = f"{judged.suite.baseline_name}, {measure}, {over}"
    lines = [f"against {title}, words after Holm's correction:"]
    labels = Counter((pair.backbone, pair.plain_label) for pair in rows)

    def text(pair: PairRow) -> str:
        is_clear = labels[pair.backbone, pair.plain_label] == 1
        name = pair.plain_label if is_clear else pair.name
        return f"{name} {difference_text(pair.difference, pair.half_width, 1)}"

    def group(pair: PairRow) -> tuple[str, str]:
        return pair.backbone, pair.verdict

    for same in grouped(sorted(greatest_first(rows), key=group), group):
        first = same[0]
        where = "" if first.backbone == NO_BACKBONE else f"{first.backbone}, "
        lines += LINES.wrap(f"  {where}{first.verdict}: {'; '.join(map(text, same))}")
    return lines
