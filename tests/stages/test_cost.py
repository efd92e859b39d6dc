"""Hours: measured steps, times from results, the sum of a plan, and the order of magnitude of what
was not measured; and disk."""

from collections import Counter
from pathlib import Path

import pytest

from bench.cli.runs import DEVICES
from bench.runs import config
from bench.runs.resolve import resolve
from bench.stages import cost
from bench.stages.cost import (
    ALL,
    STEPS,
    Measured,
    measured_seconds,
    predict,
    rough,
    rough_hours,
    sentences,
    steps,
    work_of,
)
from bench.utils.files import write_json
from tests.support.tiny_suite import seeds_of_simcse


@pytest.fixture(autouse=True)
def no_local_data(monkeypatch):
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.delenv("BENCH_MODELS", raising=False)
    monkeypatch.delenv("SENTBENCH_RUNS_PER_GPU", raising=False)


def run_of(text="simcse", name="bert-base-uncased", corpus="wiki1m", tasks=("MR",), **recipe):
    run = resolve(text, backbone_name=name, corpus=corpus, data="senteval", seed=42, recipe=recipe)
    return run.model_copy(update={"tasks": tasks})


# What was not measured


def test_steps_of_a_run(tiny_corpus):
    lines, corpus = len(tiny_corpus.read_text().splitlines()), str(tiny_corpus)
    assert steps(run_of("ct-bert[drawn=600]")) == 300
    assert steps(run_of("simcse[batch_size=3,sentences=11]")) == 4
    assert steps(run_of("simcse[batch_size=3,drop_last=true,sentences=11]")) == 3
    assert steps(run_of(corpus=corpus, batch_size=1)) == lines
    assert steps(run_of(corpus=corpus, batch_size=4, sentences=7)) == 2


def test_sentences_of_tasks_are_read_once():
    def read(*tasks):
        return sentences(run_of(tasks=tasks), "score")

    assert (read("MR"), read("STS13")) == (10_662, 2 * 1500)
    assert read("sts", "STS-B") == read("sts")


@pytest.mark.parametrize("name", STEPS)
def test_the_order_of_magnitude_holds_for_measured_steps(name):
    card, backbone, batch_size, precision = name.split()
    run = run_of(name=backbone, batch_size=int(batch_size), precision=precision)
    least, most = measured_seconds(run, "train", card, NOTHING)
    assert least / 3 < 3600 * rough_hours([(run, "train")], "a GPU") < 3 * most
    assert card in DEVICES


def test_the_order_of_magnitude_of_a_suite_by_hand():
    (run,) = seeds_of_simcse(1).runs
    weights = 12 * 12 * 768**2
    training, scoring = (3e-12 * weights * 1_000_000, 2e-12 * weights * 10_662)
    work = [(run, "train"), (run, "score")]
    assert rough_hours(work, "a GPU") == pytest.approx((training + scoring) / 3600)
    hours = 10 * 5e-9 * weights * 1_000_000 / 3600
    assert f"{hours:.0f}" == "1180"
    text = "some 0.7 h on a GPU or 1,000 h on a thread of a processor, not measured"
    assert rough([(run, "train")] * 10) == text
    assert rough([]).startswith("some 0.1 h on a GPU")


NOTHING = Measured(Path(), "")


# Measured steps


@pytest.mark.parametrize(
    ("places", "card", "least", "most"),
    [
        (1, "h200", 19, 34),
        (3, "h200", 9, 34),  # of which the card is busy
        (3, "h100", 36, 36),  # not known how busy
    ],
)
def test_seconds_of_measured_steps(places, card, least, most, monkeypatch):
    monkeypatch.setenv("SENTBENCH_RUNS_PER_GPU", str(places))
    selections = 125 * {"h200": 0.08, "h100": 0.1}[card]
    seconds = [15.625 * step + selections for step in (least, most)]
    assert measured_seconds(run_of(), "train", card, NOTHING) == pytest.approx(seconds)


# The hours of a plan


def test_a_prediction_adds_up():
    """A run that its backbone makes impossible takes no time."""
    content = {
        "suite": "mine", "data": "senteval", "corpus": "wiki1m", "seeds": [1, 2],
        "tasks": ["sts", "transfer"], "methods": ["simcse", "sscl[layer=12]"],
    }  # fmt: skip
    content["methods"] += ["untrained[pooler=avg]", "word-overlap"]
    content["backbones"] = {"bert-base-uncased": None, "roberta-large": None}
    hours, rest = predict(work_of(config.planned(config.validate(content))), "h200", NOTHING)
    least, most = measured_seconds(run_of(), "train", "h200", NOTHING)
    expected = pytest.approx([2, 2 * least / 3600, 2 * most / 3600])
    assert hours == {ALL: expected, "bert-base-uncased train": expected}
    assert Counter((run.backbone, stage) for run, stage in rest) == {
        ("bert-base-uncased", "score"): 3,
        ("roberta-large", "train"): 4,
        ("roberta-large", "score"): 5,
        ("none", "score"): 1,
    }


# Disk


def test_the_disk_of_a_plan_by_hand():
    plan = seeds_of_simcse(2)
    encoder = 4 * (12 * 12 * 768**2 + 30_522 * 768)
    files = {
        "2 encoders": 2 * encoder,
        "tokens of corpora": 4 * 24 * 1_000_000,  # which both seeds share
        "logs": 80 * 2 * 15_625,
        "each training at work, at most": 3 * 4 * encoder,
    }
    assert cost.disk(plan.runs) == files
    assert cost.disk(plan.runs, keep_encoders=False) == files | {"2 encoders": 0}


# Times from results


def test_times_come_from_the_device_asked_for(tmp_path):
    def leave(run, device, seconds, runs=1):
        """Write the scores of a run whose training and scoring took some seconds each, with several
        runs on the device."""
        shared = {"seconds": seconds, "runs_per_gpu": runs}
        provenance = shared | {
            "run": run.describe(), "outcome": {"status": "finished", "steps": 100, **shared},
            "device": {"name": device}, "tasks": {"MR": {}},
        }  # fmt: skip
        file = tmp_path / "mine" / "scores" / f"{run.id}.json"
        write_json(file, {"provenance": provenance, "records": []})

    leave(run_of(), "NVIDIA H200", 900.0, runs=3)  # 300 of a whole device
    leave(run_of("gs-infonce", sentences=6400), "NVIDIA H200", 500.0)
    leave(run_of("is-cse"), "NVIDIA A100-SXM4-80GB", 900.0)
    measured = Measured(tmp_path, "h200")
    per_step = measured.seconds(run_of("sscl", sentences=640), "train")
    assert per_step == pytest.approx(10 * (3.0 + 5.0) / 2)
    for unlike in ({"batch_size": 32}, {"precision": "float32"}, {"name": "roberta-base"}):
        assert measured.seconds(run_of(**unlike), "train") == 0
    assert measured.seconds(run_of(tasks=("sts",)), "score") == 0
    hours, rest = predict(work_of([run_of(sentences=6400)]), "h200", measured)
    assert hours["bert-base-uncased train"] == pytest.approx([1, 400 / 3600, 400 / 3600])
    assert hours["bert-base-uncased score"] == pytest.approx([1, 400 / 3600, 400 / 3600])
    assert hours[ALL] == pytest.approx([2, 800 / 3600, 800 / 3600])
    assert rest == []
