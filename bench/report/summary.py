"""The findings of a suite, in some ten lines for the terminal."""

from collections import Counter
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from textwrap import TextWrapper, wrap

from bench.judged.rows import NO_BACKBONE, Judged, grouped
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
    lines.append(f"tables:  {out / 'tables'}/   (sts.md is the suite's own)")
    lines.append(f"figures: {figures}/")
    lines.append(f"page:    {out / 'report' / 'index.html'}\n")
    return "\n".join(lines)


def _differences(judged: Judged) -> list[str]:
    """Each method minus the baseline on the first board, by backbone and word."""
    board = judged.suite.board(judged.pairs[0].board)
    planned, of_board = board.planned, (board.name, board.overall)
    if board.overall != "Avg":
        planned = replace(planned, subject=board.overall)
    pairs = greatest_first(pair for pair in judged.pairs if (pair.board, pair.task) == of_board)
    pairs.sort(key=attrgetter("backbone", "verdict"))
    labels = Counter((pair.backbone, pair.plain_label) for pair in pairs)
    over = "over the test items" if by_items(pairs) else "paired by seed"
    title = f"{judged.suite.baseline_name}, {planned.title}, {over}"
    lines = [f"against {title}, words after Holm's correction:"]
    for same in grouped(pairs, attrgetter("backbone", "verdict")):
        backbone, texts = same[0].backbone, []
        for pair in same:
            # Two settings of a method have one label.
            is_clear = labels[backbone, pair.plain_label] == 1
            name = pair.plain_label if is_clear else pair.name
            texts.append(f"{name} {difference_text(pair.difference, pair.half_width, 1)}")
        where = "" if backbone == NO_BACKBONE else f"{backbone}, "
        lines += LINES.wrap(f"  {where}{same[0].verdict}: {'; '.join(texts)}")
    return lines
