"""Estimated hours: FLOP by hand, measured and published times, times from results, and the sum
of a plan."""

import pytest

from bench.runs import config
from bench.runs.resolve import resolve
from bench.runs.run import PlannedRun
from bench.stages import cost
from bench.stages.cost import (
    ALL,
    PEAKS,
    STEPS,
    Measured,
    estimate,
    predict,
    scoring_work,
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


def run_of(text="simcse", name="bert-base-uncased", corpus="wiki1m", **recipe):
    return resolve(text, backbone_name=name, corpus=corpus, data="senteval", seed=42, recipe=recipe)


# FLOP


@pytest.mark.parametrize(
    ("name", "published", "embedded"),
    [  # all weights of the checkpoints without pooling layer, and rows of their embedding layers
        ("bert-large-uncased", 335_141_888 - 1024 * 1025, 30_522 + 512 + 2),
        ("roberta-base", 124_645_632 - 768 * 769, 50_265 + 514 + 1),
    ],
)
def test_weights_of_known_backbones(name, published, embedded):
    run = run_of(name=name)
    width = run.shape.width  # biases and norms are not counted
    assert cost.weights(run) == pytest.approx(published - embedded * width, rel=0.002)
    assert cost.stored_weights(run) == pytest.approx(published, rel=0.01)  # nor are positions


def test_flop_of_bert_base_on_a_million_sentences_by_hand():
    run = run_of()
    assert (run.recipe.batch_size, run.recipe.select_every, steps(run)) == (64, 125, 15_625)
    weights = 12 * (4 * 768**2 + 2 * 768 * 3072)
    trained, selected = 6 * weights * 2 * 1_000_000 * 24, 2 * weights * 2909 * 16 * 125
    half, tf32, _ = PEAKS["a100"]
    seconds = (trained / half + selected / tf32) / cost.UTILISATION
    assert estimate(run, "train", (), "test", "a100") == pytest.approx([seconds, seconds])
    assert seconds == pytest.approx(424, abs=1)


def test_steps_of_a_run(tiny_corpus):
    lines, corpus = len(tiny_corpus.read_text().splitlines()), str(tiny_corpus)
    assert steps(run_of("ct-bert[drawn=600]")) == 300
    assert steps(run_of("simcse[batch_size=3,sentences=11]")) == 4
    assert steps(run_of("simcse[batch_size=3,drop_last=true,sentences=11]")) == 3
    assert steps(run_of(corpus=corpus, batch_size=1)) == lines
    assert steps(run_of(corpus=corpus, batch_size=4, sentences=7)) == 2


def test_each_task_is_encoded_once():
    assert scoring_work(["MR"], "test", "cpu")[0] == 10_662
    assert scoring_work(["STS13"], "test", "cpu") == (2 * 1500, 0)
    sts = scoring_work(["sts"], "test", "cpu")
    assert scoring_work(["sts", "STS-B"], "test", "cpu") == sts
    flop = 2 * 12 * 12 * 768**2 * 16 * 3000
    seconds = flop / PEAKS["a100"][2] / cost.UTILISATION
    assert estimate(run_of(), "score", ["STS13"], "test", "a100") == pytest.approx([seconds] * 2)
    further = run_of("untrained"), run_of()
    times = [estimate(run, "score", ["MR"], "test", "a100")[0] for run in further]
    classifiers = scoring_work(["MR"], "test", "a100")[1] * cost.GPU_CLASSIFIER_STEP
    assert times[0] - times[1] == pytest.approx(4 * classifiers)
    words = run_of("glove", "glove.6B.300d")
    assert estimate(words, "score", ["sts"], "test", "a100") == [0, 0]


# Measured steps


@pytest.mark.parametrize("name", STEPS)
def test_measured_steps_are_of_a_card_and_a_backbone_that_are_known(name):
    card, backbone, batch_size, precision = name.split()
    run = run_of(name=backbone, batch_size=int(batch_size), precision=precision)
    assert cost._measured_as(run, card) == name
    least, most = STEPS[name]["step"]
    assert 0 < STEPS[name].get("busy", least) <= least <= most < 0.1
    assert card in PEAKS


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
    assert estimate(run_of(), "train", (), "test", card) == pytest.approx(seconds)


@pytest.mark.parametrize("recipe", [{"batch_size": 32}, {"precision": "float32"}])
def test_steps_of_another_batch_size_or_precision_are_not_measured(recipe):
    least, most = estimate(run_of(**recipe), "train", (), "test", "h200")
    assert least == most < 300


# The estimate of a plan


def test_a_prediction_adds_up():
    """A run that its backbone makes impossible takes no time."""
    content = {"suite": "mine", "data": "senteval", "corpus": "wiki1m", "seeds": [1, 2]}
    content |= {"tasks": ["sts", "transfer"], "methods": ["simcse", "sscl[layer=12]"]}
    content["methods"] += ["untrained[pooler=avg]", "word-overlap"]
    content["backbones"] = {"bert-base-uncased": None, "roberta-large": None}
    suite = config.validate(content)
    prediction = predict(work_of(config.planned(suite)), suite.mode, "h200")
    assert {place: (count, measured) for place, (count, measured, *_) in prediction.items()} == {
        ALL: (15, 2),
        ("bert-base-uncased", "train"): (2, 2),
        ("bert-base-uncased", "score"): (3, 0),
        ("roberta-large", "train"): (4, 0),
        ("roberta-large", "score"): (5, 0),
        ("none", "score"): (1, 0),
    }
    total = prediction.pop(ALL)
    assert sum(prediction.values()) == pytest.approx(total)


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
    assert cost.disk(plan) == files
    dropped = plan.model_copy(update={"keep_encoders": False})
    assert cost.disk(dropped) == files | {"2 encoders": 0}


# Times from results


def test_times_come_from_the_device_asked_for(tmp_path):
    def leave(run, device, seconds, runs=1, **outcome):
        """Write the scores of a run whose training and scoring took some seconds each, with several
        runs on the device."""
        shared = {"runs_per_gpu": runs}
        outcome = outcome or {"steps": 100, "seconds": seconds, **shared}
        provenance = {"run": run.describe(), "outcome": {"status": "finished", **outcome}}
        provenance |= {"device": {"name": device}, "seconds": seconds, "tasks": {"MR": {}}}
        write_json(scores / f"{run.id}.json", {"provenance": provenance | shared, "records": []})

    scores = tmp_path / "mine" / "scores"
    leave(run_of(), "NVIDIA H200", 900.0, runs=3)  # 300 of a whole device
    leave(run_of("gs-infonce", sentences=6400), "NVIDIA H200", 500.0)
    leave(run_of("is-cse"), "NVIDIA A100-SXM4-80GB", 900.0)
    leave(run_of("sscl"), "NVIDIA H200", 100.0, best_step=3)  # with nothing but scores
    write_json(scores / "broken.json", {})
    measured = Measured(tmp_path, "h200")
    assert Measured(tmp_path, "h100").times == {}

    def planned(run, task="MR"):
        return PlannedRun(**dict(run), tasks=(task,))

    per_step = measured.seconds(planned(run_of("sscl", sentences=640)), "train")
    assert per_step == pytest.approx(10 * (3.0 + 5.0) / 2)
    for unlike in ({"batch_size": 32}, {"precision": "float32"}, {"name": "roberta-base"}):
        assert measured.seconds(planned(run_of(**unlike)), "train") == 0
    assert measured.seconds(planned(run_of(), "sts"), "score") == 0
    work = work_of([planned(run_of(sentences=6400))])
    prediction = predict(work, "test", "h200", measured)
    name = "bert-base-uncased"
    assert prediction[name, "train"] == pytest.approx([1, 1, 400 / 3600, 400 / 3600])
    assert prediction[name, "score"] == pytest.approx([1, 1, 300 / 3600, 300 / 3600])
