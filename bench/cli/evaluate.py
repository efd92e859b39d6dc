"""Commands that score any encoder, and that confirm or cross-check scores."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from bench.cli.parameters import (
    DATA,
    Mode,
    OptionalSuite,
    Tasks,
    arg,
    command,
    one_of,
    opt,
    read_tasks,
)
from bench.datasets.tasks import (
    CHINESE_TASKS,
    PROBING_TASKS,
    STS_TASKS,
    TRANSFER_TASKS,
    XPROBE_TASKS,
)
from bench.utils.errors import UserError, counted


@command("check-method")
def check_method(file: Annotated[Path, arg("A file with methods.", "FILE.py")]) -> int:
    """Check a file of methods against their contract.

    Prints one line per clause. The exit status is 1 if one does not hold.
    """
    from bench.checks.method_contract import check

    faults = check(file)
    print(counted(faults, "fault") if faults else "all hold")
    return int(faults > 0)


GROUPS = [(*STS_TASKS, "Avg"), (*TRANSFER_TASKS, "Avg"), PROBING_TASKS, CHINESE_TASKS, XPROBE_TASKS]

Row = dict[str, float]  # scores by task


def score_tables(by_label: Mapping[str, Sequence[dict[str, Any]]]) -> str:
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
            inside = [record for record in records if record["task"] in tasks]
            # The average of another group of tasks has another metric.
            metrics = {record["metric"] for record in inside if record["task"] != "Avg"}
            for record in inside:
                if record["metric"] in metrics:
                    title = f"{record['metric']} {record['split']} {record['aggregation']}"
                    by_title = rows.setdefault(title.removesuffix(" all"), {})
                    by_title.setdefault(label, {})[record["task"]] = record["value"]
        if len(by_label) > 1:
            # Without an aggregation: each test score, not the mean of its parts.
            tables += [_table(title, rows[title], tasks) for title in rows if title[-4:] == "test"]
        elif rows:
            (label,) = by_label
            tables.append(_table("", {title: rows[title][label] for title in rows}, tasks))
    return "\n\n".join(tables)


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


@command()
def evaluate(
    model: Annotated[
        list[str],
        arg(
            "Hub id, folder (Hugging Face, sentence-transformers, or of a run), or "
            "module:function. Several may have options of their own: "
            "MODEL[pooler=avg,prompt=query,normalize].",
            "MODEL",
        ),
    ],
    out: Annotated[Path, opt("FILE.json for the records of one model, or a folder.", "PATH")],
    pooler: Annotated[str | None, opt("Needed if the model stores no pooler.", "NAME")] = None,
    prompt: Annotated[str | None, opt("One of the model's; '' for none.", "NAME")] = None,
    normalize: Annotated[bool, opt("Scale vectors to length 1.", name="--normalize")] = False,
    tasks: Tasks = ["sts"],
    mode: Mode = "test",
    data: Annotated[str, opt(f"{DATA}.", "NAME")] = "senteval",
) -> int:
    """Score one or more encoders, print a table and write records."""
    from bench.evaluation import scoring
    from bench.models.load import Model
    from bench.runs import paths
    from bench.stages import jobs
    from bench.stages.device import lease

    common = Model("", pooler, prompt, normalize)
    models = [Model.read(word, common) for word in model]
    if len(models) == 1:  # score_models checks each of several
        models[0].check()
    is_file = out.suffix == ".json" and len(models) == 1
    folder = paths.data_folder(data)  # after the check, since it may download
    task_names = read_tasks(tasks)
    with lease() as device:
        if is_file:
            read = scoring.read_tasks(task_names, folder)
            records = jobs.evaluate(models[0], read, mode, folder, out, device)
            print(score_tables({models[0].label: records}))
            return 0
        by_label, errors = jobs.score_models(models, task_names, mode, folder, out, device)
    if by_label:
        print(score_tables(by_label))
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    return 2 if errors else 0


@command()
def verify(
    result: Annotated[list[Path], arg("A file of scores, of a suite or of evaluate.", "RESULT")],
    suite: OptionalSuite = None,
    data: Annotated[str | None, opt("The data, if not where RESULT says.", "NAME")] = None,
    device: Annotated[str | None, opt("By default a free GPU.", **one_of(["cpu", "cuda"]))] = None,
) -> int:
    """Recompute results from their encoders and compare.

    --suite names the folder with the run's encoder if RESULT is not in it. The exit status is 0 if
    all results are confirmed, 1 if one is not, and 2 if one cannot be recomputed.
    """
    from contextlib import nullcontext

    from bench.checks.verify import verify as verify_result
    from bench.stages.device import lease

    status = 0
    with nullcontext("cpu") if device == "cpu" else lease() as leased:
        if device == "cuda" and leased == "cpu":
            raise UserError("no GPU is visible; leave --device out, or write --device cpu")
        for path in result:
            try:
                verified = verify_result(path, suite, data, leased)
                print(verified.report(), flush=True)
                status = max(status, int(not verified.confirmed))
            except UserError as error:  # the other results are still verified
                print(f"error: {error}", file=sys.stderr)
                status = 2
    return status
