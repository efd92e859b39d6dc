"""Test items that a plan reads before they are scored
(docs/reference/protocol.md#contamination)."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from bench.datasets.contamination import contamination
from bench.datasets.corpora import read_sentences
from bench.evaluation.scoring import read_tasks
from bench.runs.paths import Files
from bench.runs.plan import Plan
from bench.utils.documents import document


def report(plan: Plan) -> str:
    """A table, by task, of two shares of the test items: those that stand in the dev sets of the
    plan's trainings, and those with a sentence in each corpus."""
    selection = dict.fromkeys(name for run in plan.runs for name in run.selection)
    rows: dict[str, dict[str, str]] = {}
    # A corpus that is made of the data is written to this folder.
    with TemporaryDirectory(prefix="sentbench-") as folder:
        files = Files(Path(folder), plan.data)
        tasks = read_tasks([task for run in plan.runs for task in run.tasks], files.data)
        for name in dict.fromkeys(name for run in plan.runs for name in run.corpora):
            corpus = read_sentences(files.corpus(name))
            items = contamination(tasks, [corpus], selection, files.data)
            for task, (in_corpus, in_dev) in items.items():
                row = rows.setdefault(task, {})
                row |= {"test items": f"{len(in_dev):,}", "in the dev set": f"{in_dev.mean():.2%}"}
                row[name] = f"{in_corpus.mean():.2%}"
    if not rows:
        return f"{plan.suite} reads no corpus"
    table = pd.DataFrame(rows).T.to_markdown(tablefmt="plain", stralign="right")
    return (
        f"Test items that stand in the dev set ({', '.join(selection)}), and those with "
        f"a sentence in a corpus ({document('reference/protocol', 'contamination')}):\n\n{table}"
    )
