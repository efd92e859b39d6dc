"""The toy data's numbers catch mistakes: of code with one, cells turn lower or higher.

Each mistake spoils one thing of methods, poolers, classifiers, task files; the same runs without it
pass.
"""

import pytest

from bench.judge.world import judge_world
from bench.results.suite_results import read_results
from bench.runs import config
from bench.stages.jobs import run_plan
from tests.oracles.edits import Mutation, each, edits
from tests.support.programs import ROOT

pytestmark = pytest.mark.usefixtures("global_state")


# What a mistake is looked for in: a run of config/all-methods.yaml on toy-bert, and some tasks.
STS, LABELLED = ["STS12", "STS-B", "SICK-R"], ["SST2", "TREC", "MRPC", "Tense", "SubjNumber"]
AVERAGE = "untrained[pooler=avg]"
WANTED = {
    "trained": {"simcse": STS},
    "pooled": {AVERAGE: STS},
    "classified": {AVERAGE: LABELLED},
    # Two runs, since one may differ from the same seed.
    "both": {"simcse": STS, "simcse+cards[switch=0]": STS},
}


def verdicts(wanted, folder):
    """The verdicts on a part of all methods, methods with tasks: toy-bert, first seed."""
    plan = config.plan(config.load(ROOT / "config" / "all-methods.yaml"))
    runs = [
        run.model_copy(update={"tasks": tuple(wanted[run.method])})
        for run in plan.runs
        if run.method in wanted and run.backbone == "toy-bert" and run.seed in (None, 1)
    ]
    assert len(runs) == len(wanted)
    part = plan.model_copy(update={"runs": runs})
    part.write(folder / "plan.json")
    run_plan(folder, part, runs, ["train", "score"])
    return {cell.verdict.kind for cell in judge_world(read_results(folder))}


@pytest.mark.slow
def test_without_a_mistake_all_scores_are_as_on_the_reference_machine(tmp_path):
    expected = {"simcse": STS, AVERAGE: [*STS, *LABELLED]}
    assert verdicts(expected, tmp_path) == {"reproduced"}


MISTAKES: dict[str, Mutation] = {
    **edits("methods.base.contrastive:cosine", {
        "sign_of_the_cosine": ("trained", "rows @ columns.T", "-rows @ columns.T"),
    }),
    **edits("methods.base.tools:masked_mean", {
        "mean_over_padding": (
            "pooled", "(states * weights).sum(1) / weights.sum(1)",
            "torch.where(weights.bool(), states, states[:, :1]).mean(1)"),
    }),
    **edits("bench.datasets.sts:cosine", {
        "dot_product_for_the_cosine": (
            "pooled", "np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0)", "dot"),
    }),
    **edits("bench.evaluation.protocols:best_on_dev", {
        "dev_is_trained_on": (
            "classified",
            "Fold(np.arange(start, middle), np.arange(middle, end), grid, classes)",
            "Fold(np.arange(start, end), np.arange(middle, end), grid, classes)"),
    }),
    **edits("bench.models.transformer:load_backbone", {
        "without_dropout": ("both", "dropout is not None", "(dropout := 0.0) is not None"),
    }),
}  # fmt: skip


@each(MISTAKES)
def test_a_mistake_is_caught(mutation, tmp_path, monkeypatch):
    mutation.apply(monkeypatch)
    assert verdicts(WANTED[mutation.case], tmp_path) & {"lower", "higher"}
