"""What a suite has beside print: every printed table with our scores, and tables over all of
them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from bench.datasets.tasks import Board
from bench.judge.order import orders, row_averages
from bench.judge.reproduction import Cell, deviations_from_print, frame, points, select
from bench.judge.statistics import mean_and_sd
from bench.judge.verdict import VERDICT_MEANINGS, VERDICT_SYMBOLS
from bench.judge.world import WORDS, WorldCell
from bench.report.formats import csv, score_text, with_interval, write_table
from bench.report.printed_table import captioned, in_lines, legend, printed_tables
from bench.reported import paper_name, quoted
from bench.results.suite_results import SuiteResults
from bench.utils.files import write_text


def verdict_counts(cells: Iterable[Cell]) -> dict[str, int]:
    """How many numbers have each verdict, in the order of `VERDICT_SYMBOLS`, without zeros."""
    counts = Counter(cell.ours.verdict.kind for cell in cells)
    return {kind: counts[kind] for kind in VERDICT_SYMBOLS if counts[kind]}


def in_short(cells: Sequence[Cell]) -> str:
    """What became of printed numbers, in a line: how many have each verdict, and, if none can be
    compared, the reason that most of them have."""
    parts = [f"{count} {kind}" for kind, count in verdict_counts(cells).items()]
    verdicts = [cell.ours.verdict for cell in cells]
    reasons = Counter(line.reason for line in verdicts if line.kind == "not comparable")
    if reasons and not any(cell.is_comparable for cell in cells):
        parts[0] += f" ({reasons.most_common(1)[0][0].partition(';')[0]})"
    papers = {cell.number.source for cell in cells}
    return f"{len(cells)} numbers of {len(papers)} papers: {', '.join(parts)}"


def world_in_short(cells: Sequence[WorldCell]) -> str:
    """How many scores have each verdict beside the world's own numbers, in a line."""
    counts = Counter(WORDS[cell.verdict.kind] for cell in cells)
    parts = [f"{count} {word}" for word, count in counts.most_common()]
    return f"{len(cells)} scores of the embedded world: {', '.join(parts)}"


ORDER_CAPTION = (
    "Kendall's tau-b of printed and measured averages with its 95 % bootstrap interval over the "
    "seeds: 1 if the order of the rows is that of print, -1 if it is reversed; expected: what "
    "95 % of tables would reach if print were one run of ours in each row; n: the fewest seeds of "
    "a trained row"
)
AVERAGES_CAPTION = (
    "printed averages with ours (mean ± standard deviation over n seeds): rank of print among "
    "print and our seeds, 1 if no seed is higher; expected best of five seeds; CV* of print and "
    f"our seeds in percent. ? inconclusive: {VERDICT_MEANINGS['inconclusive']}; ≈ consistent: "
    f"{VERDICT_MEANINGS['consistent']}"
)


def shown_orders(suite: SuiteResults, orders: pd.DataFrame) -> pd.DataFrame:
    """`bench.judge.order.orders` as texts."""
    return pd.DataFrame({
        "Table": f"{paper_name(row.source)}, {row.table}"
        if row.source
        else f"All papers, {suite.boards[row.board].title}",
        "Backbone": row.backbone + (", dev" if row.split == "dev" else ""),
        "Rows": str(row.rows),
        "n": "–" if pd.isna(row.seeds) else str(row.seeds),
        "tau": with_interval(row.tau, row.low, row.high),
        "Expected": score_text(row.expected, nan),
    } for row in orders.itertuples())  # fmt: skip


def shown_averages(cells: Iterable[Cell]) -> pd.DataFrame:
    """`row_averages` that have scores of ours as texts."""
    lines = []
    for cell in cells:
        number, ours = cell.number, cell.ours
        lines.append({
            "Table": f"{paper_name(number.source)}, {number.table}",
            "Backbone": number.backbone,
            "Method": number.method,
            "Variant": number.variant,
            "Score": " ".join(filter(None, [number.task, number.split])),
            "Print": score_text(number.value, nan),
            "Ours": score_text(ours.mean, ours.sd),
            "n": str(ours.n),
            "Rank": f"{cell.rank} of {ours.n + 1}" if cell.rank else "–",
            "Best of 5": score_text(cell.best_of_five, nan),
            "CV*": score_text(cell.cv, nan),
            "Verdict": f"{ours.verdict.mark} {ours.verdict.kind}",
        })  # fmt: skip
    return pd.DataFrame(lines)


class Summary(NamedTuple):
    """A table over all printed tables."""

    stem: str  # of its file names
    title: str
    caption: str
    numbers: pd.DataFrame
    shown: pd.DataFrame  # texts


