"""Whether the order of printed rows holds: Kendall's tau-b between printed and measured averages,
which is described and not judged."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from statistics import fmean

from bench.judge.statistics import kendall
from bench.judged.rows import BoardRow, NumberRow, OrderRow, grouped

FEWEST_ROWS = 3  # two rows have one order or the other


def orders(rows: Iterable[NumberRow], boards: Iterable[BoardRow]) -> list[OrderRow]:
    """How far the order of the printed rows holds, for each printed table and backbone, and for all
    papers together on each board and backbone; rows that cannot be compared with print, or
    diverged, are left out."""
    ranked = []
    for row in rows:
        verdict = row.ours.verdict
        if row.ranks and row.ours.n and verdict.is_comparable and verdict.kind != "diverged":
            ranked.append(row)
    order_rows: list[OrderRow] = []
    for group in grouped(ranked, attrgetter("source", "table", "backbone", "split", "metric")):
        source, table = group[0].source, group[0].table
        order_rows += _order(group, f"{group[0].paper}, {table}", source=source, table=table)
    for board in boards:
        whole = board.whole
        if whole.is_in_print(whole.overall):
            columns = ("test", whole.metric, whole.overall)
            of_board = [row for row in ranked if (row.split, row.metric, row.task) == columns]
            for group in grouped(of_board, attrgetter("backbone")):
                order_rows += _order(group, f"All papers, {whole.title}", board=whole.name)
    return order_rows


def _order(
    group: Sequence[NumberRow], title: str, board: str = "", source: str = "", table: str = ""
) -> list[OrderRow]:
    """The order of some rows, those compared with the same runs counted once; none with too few."""
    compared = attrgetter("run", "minus", "ours.measured_on", "our_split", "task", "aggregation")
    rows = [same[0] for same in grouped(group, compared)]
    if len(rows) < FEWEST_ROWS:
        return []
    printed = [row.value for row in rows]
    tau = kendall(printed, [fmean(row.ours.scores) for row in rows])
    seeds = [row.ours.n for row in rows if not row.ours.deterministic]
    return [
        OrderRow(
            title=title,
            source=source,
            table=table,
            board=board,
            backbone=rows[0].backbone,
            split=rows[0].split,
            metric=rows[0].metric,
            rows=len(rows),
            tau=tau,
            seeds=min(seeds, default=None),
        )
    ]
