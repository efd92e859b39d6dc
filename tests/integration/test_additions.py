"""A new metric, a new printed table and a new task are one entry each, and everything shows them.

The entries are put into a copy of the code, which shows a suite with scores of all three.
"""

import json
import re
import shutil
import sys

import pytest

from bench.datasets.tasks import STS_TASKS
from tests.support.programs import ROOT, ended
from tests.support.synthetic_suite import seeds, write_suite

METRIC = """
    "pair_alignment": Metric(
        QUANTITY,
        {"alignment_of_pairs": Printed("the alignment loss of the pairs of STS-B")},
        cell=("pairs", ""),
        analysis="alignment",
        value=lambda results: results["STS-B"]["all"]["pair_alignment"],
        tolerance=Tolerance(0.1, 0.1, "made up"),
    ),
"""
TASK = """
    Task("STS-X", "sts-x", PAIRS, "downstream/STS/X/{split}.csv", {"dev": 9, "test": 9}),
"""
TABLE = """source,table,method,backbone,variant,task,split,metric,value,quoted_from
sscl,Table 9,SimCSE,bert-base-uncased,,STS-X,test,spearman,66.10,
sscl,Table 9,SimCSE,bert-base-uncased,,pairs,,alignment_of_pairs,0.21,
"""
RECIPE = "\n  - {source: sscl, table: Table 9, run: simcse@official}\n"
ENTRIES = {
    "bench/datasets/metrics.py": ("\nMETRICS = {\n", METRIC),
    "bench/datasets/tasks.py": ("\n_TASKS = [\n", TASK),
    "bench/reported/recipes.yaml": ("\nentries:\n", RECIPE),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the code with one entry for each addition."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("bench", "methods", "config"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (anchor, entry) in ENTRIES.items():
        before, after = (tree / name).read_text(encoding="utf-8").split(anchor)
        text = before + anchor + entry.removeprefix("\n") + after
        (tree / name).write_text(text, encoding="utf-8")
    (tree / "bench" / "reported" / "sscl_table9_new.csv").write_text(TABLE, encoding="utf-8")
    alignment = {"STS-B": {"all": {"alignment": 0.3, "pair_alignment": 0.2, "uniformity": -2.0}}}
    rows = [dict.fromkeys((*STS_TASKS, "STS-X"), value) for value in (66.0, 66.1, 66.2)]
    more = {"tasks": ["sts", "STS-X"], "analyses": {"alignment": alignment}}
    suite = write_suite(tree / "suite", seeds("simcse", rows, **more))
    plan = json.loads((suite / "plan.json").read_text())
    for run in plan["runs"]:
        run["analyses"] = ["alignment"]
    (suite / "plan.json").write_text(json.dumps(plan))
    return tree


def sentbench(tree, *words):
    """The output of a command of the copy."""
    command = [sys.executable, "-m", "bench", *words]
    return ended(*command, cwd=tree, PYTHONPATH=str(tree), PYTHONSAFEPATH="1").stdout


def test_a_metric_a_table_and_a_task_are_shown_with_their_verdicts(tree):
    shown = sentbench(tree, "show", "sscl", "Table 9", "--suite", "suite")
    assert "Spearman x 100 and the alignment loss of the pairs of STS-B" in shown
    assert "66.10 ± 0.10" in shown
    assert "0.20 ± 0.00 =" in shown
    coverage = sentbench(tree, "coverage", "--suite", "suite")
    # Printed, measured, with recipe, planned, run.
    assert re.search(r"^ *sscl +Table 9( +2){5} ", coverage, re.MULTILINE)
    reproduced = sentbench(tree, "reproduce", "sscl", "Table 9", "--row", "SimCSE", "--dry-run")
    assert "STS-X" in reproduced
    assert "alignment" in reproduced
