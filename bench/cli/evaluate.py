"""Commands that score any encoder, and that confirm or cross-check scores."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from textwrap import TextWrapper
from typing import Annotated, Any

from bench.cli.parameters import (
    DATA_HELP,
    Mode,
    OptionalSuite,
    Tasks,
    arg,
    command,
    one_of,
    opt,
    parse_tasks,
)
from bench.datasets.metrics import PROBE_SEED, check_probe_seeds
from bench.datasets.tasks import AVERAGED, GROUPS
from bench.utils.errors import UserError, warn
from bench.utils.files import stem


@command("check-method")
def check_method(file: Annotated[Path, arg("A file with methods.", "FILE.py")]) -> int:
    """Check a file of methods against the contract.

    Prints one line per clause up to the first that does not hold; the exit status is then 1.
    """
    from bench.checks.method_contract import check_contract

    return check_contract(file)


TABLES = [
    (*tasks, "Avg") if tasks in AVERAGED.values() else tasks
    for name, tasks in GROUPS.items()
    if name != "all"
]
KEYS = ["model", "task", "split", "metric", "aggregation"]  # of a score
# A long name in the terminal. A path is not broken.
_NAMES = TextWrapper(60, break_on_hyphens=False, break_long_words=False)
# Of the table, and what tabulate calls them.
FORMATS = {"plain": "plain", "markdown": "pipe", "latex": "", "csv": ""}


def score_tables(
    by_label: Mapping[str, Sequence[dict[str, Any]]],
    form: str = "plain",
) -> str:
    """Tables by group of tasks (STS, transfer, probing, ...), as in the papers.

    One encoder has a table per group, with a row per metric and split; several have one per group
    and metric on the test split, with a row each, and so have statistics over seeds of the
    classifiers. CSV has a line per score, with all digits. `by_label` has the records of each
    encoder; `form` is one of `FORMATS`.
    """
    import pandas as pd

    from bench.report.formats import csv, latex, markdown_text, text_table

    lines = [{"model": label} | record for label, records in by_label.items() for record in records]
    scores = pd.DataFrame(lines)
    if form == "csv":
        return csv(scores[[*KEYS, "value"]]).strip()
    scores = pd.concat([scores, _statistics(scores)])
    scores = scores[~scores["aggregation"].str.contains(PROBE_SEED)]
    titles = scores["metric"] + " " + scores["split"] + " " + scores["aggregation"]
    scores = scores.assign(title=titles.str.removesuffix(" all"))
    by, row = "model", "title"
    if scores["model"].nunique() > 1:
        # Each test score, not the mean of its parts.
        by, row, scores = row, by, scores[scores["title"].str.endswith("test")]
    # Tasks that a data folder defines (`sts:NAME`, `probing:NAME`) come last.
    own_tasks = scores["task"][~scores["task"].isin(chain(*TABLES))].unique()
    tables = []
    for tasks in (*TABLES, own_tasks):
        group = scores[scores["task"].isin(tasks)]
        # The average of another group of tasks has another metric.
        group = group[group["metric"].isin(group["metric"][group["task"] != "Avg"])]
        for title, part in group.groupby(by, sort=False):
            table = part.pivot_table("value", row, "task", sort=False).rename_axis(title)
            table = table[[task for task in tasks if task in table]].map("{:.2f}".format)
            table = table.replace("nan", "")
            if form == "latex":
                rows = table.rename_axis("").reset_index().to_dict("records")
                label = stem(f"{title}-{tasks[0]}")
                shown = text_table(rows, tasks)
                tables.append(latex(shown, f"Scores in points: {title}", label))
                continue
            written = markdown_text if form == "markdown" else _NAMES.fill
            table.index = table.index.map(written)
            text = table.rename_axis(written(title)).to_markdown(
                tablefmt=FORMATS[form],
                disable_numparse=True,
                colalign=["left", *["right"] * len(table.columns)],
            )
            tables.append(text)
    return "\n\n".join(tables)


def _statistics(scores: Any) -> Any:
    """Mean, standard deviation, least and greatest of each score over seeds of the classifiers."""
    probed = scores.assign(
        model=scores["model"] + ", classifier seeds",
        aggregation=scores["aggregation"].str.replace(f"{PROBE_SEED}.*", "all", regex=True),
    )
    cells = probed.groupby(KEYS, sort=False)["value"]
    statistics = cells.agg(["mean", "std", "min", "max"])[cells.size() > 1]
    lines = statistics.rename_axis(columns="statistic").stack().reset_index(name="value")
    lines["model"] += ", " + lines["statistic"]
    return lines


@command()
def evaluate(
    model: Annotated[
        list[str],
        arg(
            "Hub id, folder (Hugging Face, sentence-transformers, or of a run), or "
            "module:function. Several may have options of their own: "
            "MODEL[pooler=avg,prompt=query,normalize] (docs/encoders.md).",
            "MODEL",
        ),
    ],
    out: Annotated[
        Path | None, opt("FILE.json for the records of one model, or a folder.", "PATH")
    ] = None,
    form: Annotated[str, opt("Of the table.", name="--format", **one_of(list(FORMATS)))] = "plain",
    pooler: Annotated[str | None, opt("Needed if the model stores no pooler.", "NAME")] = None,
    prompt: Annotated[str | None, opt("One of the model's; '' for none.", "NAME")] = None,
    normalize: Annotated[bool, opt("Scale vectors to length 1.", name="--normalize")] = False,
    template: Annotated[str | None, opt("Text around '<sentence>' (docs/encoders.md).")] = None,
    dims: Annotated[int | None, opt("Keep only the first dimensions of vectors.", min=1)] = None,
    dtype: Annotated[
        str, opt("Of weights and states.", **one_of(["float32", "bfloat16"]))
    ] = "float32",
    tasks: Tasks = ["sts"],
    mode: Mode = "test",
    probe_seeds: Annotated[
        list[int], opt("Score again with classifiers of these seeds.", "N ...")
    ] = [],
    data: Annotated[str, opt(f"{DATA_HELP}.", "NAME")] = "senteval",
) -> int:
    """Score one or more encoders, print a table and write records.

    Without --out nothing is written, and an interrupted evaluation starts again.
    """
    from tempfile import TemporaryDirectory

    from bench.evaluation import scoring
    from bench.models.model import Model
    from bench.runs import paths
    from bench.stages import jobs
    from bench.stages.device import lease

    check_probe_seeds(probe_seeds)
    common = {
        "pooler": pooler, "prompt": prompt, "normalize": normalize, "template": template,
        "dims": dims, "dtype": dtype,
    }  # fmt: skip
    models = [member for word in model for member in Model.read(word, common)]
    for known in models:  # before data are downloaded, and before hours of encoding
        known.check()
    task_names, errors = parse_tasks(tasks), list[str]()
    folder = paths.data_folder(data)
    with lease() as device, TemporaryDirectory(prefix="sentbench-") as temporary:
        out = out or Path(temporary, "scores.json" if len(models) == 1 else "")
        if out.suffix == ".json" and len(models) == 1:
            read = scoring.read_tasks(task_names, folder)
            records = jobs.evaluate(models[0], read, mode, folder, out, device, probe_seeds)
            by_label = {models[0].label: records}
        else:
            by_label, errors = jobs.score_models(
                models, task_names, mode, folder, out, device, probe_seeds
            )
    if by_label:
        print(score_tables(by_label, form))
    for error in errors:
        warn(f"error: {error}")
    return 2 if errors else 0


@command()
def verify(
    result: Annotated[
        list[Path],
        arg("A file of scores, of a suite or of evaluate; or a suite, for its rows.", "RESULT"),
    ],
    suite: OptionalSuite = None,
    data: Annotated[str | None, opt("The data, if not where RESULT says.", "NAME")] = None,
) -> int:
    """Recompute scores from their encoders, or rows from their scores, and compare.

    --suite names the folder with the run's encoder if RESULT is not in it. The exit status is 0 if
    all results are confirmed, 1 if one is not, and 2 if one cannot be recomputed.
    """
    from bench.checks.verify import verify as verify_result
    from bench.judge.stage import is_confirmed
    from bench.stages.device import lease

    status = 0
    with lease() as device:
        for path in result:
            try:
                if path.is_dir():
                    confirmed = is_confirmed(path)
                    others = "not confirmed: judging gives other rows; remove its judged.json"
                    print(f"{path}: {'confirmed' if confirmed else others}")
                else:
                    verified = verify_result(path, suite, data, device)
                    confirmed = verified.confirmed
                    print(verified.report(), flush=True)
                status = max(status, int(not confirmed))
            except UserError as error:  # the other results are still verified
                warn(f"error: {error}")
                status = 2
    return status
