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


def tables(records: Sequence[Record]) -> str:
    """Return one table per group of tasks (STS, transfer, probing, ...), as in the papers."""
    grids = [_grid("", _cells(records, tasks), tasks) for tasks in _columns(records)]
    return "\n\n".join(filter(None, grids))


def compared(by_label: Mapping[str, Sequence[Record]]) -> str:
    """Return one table per metric on the test split, with a row per encoder.

    Args:
        by_label: records of each encoder by its label.
    """
    shown = {
        label: [record for record in records if record["split"] == "test"]
        for label, records in by_label.items()
    }
    blocks = []
    for tasks in _columns([record for records in shown.values() for record in records]):
        cells = {label: _cells(records, tasks) for label, records in shown.items()}
        for title in dict.fromkeys(title for lines in cells.values() for title in lines):
            if title.endswith("test"):  # the aggregation "all"
                lines = {label: rows[title] for label, rows in cells.items() if title in rows}
                blocks.append(_grid(title, lines, tasks))
    return "\n\n".join(blocks)


def _columns(records: Sequence[Record]) -> list[Sequence[str]]:
    """Return the tasks of each table; tasks that a data folder defines (`sts:NAME`, `probing:NAME`)
    come last."""
    known = [
        (*STS_TASKS, "Avg"),
        (*TRANSFER_TASKS, "Avg"),
        PROBING_TASKS,
        CHINESE_TASKS,
        XPROBE_TASKS,
    ]
    named = {task for tasks in known for task in tasks}
    scored = dict.fromkeys(record["task"] for record in records)
    return [*known, [task for task in scored if task not in named]]


def _cells(records: Sequence[Record], tasks: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return values by task, for each metric, split and aggregation."""
    metrics = {
        record["metric"]
        for record in records
        if record["task"] in tasks and record["task"] != "Avg"
    }
    lines: dict[str, dict[str, float]] = {}
    for record in records:
        if record["task"] in tasks and record["metric"] in metrics:
            words = [record["metric"], record["split"], record["aggregation"]]
            lines.setdefault(" ".join(word for word in words if word != "all"), {})[
                record["task"]
            ] = record["value"]
    return lines


def _grid(title: str, lines: Mapping[str, Mapping[str, float]], tasks: Sequence[str]) -> str:
    """Return lines of values under their tasks; tasks without a value are left out."""
    columns = [task for task in tasks if any(task in line for line in lines.values())]
    if not columns:
        return ""
    widths = [max(8, len(task) + 2) for task in columns]
    margin = max(map(len, (title, *lines))) + 1
    rows = [
        f"{title:{margin}}"
        + "".join(f"{task:>{width}}" for task, width in zip(columns, widths, strict=True))
    ]
    for name, line in lines.items():
        cells = (
            f"{line[task]:{w}.2f}" if task in line else " " * w
            for task, w in zip(columns, widths, strict=True)
        )
        rows.append(f"{name:{margin}}" + "".join(cells))
    return "\n".join(rows)
