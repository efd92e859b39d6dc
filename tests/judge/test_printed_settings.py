"""Printed hyper-parameters: every one of them is what `@paper` resolves to."""

import pytest

from bench.datasets.metrics import PRINTED
from bench.registry.methods import method_classes
from bench.runs.resolve import resolve
from tests.support.printed_numbers import printed

NUMBERS = printed()[~printed()["metric"].isin(PRINTED)]
# Printed name -> field of our recipe or of the method's hyper-parameters. Others are of no run.
FIELDS = {
    "batch_size": "batch_size", "learning_rate": "learning_rate", "epochs": "epochs",
    "max_sequence_length": "max_length", "dropout": "dropout", "tau": "temperature",
    "lambda": "weight", "sigma2": "std", "M_over_batch_size": "multiple",
    "buffer_size_L": "buffer", "k_neighbours": "neighbours", "beta": "beta",
    "alpha_constant": "alpha", "alpha_start": "alpha_start", "alpha_end": "alpha",
    "kmeans_groups": "clusters", "noise_probability": "probability",
}  # fmt: skip
MODELS = ["bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large"]


def run_name(number):
    """Our method that a hyper-parameter is of, as in the text of a run."""
    if (number.source, number.method) == ("simcse-zh-noise", "SimCSE"):
        return "word-noise[noise=none]"  # the report's own
    return next(name for name, cls in method_classes().items() if cls.title == number.method)


def backbones(number):
    """The backbones that a hyper-parameter is stated for: all of its paper, or those named."""
    if number.backbone == "all":
        used = printed().query("source == @number.source")["backbone"]
        return [name for name in MODELS if name in set(used)]
    return number.backbone.replace("bert-base (Chinese)", "bert-base-chinese").split(" and ")


@pytest.mark.parametrize("source", sorted({*NUMBERS["source"]}))
def test_paper_resolves_to_what_is_printed(source):
    for number in NUMBERS.query("task in @FIELDS and source == @source").itertuples():
        expected = number.value
        if (source, number.task) == ("simcse-zh-noise", "dropout"):
            expected = 0.15  # of its base code, which print contradicts
        if number.task == "sigma2":
            expected **= 0.5
        text = f"{run_name(number)}@paper"
        for backbone in backbones(number):
            run = resolve(text, backbone_name=backbone, corpus="wiki1m", data="senteval", seed=0)
            values = run.recipe.model_dump() | run.parts[0][2]
            assert values[FIELDS[number.task]] == expected, (text, backbone, number.task)
            if number.task == "alpha_constant":
                assert values["alpha_start"] is None


def test_the_ten_seeds_of_a_figure_are_planned(paper_runs):
    seeds = NUMBERS.query("task == 'random_seeds_figure5'").iloc[0]
    own = [
        run for run in paper_runs if (run.text, run.backbone) == ("is-cse@official", seeds.backbone)
    ]
    assert len({run.seed for run in own}) == seeds["value"]
