"""Trainings: the same twice, finished, and with an encoder that scores what the outcome says."""

from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from bench.datasets import sts
from bench.evaluation.scoring import score_tasks
from bench.models.load import load_encoder
from bench.utils.files import read_json
from tests.methods.outside import Runs, Train, some_steps
from tests.methods.test_promptbert import text_of
from tests.support.outcomes import timeless
from tests.training.test_loop import assert_same_training, log_of, outcome_of, weights_of

SMALL = "buffer=16,clusters=4,neighbours=3"
# A method's text, what is given to it, and its number of steps.
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {
    "cards[neighbours=5,switch=0]": ({}, 6),
    "cards[neighbours=5,switch=0]+is-cse[buffer=20,neighbours=3]": ({}, 6),
    "consert": ({"batch_size": 64, "epochs": 1}, 7),  # on the sentences of the tiny STS sets
    "ct-bert[drawn=15]": ({"batch_size": 2, "learning_rate": 1e-4}, 8),
    "dclr@official": ({"epochs": 1}, 6),
    "dclr@paper": ({"epochs": 1}, 6),
    "esimcse[queue=12]@official": ({}, 6),
    "esimcse[queue=12]@paper": ({}, 6),
    "focal-infonce": ({}, 6),
    "is-bert": ({"corpus": "tiny", "epochs": 2}, 12),
    f"is-cse[alpha=0.5,group=kmeans,{SMALL}]": ({}, 6),
    f"is-cse[alpha=0.5,group=both,{SMALL}]": ({}, 6),
    "mixcse": ({}, 6),
    "mixcse@paper": ({}, 6),
    "gs-infonce+simcse-plus-plus": ({}, 6),
    "simcse-plus-plus": ({}, 6),
    text_of(): ({"max_length": 12}, 6),
    text_of(denoise_scored=True): ({"max_length": 12}, 6),
    "word-noise[noise=delete,probability=0.5]": ({}, 6),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", TRAININGS)
@pytest.mark.usefixtures("global_state")
def test_a_training_ends_the_same_way_twice_and_scores_what_it_says(
    text: str, train_tiny: Train, tiny_data: Path, tiny_corpus: Path
) -> None:
    given, steps = TRAININGS[text]
    given = given | ({"corpus": str(tiny_corpus)} if "corpus" in given else {})
    folder = train_tiny(text, **given)
    outcome, log = outcome_of(folder), log_of(folder)
    assert (outcome["status"], outcome["steps"]) == ("finished", steps)
    names = ("STS-B", "SICK-R") if "dclr" in text else ("STS-B",)
    dev = [sts.read(name, tiny_data, "dev") for name in names]
    encoder, again = load_encoder(folder / "encoder"), train_tiny(text, fresh=True, **given)
    assert encoder.identity == load_encoder(again / "encoder").identity
    assert (log, timeless(outcome)) == (log_of(again), timeless(outcome_of(again)))
    records = score_tasks(encoder, dev)
    found = mean(record["value"] for record in records if record["aggregation"] == "all")
    assert found == pytest.approx(outcome["best_dev"], rel=0, abs=1e-12)
    assert log != log_of(train_tiny("simcse"))
    if text.startswith("esimcse"):  # the encoder holds the backbone alone
        assert weights_of(folder).keys() == weights_of(train_tiny("simcse")).keys()
    if text == "consert":
        assert encoder.pooler == "avg_top2"  # type: ignore[attr-defined]
        provenance = read_json(folder / "outcome.json")["provenance"]
        assert [corpus["name"] for corpus in provenance["corpora"]] == ["sts"]
    if text == "is-bert":
        assert log[-1]["loss"] < log[0]["loss"]
    if text.startswith("ct-bert"):  # the better of both copies
        rows = [row for row in log if "dev" in row]
        scores = [row[key]["STS-B"] for row in rows for key in ("dev", "dev_2")]
        assert outcome["best_dev"] == max(scores)
        assert any(row["dev"] != row["dev_2"] for row in rows)


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
def test_switched_off_it_is_simcse_bit_for_bit(
    text: str, plain: str, recipe: dict[str, Any], train_tiny: Train
) -> None:
    assert_same_training(train_tiny(text, **recipe), train_tiny(plain, **recipe))


@pytest.mark.parametrize("text", ["consert", "ct-bert", "is-bert"])
def test_state_is_saved_and_restored(text: str, runs: Runs) -> None:
    """Losses of steps 3 and 4: gone on with, and by a new run given the state after step 2."""
    first, second = runs.start(text), runs.start(text)
    some_steps(*first, [0, 1, 2])
    state = {name: tensor.clone() for name, tensor in first[2].state_dict().items()}
    second[2].load_state_dict(state)
    expected = some_steps(*first, [3, 4])
    assert some_steps(*second, [3, 4]) == expected
    assert len(set(expected)) == 2
