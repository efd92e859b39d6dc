"""Test sentences that stand in the corpora of a plan (docs/protocol.md#contamination)."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from bench.datasets.contamination import contamination
from bench.datasets.corpora import read_sentences
from bench.evaluation.scoring import read_tasks
from bench.runs import paths
from bench.runs.plan import Plan


def report(plan: Plan) -> str:
    """A table of the shares of test sentences that stand in each corpus of a plan."""
    names = list(dict.fromkeys(task for run in plan.runs for task in run.tasks))
    tasks = read_tasks(names, paths.data_folder(plan.data))
    columns = {}
    # A corpus that is made of the data is written to this folder.
    with TemporaryDirectory(prefix="sentbench-") as folder:
        for name in dict.fromkeys(name for run in plan.runs for name in run.corpora):
            file = paths.corpus_file(name, Path(folder), plan.data)
            _, counts = contamination(tasks, [read_sentences(file)])
            table = pd.DataFrame(counts).T
            columns["test sentences"] = table["sentences"].map("{:,}".format)
            columns[name] = (table["seen"] / table["sentences"]).map("{:.2%}".format)
    if not columns:
        return f"{plan.suite} reads no corpus"
    shown = pd.DataFrame(columns).to_markdown(tablefmt="plain", stralign="right")
    return f"Distinct test sentences that stand in a corpus (docs/protocol.md):\n\n{shown}"
