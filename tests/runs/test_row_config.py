"""The configuration of a printed row plans its runs, as the papers' suites have them."""

from dataclasses import replace
from functools import cache

import pytest

from bench.reported import SOURCES
from bench.reported.address import find_rows
from bench.reported.number import numbers
from bench.results.system import planned_scores
from bench.runs import config
from bench.runs import row_config as module
from bench.runs.row_config import row_config
from bench.runs.suite import LONGEST_NAME

expand = config.planned


@pytest.fixture(scope="module", autouse=True)
def papers_read_once():
    """The papers' suites are read and expanded once."""
    load = cache(config.load)
    once = cache(lambda name: expand(load(config.SUITES / f"{name}.yaml")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.config, "load", load)
        patch.setattr(module.config, "planned", lambda content: once(content.suite))
        yield


@pytest.mark.parametrize("source", [*SOURCES])
def test_each_row_plans_its_runs_as_the_papers_suites_do(source):
    """Every row of a paper: run ids of another seed, recipe or corpus, a lost side of a difference
    and a task that is not scored fail."""
    suites = [config.planned(config.load(path)) for path in config.PAPERS]
    known = {run.id for suite in suites for run in suite}
    labels = {}
    for number in numbers():
        if number.source == source and number.run and number.is_measurement:
            labels.setdefault(number.label, []).append(number)
    for label, rows in labels.items():
        made = row_config(rows)
        assert len(made.suite) <= LONGEST_NAME
        planned = expand(made)
        assert {run.id for run in planned} <= known, label
        sides = {run.text for run in planned}
        texts = {(number.run, number.minus, number.checkpoint) for number in rows}
        assert sides == set().union(*texts) - {""}
        scored = set.intersection(*(planned_scores(run) for run in planned))
        assert {number.cell for number in rows if not number.aggregation} <= scored, label


def test_seeds_tasks_and_a_whole_method():
    rows = find_rows("gs-infonce-v2", "Table 3", "GS-InfoNCE")
    made = row_config(rows, seeds=10, tasks=["STS-B"])
    assert made.seeds == list(range(42, 52))
    assert (made.tasks, list(made.backbones)) == (["STS-B"], ["bert-base-uncased"])
    assert len(made.methods) == len({number.variant for number in rows}) == 7
    assert len(expand(made)) == 70
    assert row_config(rows).suite == "gs-infonce-v2-table-3-gs-infonce-bert-base-uncased"


@pytest.mark.parametrize(
    ("run", "minus", "seeds", "planned"),
    [
        ("mixcse[share=0.3]@official", "simcse@official", None, [*range(42, 50)] * 2),
        ("mixcse[share=0.3]@official", "", 2, [42, 43]),
        ("untrained[pooler=avg]@paper", "", None, [None]),
    ],
)
def test_a_row_of_an_added_paper_plans_what_its_recipe_names(run, minus, seeds, planned):
    """No suite has its backbone."""
    rows = find_rows("gs-infonce-v2", "Table 2", "SimCSE", "bert-base-uncased")
    own = {"source": "added", "our_backbone": "toy-bert", "checkpoint": "", "minus": minus}
    runs = expand(row_config([replace(number, **own, run=run) for number in rows], seeds))
    assert {(run.text, run.backbone) for run in runs} == {
        (text, "toy-bert") for text in (run, minus) if text
    }
    assert [run.seed for run in runs] == planned
