"""Tables of scores for the terminal."""

from collections.abc import Mapping, Sequence

from bench.datasets.tasks import (
    CHINESE_TASKS,
    PROBING_TASKS,
    STS_TASKS,
    TRANSFER_TASKS,
    XPROBE_TASKS,
)
from bench.results.records import Record

GROUPS = [(*STS_TASKS, "Avg"), (*TRANSFER_TASKS, "Avg"), PROBING_TASKS, CHINESE_TASKS, XPROBE_TASKS]

Row = dict[str, float]  # scores by task


def score_tables(by_label: Mapping[str, Sequence[Record]]) -> str:
    """Tables by group of tasks (STS, transfer, probing, ...), as in the papers.

    One encoder has a table per group, with a row per metric and split; several have one per group
    and metric on the test split, with a row each.

    Args:
        by_label: records of each encoder by its label.
    """
    scored = dict.fromkeys(record["task"] for records in by_label.values() for record in records)
    grouped = {task for tasks in GROUPS for task in tasks}
    # Tasks that a data folder defines (`sts:NAME`, `probing:NAME`) come last.
    own_tasks = [task for task in scored if task not in grouped]
    tables = []
    for tasks in (*GROUPS, own_tasks):
        rows: dict[str, dict[str, Row]] = {}  # by title (metric, split, aggregation), by label
        for label, records in by_label.items():
            for title, row in _rows(records, tasks).items():
                rows.setdefault(title, {})[label] = row
        if len(by_label) > 1:
            # Without an aggregation: each test score, not the mean of its parts.
            tables += [_table(title, rows[title], tasks) for title in rows if title[-4:] == "test"]
        elif rows:
            (label,) = by_label
            tables.append(_table("", {title: rows[title][label] for title in rows}, tasks))
    return "\n\n".join(tables)


def _rows(records: Sequence[Record], tasks: Sequence[str]) -> dict[str, Row]:
    """The scores of an encoder on tasks, by metric, split and aggregation."""
    inside = [record for record in records if record["task"] in tasks]
    # The average of another group of tasks has another metric.
    metrics = {record["metric"] for record in inside if record["task"] != "Avg"}
    rows: dict[str, Row] = {}
    for record in inside:
        if record["metric"] in metrics:
            title = f"{record['metric']} {record['split']} {record['aggregation']}"
            row = rows.setdefault(title.removesuffix(" all"), {})
            row[record["task"]] = record["value"]
    return rows


def _table(title: str, rows: Mapping[str, Row], tasks: Sequence[str]) -> str:
    """Rows of scores under their tasks; tasks without a score are left out."""
    columns = [task for task in tasks if any(task in row for row in rows.values())]
    margin = max(len(name) for name in (title, *rows)) + 1
    widths = {task: max(8, len(task) + 2) for task in columns}
    lines = [title.ljust(margin) + "".join(task.rjust(widths[task]) for task in columns)]
    for name, row in rows.items():
        texts = [f"{row[task]:.2f}" if task in row else "" for task in columns]
        cells = [text.rjust(widths[task]) for task, text in zip(columns, texts, strict=True)]
        lines.append(name.ljust(margin) + "".join(cells))
    return "\n".join(lines)
