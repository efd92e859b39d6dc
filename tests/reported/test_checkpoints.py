"""Numbers quoted from a published checkpoint: a second, deterministic line beside the trained."""

import pytest

from bench.comparison.reproduction import judge
from bench.datasets.tasks import STS_TASKS, TRANSFER_TASKS
from bench.report.page import facts
from bench.reported import LABEL
from bench.results.suite_results import read_suite
from bench.runs import config
from bench.runs.resolve import resolve
from tests.support.cells import cells
from tests.support.printed_numbers import mapped
from tests.support.synthetic_suite import write_suite

BASE = "bert-base-uncased"
MODEL = "published"  # its default is SimCSE's checkpoint of bert-base-uncased
# SimCSE on bert-base as printed (Gao et al. 2021, Table 5).
PRINTED = dict(zip(STS_TASKS, (68.40, 82.41, 74.38, 80.91, 78.56, 76.85, 72.23), strict=True))
PRINTED |= {"Avg": 76.25}


def scored(off=0.0, **more):
    """The run of the checkpoint, every score `off` from print."""
    scores = {task: value + off for task, value in PRINTED.items()}
    return {"method": MODEL, "setting": "paper", "backbone": "none", "scores": scores, **more}


def quoted_cells(folder, *runs):
    frame = cells(read_suite(write_suite(folder, runs)))
    return frame[frame["checkpoint"] == f"{MODEL}@paper"]


@pytest.mark.parametrize(
    ("off", "average", "task"),
    [
        (0.02, "reproduced", "reproduced"),
        (-0.02, "reproduced", "reproduced"),
        (0.03, "higher", "reproduced"),
        (-0.05, "lower", "lower"),
    ],
)
def test_a_checkpoint_scores_what_is_printed(tmp_path, off, average, task):
    found = quoted_cells(tmp_path, scored(off)).query("metric == 'spearman'")
    rows = found.groupby(found["task"] == "Avg")["checkpoint_verdict"].unique()
    assert (list(rows[True]), list(rows[False])) == ([average], [task])
    difference = found["checkpoint_mean"] - found["printed"]
    assert difference.tolist() == pytest.approx([off] * len(found))
    assert set(found["verdict"]) == {"not run"}  # nothing was trained


def test_accuracies_go_by_the_tolerance_of_transfer(tmp_path):
    """IS-CSE prints 81.18 for MR and 89.8 for TREC, which has 500 items only."""
    accuracy = {"metric": "accuracy", "aggregation": "all"}
    values = {"MR": 81.18 - 0.4, "TREC": 89.8 - 0.9}
    records = [accuracy | {"task": task, "value": value} for task, value in values.items()]
    found = quoted_cells(tmp_path, scored(records=records)).query("metric == 'accuracy'")
    found = found.set_index("task")["checkpoint_verdict"]
    assert set(TRANSFER_TASKS) | {"Avg"} == set(found.index)
    assert (found["MR"], found["TREC"], found["CR"]) == ("lower", "reproduced", "not run")


@pytest.mark.parametrize(
    ("runs", "verdict", "reason"),
    [
        ([], "not run", "no scores in this suite"),
        ([scored(scores={}, status="skipped", reason="no weights")], "not run", "no weights"),
        ([scored(data="mine")], "not comparable", "scored on mine"),
    ],
)
def test_what_cannot_be_judged_says_why(tmp_path, runs, verdict, reason):
    found = quoted_cells(tmp_path, *runs).query("metric == 'spearman'")
    assert set(found["checkpoint_verdict"]) == {verdict}
    assert set(found["checkpoint_reason"]) == {reason}


def test_the_page_shows_it(tmp_path):
    judged = judge(read_suite(write_suite(tmp_path, [scored(0.05)])))
    averages = [cell for cell in judged if cell.checkpoint and cell.number.task == "Avg"]
    shown = next(dict(facts(cell)) for cell in averages if cell.number.backbone == BASE)
    assert shown["Published checkpoint"] == "76.30, ↑ higher: deterministic; tolerance 0.02"
    assert shown["Scored by"] == f"{MODEL}@paper"


def test_what_is_quoted_from_a_checkpoint():
    """Every number of the four checkpoints is printed alike wherever it is quoted, and every row
    with their average is one of these."""
    numbers = mapped()
    quoted = numbers[numbers["checkpoint"] != ""]
    assert len(quoted) == 164
    assert set(quoted["method"]) == {"SimCSE"}
    one = quoted.groupby(["checkpoint", "task", "split", "metric"])["value"].nunique()
    assert set(one) == {1}
    averages = quoted.query("task == 'Avg' and metric == 'spearman'").groupby("backbone")["value"]
    printed = {BASE: 76.25, "bert-large-uncased": 78.41}
    printed |= {"roberta-base": 76.57, "roberta-large": 78.90}
    assert averages.first().to_dict() == printed
    for row in numbers.query("method == 'SimCSE' and metric == 'spearman'").itertuples():
        if row.task == "Avg" and row.value == printed.get(row.backbone):
            assert row.checkpoint, [getattr(row, name) for name in LABEL]


def test_the_paper_suite_scores_every_checkpoint_that_is_quoted():
    planned = {run.text for run in config.planned(config.load(config.PAPERS[0]))}
    quoted = mapped().query("checkpoint != ''")[["checkpoint", "backbone"]].drop_duplicates()
    assert len(quoted) == 4
    for text, backbone in quoted.itertuples(index=False):
        assert text in planned
        run = resolve(text, backbone_name="none", corpus=None, data="senteval", seed=None)
        assert run.build().hyper.model == f"princeton-nlp/unsup-simcse-{backbone}"
