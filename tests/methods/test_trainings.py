"""Trainings: the same twice, finished, and with an encoder that scores what the outcome says."""

from statistics import mean
from typing import Any

import pytest

from bench.datasets import sts
from bench.evaluation.scoring import score_tasks
from bench.models.load import load_encoder
from tests.methods.outside import of_methods, run_of
from tests.support.outcomes import assert_same_training, log_of, outcome_of, timeless

# A method's text, what is given to it, and its number of steps.
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {}
for _, trainings in of_methods("TRAININGS"):
    TRAININGS |= trainings


@pytest.mark.slow
@pytest.mark.parametrize("text", TRAININGS)
@pytest.mark.usefixtures("global_state")
def test_a_training_ends_the_same_way_twice_and_scores_what_it_says(
    text, train_tiny, tiny_data, tiny_corpus
):
    given, steps = TRAININGS[text]
    given = given | ({"corpus": str(tiny_corpus)} if "corpus" in given else {})
    folder = train_tiny(text, **given)
    outcome, log = outcome_of(folder), log_of(folder)
    assert (outcome["status"], outcome["steps"]) == ("finished", steps)
    tasks = run_of(text).recipe.select_on.split("+")
    dev = [sts.read(name, tiny_data, "dev") for name in tasks]
    encoder, again = load_encoder(folder / "encoder"), train_tiny(text, fresh=True, **given)
    assert encoder.identity == load_encoder(again / "encoder").identity
    assert (log, timeless(outcome)) == (log_of(again), timeless(outcome_of(again)))
    records = score_tasks(encoder, dev)
    found = mean(record["value"] for record in records if record["aggregation"] == "all")
    assert found == pytest.approx(outcome["best_dev"], rel=0, abs=1e-12)
    assert log != log_of(train_tiny("simcse"))


SHORT = {"epochs": 1, "select_on": "STS-B", "precision": "float32"}


@pytest.mark.parametrize(
    ("text", "plain", "recipe"),
    [
        ("dclr[noise_times=0,phi=1.5]@paper", "simcse", SHORT),
        ("simcse+dclr[noise_times=0,phi=1.5]@paper", "simcse", SHORT),
        ("esimcse[queue=0,rate=0]", "simcse", {}),
        ("rankcse[beta=0,gamma=0]", "simcse@paper", {}),
        ("simcse+rankcse[beta=0,gamma=0]@paper", "simcse@paper", {}),
    ],
)
def test_switched_off_it_is_simcse_bit_for_bit(text, plain, recipe, train_tiny):
    assert_same_training(train_tiny(text, **recipe), train_tiny(plain, **recipe))