def summaries(suite: SuiteResults, cells: Sequence[Cell]) -> list[Summary]:
    """The tables `order` and `averages`, and quoted scores; without those that have nothing of ours
    which can be compared with print."""
    averages, order = [cell for cell in row_averages(cells) if cell.scores], orders(suite, cells)
    tables = []
    if len(order):
        shown = shown_orders(suite, order)
        tables.append(Summary("order", "Order of rows", ORDER_CAPTION, order, shown))
    if averages:
        shown, numbers = shown_averages(averages), frame(averages)
        tables.append(Summary("averages", "Averages", AVERAGES_CAPTION, numbers, shown))
    for board in suite.boards.values():
        table = quoted_table(suite, board)
        if table["Line"].str.startswith("ours").any():
            about = f"quoted_{board.name}", f"Quoted scores: {board.family}", QUOTED_CAPTION
            tables.append(Summary(*about, table, table))
    return tables


QUOTED_CAPTION = (
    "scores of methods of other papers, as printed in the place that is named, and ours below "
    "(mean ± standard deviation over n seeds). These papers are not among those that are "
    "reproduced here, so there are no verdicts"
)


def quoted_table(suite: SuiteResults, board: Board) -> pd.DataFrame:
    """The quoted scores of a board as texts: a line per quoted row, followed by ours, if it can be
    compared."""
    tasks = *board.tasks, "Avg"
    lines: list[dict[str, str]] = []
    for row in quoted(board.name).to_dict("records"):
        runs = [
            run
            for run in select(suite, row["run"], row["backbone"])
            if not deviations_from_print(run, row["backbone"], board.metric)
        ]
        line = {"Backbone": row["backbone"], "Method": row["name"]}
        more = {"Line": "quoted", "Quoted from": row["quoted_from"]}
        lines.append(line | more | {task: row[task] for task in tasks})
        ours = {task: points(runs, board, task) for task in tasks}
        most = max(map(len, ours.values()))
        if most:
            line["Line"] = f"ours, {row['run'].partition('@')[2]}, n = {most}"
            lines.append(line | {task: score_text(*mean_and_sd(ours[task])) for task in tasks})
    columns = ["Backbone", "Method", "Line", *tasks, "Quoted from"]
    return pd.DataFrame(lines, columns=columns, dtype=object).fillna("")


WORLD_CAPTION = (
    "scores beside those of the reference machine (docs/portability.md): they say whether the code "
    "computes what it did, and nothing about a method. Furthest: the distance in points of the "
    "score that is the furthest away in tolerances"
)


def world_table(cells: Sequence[WorldCell]) -> Summary:
    """The world's own numbers: a line for each run."""
    numbers = pd.DataFrame({
        "run": cell.run.text,
        "backbone": cell.run.backbone,
        "seed": cell.run.seed,
        "task": cell.task,
        "metric": cell.metric,
        "number": cell.number,
        "score": cell.score,
        "tolerance": cell.tolerance,
        "verdict": WORDS[cell.verdict.kind],
        "reason": cell.verdict.reason,
    } for cell in cells).astype({"seed": "Int64"})  # fmt: skip
    distances = numbers["score"] - numbers["number"]
    shares = (distances / numbers["tolerance"]).abs().fillna(0)
    lines = []
    for (run, backbone, seed), rows in numbers.groupby(
        ["run", "backbone", "seed"], sort=False, dropna=False
    ):
        furthest = shares[rows.index].idxmax()
        counts = rows["verdict"].value_counts()
        distance, tolerance = distances[furthest], numbers["tolerance"][furthest]
        lines.append({
            "Run": run,
            "Backbone": backbone,
            "Seed": "–" if pd.isna(seed) else str(seed),
            "Scores": str(len(rows)),
            "Verdicts": ", ".join(f"{count} {word}" for word, count in counts.items()),
            "Furthest": f"{numbers['task'][furthest]} {distance:+.3f}, tolerance {tolerance:.2f}",
        })  # fmt: skip
    shown = pd.DataFrame(lines)
    return Summary("world", "The embedded world's own numbers", WORLD_CAPTION, numbers, shown)


def write_tables(
    suite: SuiteResults, cells: Sequence[Cell], world: Sequence[WorldCell], out: Path
) -> None:
    """Write the tables of a suite with these cells that have a number of ours which can be compared
    with print, in three formats, and `cells.csv`, which has every printed number."""
    write_text(out / "cells.csv", csv(frame(cells)))
    name = suite.plan.suite
    for summary in [*summaries(suite, cells), *([world_table(world)] if world else [])]:
        caption = f"Suite {name}: {summary.caption}. {suite.partial}".strip()
        write_table(out, name, summary.stem, summary.numbers, summary.shown, caption)
    for stem, table in printed_tables(cells).items():
        if table.is_comparable:
            numbers, shown = frame(table.cells), in_lines(table)
            write_table(out, name, stem, numbers, shown, captioned(suite, table), legend(table))
