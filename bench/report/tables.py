"""The tables of a suite beside the papers: every printed table with our scores, quoted scores, and
the numbers of the toy data."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mode
from typing import Any, NamedTuple

from bench.judged.rows import Judged, NumberRow, QuotedRow, WorldRow
from bench.judged.verdicts import TOY_VERDICTS
from bench.report.formats import (
    Frame,
    TextTable,
    csv,
    data_frame,
    reasons,
    score_text,
    text_table,
    write_table,
)
from bench.report.printed_table import captioned, in_lines, legend, printed_tables, verdicts_text
from bench.utils.documents import document
from bench.utils.files import write_text
from bench.utils.groups import grouped

# --- In a line ---


def in_short(numbers: Sequence[NumberRow]) -> str:
    """How many printed numbers have each verdict, in a line; where none can be compared, the reason
    that most of them have instead."""
    papers = len({number.source for number in numbers})
    start = f"{len(numbers)} numbers of {papers} papers"
    verdicts = [number.ours.verdict for number in numbers]
    causes = [verdict.reason for verdict in verdicts if verdict.kind == "not comparable"]
    if causes and not any(number.is_comparable for number in numbers):
        return f"{start}, none of which is comparable ({mode(causes).partition(';')[0]})"
    return f"{start}: {verdicts_text(numbers)}"


def world_in_short(world: Sequence[WorldRow]) -> str:
    """How many scores of the toy data have each verdict, in a line."""
    return f"{len(world)} scores of the toy data: {_world_counts(world)}"


def _world_counts(world: Sequence[WorldRow]) -> str:
    counts = Counter(TOY_VERDICTS[row.verdict.kind] for row in world)
    return ", ".join(f"{count} {word}" for word, count in counts.most_common())


# --- Printed numbers as a frame ---

_COPIED = (
    "source", "table", "method", "backbone", "variant", "task", "split", "metric", "quoted_from",
    "note", "aggregation",
)  # fmt: skip
# Column of cells.csv -> its place in a row. Programs of users read the columns, so their names and
# their order stay.
_PLACES = {
    "ours_split": "our_split", "printed": "value", "run": "run", "minus": "minus",
    "ours": "ours.scores", "n": "ours.n", "measured_on": "ours.measured_on",
    "deterministic": "ours.deterministic", "mean": "ours.mean", "sd": "ours.sd",
    "difference": "difference",
    "other_setting": "other.setting", "other": "other.scores", "other_n": "other.n",
    "other_mean": "other.mean", "other_sd": "other.sd", "checkpoint": "published",
    "checkpoint_mean": "checkpoint.mean", "tolerance": "ours.verdict.tolerance",
    "half_width": "ours.verdict.half_width", "mean_half_width": "ours.verdict.mean_half_width",
    "verdict": "ours.verdict.kind", "mark": "ours.verdict.mark", "reason": "ours.verdict.reason",
    "next_look": "ours.verdict.next_look", "within": "ours.verdict.within",
    "p": "ours.verdict.p", "p_adjusted": "ours.verdict.p_adjusted",
    "other_verdict": "other.verdict.kind", "other_mark": "other.verdict.mark",
    "other_reason": "other.verdict.reason", "checkpoint_verdict": "checkpoint.verdict.kind",
    "checkpoint_mark": "checkpoint.verdict.mark", "checkpoint_reason": "checkpoint.verdict.reason",
}  # fmt: skip
# Values of a row without the other setting or the checkpoint; in other columns an empty text.
_WITHOUT = {
    "other": (),
    "other_n": 0,
    "other_mean": None,
    "other_sd": None,
    "checkpoint_mean": None,
}


def _row(number: NumberRow) -> dict[str, Any]:
    """A printed number as a row of cells.csv."""
    row = {name: getattr(number, name) for name in _COPIED}
    for column, place in _PLACES.items():
        row[column] = number
        for name in place.split("."):
            # A row without another setting or a checkpoint has None there, which has no such field.
            row[column] = getattr(row[column], name, _WITHOUT.get(column, ""))
    return row


def number_frame(numbers: Iterable[NumberRow]) -> Frame:
    """The rows of cells.csv."""
    return data_frame([_row(number) for number in numbers], integers=["next_look"])


# --- Quoted scores, and the toy data ---


class Summary(NamedTuple):
    """A table that is no printed table."""

    stem: str  # of its file names
    title: str
    caption: str
    numbers: Frame
    table: TextTable


QUOTED_CAPTION = (
    "Scores of methods of other papers, as printed in the place that is named, and ours below "
    "(mean ± standard deviation over n seeds). These papers are not reproduced here, so there are "
    "no verdicts."
)
WORLD_CAPTION = (
    f"Scores beside the scores of the reference machine ({document('explanation/toy-data')}): "
    "they say whether the code computes the same as before, and nothing about a method. "
    "Furthest: the score with the largest difference, measured in its tolerance."
)


def shown_quoted(rows: Sequence[QuotedRow]) -> TextTable:
    """The quoted scores of a leaderboard: a line per quoted row, followed by a line of ours, if
    there are any."""
    lines: list[dict[str, str]] = []
    for row in rows:
        line = {"Backbone": row.backbone, "Method": row.name}
        lines.append(line | row.printed | {"Line": "quoted", "Quoted from": row.quoted_from})
        if row.n:
            texts = {score.task: score_text(score.mean, score.sd) for score in row.ours}
            lines.append(line | texts | {"Line": f"ours, {row.setting}, n = {row.n}"})
    columns = {"Backbone": False, "Method": False, "Line": False}
    columns |= dict.fromkeys(rows[0].printed, True)
    return TextTable(columns | {"Quoted from": False}, lines)


def summaries(judged: Judged) -> list[Summary]:
    """Quoted scores, a table for each leaderboard on which any of ours can be compared with
    them."""
    tables = []
    for quoted in grouped(judged.quoted, "leaderboard"):
        if any(row.n for row in quoted):
            leaderboard, table = (
                judged.suite.leaderboard(quoted[0].leaderboard),
                shown_quoted(quoted),
            )
            title = f"Quoted scores: {leaderboard.whole.family}"
            frame = data_frame(table.texts, [*table.columns])
            tables.append(
                Summary(f"quoted_{leaderboard.name}", title, QUOTED_CAPTION, frame, table)
            )
    return tables


def world_table(world: Sequence[WorldRow]) -> Summary:
    """The numbers of the toy data: a line for each run."""
    numbers = [
        dict(row) | {"verdict": TOY_VERDICTS[row.verdict.kind], "reason": row.verdict.reason}
        for row in world
    ]
    lines = []
    for rows in grouped(world, "run", "backbone", "seed"):
        furthest = max(rows, key=_distance)
        where = "–"
        if furthest.score is not None:
            difference = furthest.score - furthest.number
            where = f"{furthest.task} {difference:+.3f}, tolerance {furthest.tolerance:.2f}"
        lines.append({
            "Run": rows[0].run,
            "Backbone": rows[0].backbone,
            "Seed": score_text(rows[0].seed, digits=0),
            "Scores": str(len(rows)),
            "Verdicts": _world_counts(rows),
            "Furthest": where,
        })  # fmt: skip
    table = text_table(lines, ("Seed", "Scores"))
    frame = data_frame(numbers, integers=["seed"])
    return Summary("world", "The numbers of the toy data", WORLD_CAPTION, frame, table)


def _distance(row: WorldRow) -> float:
    """The distance from the reference machine's score in tolerances; -1 without a score."""
    return -1.0 if row.score is None else abs(row.score - row.number) / row.tolerance


def write_tables(judged: Judged, out: Path) -> None:
    """Write `cells.csv`, which has every printed number, and in three formats the printed tables
    with a comparable number of ours, the quoted scores and the numbers of the toy data. Most
    printed tables of a small suite would hold printed values alone."""
    write_text(out / "cells.csv", csv(number_frame(judged.numbers)))
    name, partial = judged.suite.suite, judged.suite.partial
    tables = summaries(judged)
    if judged.world:
        tables.append(world_table(judged.world))
    for summary in tables:
        caption, notes = f"Suite {name}: {summary.title}", [summary.caption, partial]
        write_table(out, name, summary.stem, summary.numbers, summary.table, caption, *notes)
    for stem, table in printed_tables(judged.numbers).items():
        if table.is_comparable:
            captions = [*captioned(judged.suite, table), legend(table)]
            numbers, why = number_frame(table.numbers), reasons(rows=table.rows)
            write_table(out, name, stem, numbers, in_lines(table), *captions, why=why)
