"""Estimated hours: FLOP by hand, measured and published times, times from results, and the printed
table."""

from pathlib import Path

import pytest

from bench.runs import config
from bench.runs.resolve import resolve
from bench.runs.run import PlannedRun
from bench.stages import cost
from bench.stages.cost import PEAKS, Measured, estimate, predict, scoring_work, steps
from bench.utils.files import write_json

NOTHING = Measured(Path("nowhere"), "h200")


@pytest.fixture(autouse=True)
def no_local_data(monkeypatch):
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.delenv("BENCH_MODELS", raising=False)


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


def test_flop_of_bert_base_on_a_million_sentences_by_hand():
    run = run_of()
    assert (run.recipe.batch_size, run.recipe.select_every, steps(run)) == (64, 125, 15_625)
    weights = 12 * (4 * 768**2 + 2 * 768 * 3072)
    trained, selected = cost.training_flop(run)
    assert trained == pytest.approx(6 * weights * 2 * 1_000_000 * 24)
    assert selected == pytest.approx(2 * weights * 2909 * 16 * 125)
    half, tf32, _ = PEAKS["h200"]
    seconds = (trained / half + selected / tf32) / cost.UTILISATION
    assert estimate(run, "train", (), "test", "h200") == pytest.approx(seconds)
    assert seconds == pytest.approx(134, abs=1)


def test_classifiers_take_the_seconds_that_were_measured_on_a_cpu():
    """docs/performance.md: 118 s for the seven transfer tasks, at width 384."""
    _, classifier_steps = scoring_work(run_of(), ["transfer"], "test", "cpu")
    assert classifier_steps * cost.CPU_CLASSIFIER_STEP == pytest.approx(118, rel=0.1)


def test_steps_of_a_run(tiny_corpus):
    lines, corpus = len(tiny_corpus.read_text().splitlines()), str(tiny_corpus)
    assert steps(run_of("ct-bert[drawn=600]")) == 300
    assert steps(run_of("simcse[batch_size=3,sentences=11]")) == 4
    assert steps(run_of("simcse[batch_size=3,drop_last=true,sentences=11]")) == 3
    assert steps(run_of(corpus=corpus, batch_size=1)) == lines
    assert steps(run_of(corpus=corpus, batch_size=4, sentences=7)) == 2


def test_each_task_is_encoded_once():
    weights = 12 * 12 * 768**2
    assert scoring_work(run_of(), ["MR"], "test", "cpu")[0] == 2 * weights * 16 * 10_662
    assert scoring_work(run_of(), ["STS13"], "test", "cpu") == (2 * weights * 16 * 2 * 1500, 0)
    sts = scoring_work(run_of(), ["sts"], "test", "cpu")
    assert scoring_work(run_of(), ["sts", "STS-B"], "test", "cpu") == sts
    words = run_of("glove", "glove.6B.300d")
    assert scoring_work(words, ["sts"], "test", "cpu") == (0, 0)


# The estimate of a plan


def test_the_printed_table_adds_up():
    """A run that its backbone makes impossible takes no time."""
    content = {"suite": "mine", "data": "senteval", "corpus": "wiki1m", "seeds": [1, 2]}
    content |= {"tasks": ["sts", "transfer"], "methods": ["simcse", "sscl[layer=12]"]}
    content["methods"] += ["untrained[pooler=avg]", "word-overlap"]
    content["backbones"] = {"bert-base-uncased": None, "roberta-large": None}
    suite = config.validate(content)
    printed = cost.report(suite, config.planned(suite), "h200", Path("nowhere"))
    *rows, total = [line.split() for line in printed.partition("\n\n")[0].splitlines()[1:]]
    assert [row[:3] for row in rows] == [
        ["bert-base-uncased", "train", "2"],
        ["bert-base-uncased", "score", "3"],
        ["roberta-large", "train", "4"],
        ["roberta-large", "score", "5"],
        ["none", "score", "1"],
    ]
    assert total[:3] == ["all", "15", "0"]
    assert sum(float(row[4]) for row in rows) == pytest.approx(float(total[3]), abs=0.05)


def test_the_paper_suite_takes_at_most_40_hours_of_an_h200(paper_runs):
    a100, h100, h200, cpu = (
        predict(paper_runs, "test", name, NOTHING)["seconds"].sum() / 3600 for name in PEAKS
    )
    assert 20 < h200 == h100 <= 40 < a100 < 1000 < cpu


# Times from results


def test_times_come_from_the_device_asked_for(tmp_path):
    def leave(run, device, seconds, **outcome):
        """Write the scores of a run whose training and scoring took some seconds each."""
        outcome = outcome or {"steps": 100, "seconds": seconds}
        provenance = {"run": run.describe(), "outcome": {"status": "finished", **outcome}}
        provenance |= {"device": {"name": device}, "seconds": seconds, "tasks": {"MR": {}}}
        write_json(scores / f"{run.id}.json", {"provenance": provenance, "records": []})

    scores = tmp_path / "mine" / "scores"
    leave(run_of(), "NVIDIA H200", 300.0)
    leave(run_of("gs-infonce", sentences=6400), "NVIDIA H200", 500.0)
    leave(run_of("is-cse"), "NVIDIA A100-SXM4-80GB", 900.0)
    leave(run_of("sscl"), "NVIDIA H200", 100.0, best_step=3)  # with nothing but scores
    write_json(scores / "broken.json", {})
    measured = Measured(tmp_path, "h200")
    assert Measured(tmp_path, "h100").times == {}

    def planned(run, task="MR"):
        return PlannedRun(**dict(run), tasks=(task,))

    per_step = measured.seconds(planned(run_of("is-cse", sentences=640)), "train")
    assert per_step == pytest.approx(10 * (3.0 + 5.0) / 2)
    assert measured.seconds(planned(run_of(batch_size=32)), "train") is None
    assert measured.seconds(planned(run_of(name="roberta-base")), "train") is None
    assert measured.seconds(planned(run_of(), "sts"), "score") is None
    table = predict([planned(run_of(sentences=6400))], "test", "h200", measured)
    assert table[["stage", "seconds", "measured"]].to_numpy().tolist() == [
        ["train", 400.0, 1],
        ["score", 300.0, 1],
    ]
