"""The embedded world's numbers catch mistakes: of code with one, cells turn lower or higher.

Each mistake spoils one thing of methods, poolers, classifiers, task files; the same runs without it
pass.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.evaluation.classifier import MODES
from bench.judge.world import judge_world
from bench.models.packed_forward import POOLER_FUNCTIONS
from bench.results.suite_results import read_results
from bench.runs import config
from bench.stages.jobs import run_plan
from tests.methods.mutations import MUTATIONS
from tests.oracles.edits import Mutation, edits

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("global_state")]

ROOT = Path(__file__).resolve().parents[2]

# What a mistake is looked for in: a run of config/all-methods.yaml on toy-bert, and some tasks.
STS, LABELLED = ["STS12", "STS-B", "SICK-R"], ["SST2", "TREC", "MRPC", "Tense", "SubjNumber"]
AVERAGE = "untrained[pooler=avg]"
TRAINED, POOLED, CLASSIFIED = {"simcse": STS}, {AVERAGE: STS}, {AVERAGE: LABELLED}
# Two runs, since one may differ from the same seed.
BOTH = {"simcse": STS, "simcse+cards[switch=0]": STS}


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
    list(run_plan(folder, part, runs, "cpu", ["train", "score"]))
    return {cell.verdict.kind for cell in judge_world(read_results(folder))}


def test_without_a_mistake_all_scores_are_as_on_the_reference_machine(tmp_path):
    wanted = {**TRAINED, AVERAGE: [*STS, *LABELLED]}
    assert verdicts(wanted, tmp_path) == {"reproduced"}


def entry(table, key, make):
    """Another entry of a table, made of the one that it has."""
    return lambda method, patch: patch.setitem(table, key, make(table[key]))


pooling, pairs = edits("methods.base"), edits("bench.datasets.sts")
backbones, features = edits("bench.models.transformer"), edits("bench.datasets.labelled")
protocols = edits("bench.evaluation.protocols")
MEAN = "return (states * weights).sum(1) / weights.sum(1)"
MISTAKES: dict[str, tuple[dict[str, list[str]], Mutation]] = {
    **{name: (TRAINED, MUTATIONS[name][1])
       for name in (
           "sign_of_the_cosine", "temperature_multiplied", "positive_of_the_next_sentence")},
    "mean_over_padding": (
        POOLED,
        pooling(MEAN, "return torch.where(weights.bool(), states, states[:, :1]).mean(1)")),
    "first_token_for_the_mean": (POOLED, pooling(MEAN, "return states[:, 0]")),
    "layer_before_the_last": (
        POOLED,
        entry(
            POOLER_FUNCTIONS, "avg",
            lambda plain: lambda states, mask: plain(states[:-1], mask),
        )),
    "gold_of_the_next_pair": (
        POOLED, pairs("formula(gold, predicted)", "formula(np.roll(gold, 1), predicted)")),
    "dev_for_test": (POOLED, pairs("[split])[split]}", "['dev'])['dev']}")),
    "dot_product_for_the_cosine": (
        POOLED, pairs("np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0)", "dot")),
    "dev_is_trained_on": (
        CLASSIFIED, protocols("Fold(np.arange(start, middle),", "Fold(np.arange(start, end),")),
    "features_of_the_next_sample": (
        CLASSIFIED, features("return features\n", "return np.roll(features, 1, axis=0)\n")),
    "features_without_the_last_half": (
        CLASSIFIED, features("return features\n", "return np.split(features, 2, axis=1)[0]\n")),
    "stopped_at_the_first_miss": (
        CLASSIFIED, entry(MODES, "dev", lambda mode: replace(mode, tenacity=0))),
    "the_other_mode": (
        CLASSIFIED, entry(MODES, "dev", lambda mode: replace(MODES["test"], folds=mode.folds))),
    "without_dropout": (
        BOTH, backbones("if dropout is not None:", "if (dropout := 0.0) is not None:")),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_caught(name, tmp_path, monkeypatch):
    wanted, mutate = MISTAKES[name]
    mutate(None, monkeypatch)
    assert verdicts(wanted, tmp_path) & {"lower", "higher"}
