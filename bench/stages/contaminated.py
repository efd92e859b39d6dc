"""Contamination of a run, and of all runs of a plan (docs/protocol.md#contamination)."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from bench.datasets.contamination import contamination
from bench.datasets.corpora import read_sentences
from bench.evaluation.scoring import Task, read_tasks
from bench.runs import paths
from bench.runs.plan import Plan
from bench.runs.run import Run


def of_run(
    run: Run, suite: Path, tasks: Sequence[Task]
) -> tuple[frozenset[str], dict[str, dict[str, int]]]:
    """`contamination` by the corpora that a run reads; nothing is counted if it reads none."""
    if not run.corpora:
        return frozenset(), {}
    limits = {run.corpus: run.recipe.sentences}
    texts = (
        read_sentences(paths.corpus_file(name, suite, run.data), limits.get(name))
        for name in run.corpora
    )
    return contamination(tasks, texts)


def report(plan: Plan) -> str:
    """A table of the shares of test sentences that stand in each corpus of a plan."""
    names = list(dict.fromkeys(task for run in plan.runs for task in run.tasks))
    tasks = read_tasks(names, paths.data_folder(plan.data))
    columns = {}
    with TemporaryDirectory(prefix="sentbench-") as folder:
        for name in dict.fromkeys(name for run in plan.runs for name in run.corpora):
            file = paths.corpus_file(name, Path(folder), plan.data)
            _, counts = contamination(tasks, [read_sentences(file)])
            columns["test sentences"] = {task: f"{n['sentences']:,}" for task, n in counts.items()}
            columns[name] = {
                task: f"{n['seen'] / n['sentences']:.2%}" for task, n in counts.items()
            }
    table = pd.DataFrame(columns).to_markdown(tablefmt="plain", stralign="right")
    return f"Distinct test sentences that stand in a corpus (docs/protocol.md):\n\n{table}"
