"""Estimated hours: FLOP by hand, measured and published times, times from results, and the printed
table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.__main__ import main
from bench.evaluation import classifier, protocols
from bench.evaluation.heads import Optimiser
from bench.runs import config, cost
from bench.runs.config import Planned
from bench.runs.cost import (
    PEAKS,
    UTILISATION,
    Measured,
    estimate,
    predict,
    report,
    scoring_work,
    steps,
    training_flop,
)
from bench.runs.resolve import resolve
from bench.runs.run import Run
from bench.training.context import RunContext
from bench.training.schedule import batches
from bench.utils.errors import UserError
from methods.base import Step
from tests.support.tiny_suite import tiny_run

NOTHING = Measured({}, {}, {})


@pytest.fixture(autouse=True)
def no_local_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.delenv("BENCH_MODELS", raising=False)


def run_of(
    text: str = "simcse", name: str = "bert-base-uncased", corpus: str = "wiki1m", **recipe: Any
) -> Run:
    return resolve(text, backbone_name=name, corpus=corpus, data="senteval", seed=42, recipe=recipe)


# FLOP


@pytest.mark.parametrize(
    ("name", "published", "embedded"),
    [  # all weights of the checkpoints without pooling layer, and rows of their embedding layers
        ("bert-base-uncased", 109_482_240 - 768 * 769, 30_522 + 512 + 2),
        ("bert-large-uncased", 335_141_888 - 1024 * 1025, 30_522 + 512 + 2),
        ("roberta-base", 124_645_632 - 768 * 769, 50_265 + 514 + 1),
        ("roberta-large", 355_359_744 - 1024 * 1025, 50_265 + 514 + 1),
    ],
)
def test_weights_of_known_backbones(name: str, published: int, embedded: int) -> None:
    run = run_of(name=name)
    width = run.shape.width  # biases and norms are not counted
    assert cost.weights(run) == pytest.approx(published - embedded * width, rel=0.002)


def test_a_training_does_the_work_that_was_estimated(
    tiny_bert: Path, tiny_data: Path, tiny_corpus: Path, tmp_path: Path
) -> None:
    recipe = {"sentences": None, "max_length": 12, "pooler": "avg"}
    run = tiny_run("simcse", tiny_bert, tiny_data, tiny_corpus, **recipe)
    context = RunContext(run, tmp_path, "cpu")
    method = run.build()
    method.begin(context)
    rows = list(batches(method.items(context), run.recipe, 1))
    for index, batch in enumerate(rows):
        method.step_loss(context, Step(index, len(rows), 8, 1, batch))
    assert steps(run) == len(rows)
    flop, _ = training_flop(run)
    counted = context.work.forward + context.work.backward
    assert counted / 3 < flop < 3 * counted  # sentences are shorter than 12 tokens


def test_flop_of_bert_base_on_a_million_sentences_by_hand() -> None:
    run = run_of()
    assert (run.recipe.batch_size, run.recipe.select_every, steps(run)) == (64, 125, 15_625)
    weights = 12 * (4 * 768**2 + 2 * 768 * 3072)
    trained, selected = training_flop(run)
    assert trained == pytest.approx(6 * weights * 2 * 1_000_000 * 24)
    assert selected == pytest.approx(2 * weights * 2909 * 16 * 125)
    half, tf32, _ = PEAKS["h200"]
    seconds = (trained / half + selected / tf32) / UTILISATION
    assert estimate(run, "train", (), "test", "h200") == pytest.approx(seconds)
    assert seconds == pytest.approx(134, abs=1)


def test_padding_that_is_averaged_is_computed() -> None:
    run, masked = (run_of(pooler=f"avg_first_last{end}") for end in ("_64", ""))
    trained, selected = training_flop(run)
    assert (trained / 64, selected / 64) == pytest.approx(
        (training_flop(masked)[0] / 24, training_flop(masked)[1] / 16)
    )
    mode = classifier.MODES["test"]
    assert (
        scoring_work(run, ["STS13"], mode, "cpu")[0]
        == 4 * scoring_work(masked, ["STS13"], mode, "cpu")[0]
    )


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("bert-base-uncased", 3835),
        ("bert-large-uncased", 9226),
    ],  # seconds in the logs that SimCSE's authors released
)
def test_published_times_are_met_within_a_factor_of_three(
    name: str, published: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # NVIDIA's data sheet of the RTX 3090: dense float16 with float32 accumulation, TF32, float32.
    monkeypatch.setitem(PEAKS, "rtx3090", (71e12, 35.6e12, 35.6e12))
    seconds = estimate(run_of(name=name), "train", (), "test", "rtx3090")
    assert published / 3 < seconds < 3 * published


def test_measured_times_are_met_within_a_factor_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainings of results/wiki-mini, at the peak rates that were measured beside them."""
    monkeypatch.setattr(cost, "weights", lambda run: 12 * 6 * 384**2)  # wiki-minilm
    for path in sorted(Path("results/wiki-mini/scores").glob("simcse*.json")):
        origin = json.loads(path.read_text())["provenance"]
        work, recipe = origin["outcome"]["work"], origin["run"]["recipe"]
        monkeypatch.setattr(cost, "peak", lambda *_, work=work: work["peak"])
        keys = ("sentences", "batch_size", "select_every", "precision")
        run = run_of(**{key: recipe[key] for key in keys})
        assert steps(run) == origin["outcome"]["steps"]
        seconds = estimate(run, "train", (), "test", "cpu")
        assert work["seconds"] / 10 < seconds < 10 * work["seconds"]


def test_classifiers_take_the_seconds_that_were_measured_on_a_cpu() -> None:
    """docs/performance.md: 118 s for the seven transfer tasks, at width 384."""
    _, classifier_steps = scoring_work(run_of(), ["transfer"], classifier.MODES["test"], "cpu")
    assert classifier_steps * cost.CPU_CLASSIFIER_STEP == pytest.approx(118, rel=0.1)


def test_time_grows_with_the_sentences_and_falls_with_the_precision() -> None:
    def seconds(**recipe: Any) -> float:
        return estimate(run_of(**recipe), "train", (), "test", "h200")

    assert seconds(sentences=16_000) == pytest.approx(2 * seconds(sentences=8000))
    assert seconds(sentences=80_000) == pytest.approx(10 * seconds(sentences=8000))
    assert seconds(sentences=8000, precision="float32") > 1.5 * seconds(sentences=8000)
    assert seconds(sentences=8000, layers=6) == pytest.approx(seconds(sentences=8000) / 2)


def test_steps_of_a_corpus_file(tiny_corpus: Path, tmp_path: Path) -> None:
    lines = len(tiny_corpus.read_text().splitlines())
    assert steps(run_of(corpus=str(tiny_corpus), batch_size=1)) == lines
    assert steps(run_of(corpus=str(tiny_corpus), batch_size=4, sentences=7)) == 2
    copy = tmp_path / "corpus.txt"
    copy.write_bytes(tiny_corpus.read_bytes())
    run = run_of(corpus=str(copy))
    copy.unlink()
    message = r"the size of the corpus '.*' is unknown; give a file or one of wiki1m"
    with pytest.raises(UserError, match=message):
        steps(run)


def test_each_task_is_encoded_once() -> None:
    settings = classifier.MODES["test"]
    weights = 12 * 12 * 768**2
    assert scoring_work(run_of(), ["MR"], settings, "cpu")[0] == 2 * weights * 16 * 10_662
    assert scoring_work(run_of(), ["STS13"], settings, "cpu") == (2 * weights * 16 * 2 * 1500, 0)
    sts = scoring_work(run_of(), ["sts"], settings, "cpu")
    assert scoring_work(run_of(), ["sts", "STS-B"], settings, "cpu") == sts
    words = run_of("glove", "glove.6B.300d")
    assert scoring_work(words, ["sts"], settings, "cpu") == (0, 0)


@pytest.mark.parametrize("task", ["MR", "TREC", "Length"])
def test_classifiers_take_the_steps_that_were_estimated(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On separable samples, which every head classifies correctly at the first check, so that it
    stops early."""
    settings, taken = classifier.MODES["test"], 0

    def counted(original: Any) -> Any:
        def step(self: Any, *arguments: Any) -> None:
            nonlocal taken
            taken += 1
            original(self, *arguments)

        return step

    monkeypatch.setattr(Optimiser, "step", counted(Optimiser.step))
    labels = torch.arange(200) % 2
    part = protocols.Part(torch.nn.functional.one_hot(labels).float() * 20, labels)
    if task == "MR":
        sizes = {"positive": 100, "negative": 100}
        protocols.nested(part, 2, settings, lambda heads: None)
    elif task == "TREC":
        sizes = {"train": 200, "test": 200}
        protocols.kfold(part, part, 2, settings, lambda heads: None)
    else:
        sizes = {"train": 200, "dev": 200, "test": 200}
        parts = dict.fromkeys(("train", "dev", "test"), part)
        protocols.probing([protocols.Split(parts, 2)], settings, lambda heads: None)
    kind = "probing" if task == "Length" else "transfer"
    monkeypatch.setattr(cost, "read_json", lambda path: {kind: {task: sizes}})
    _, estimated = scoring_work(run_of(), [task], settings, "cpu")
    # Folds train on less; dropout may delay a network.
    assert estimated / 1.5 <= taken <= 1.5 * estimated


# The estimate of a plan


def some_plan(seeds: Sequence[int] = (1, 2)) -> tuple[dict[str, Any], list[Planned]]:
    content = {
        "suite": "mine",
        "data": "senteval",
        "corpus": "wiki1m",
        "tasks": ["sts", "transfer"],
        "seeds": list(seeds),
        "backbones": {"bert-base-uncased": None, "roberta-large": None},
        "methods": ["simcse", "gs-infonce", "untrained[pooler=avg]", "word-overlap"],
    }
    suite = config.validate(content)
    return suite, config.planned(suite)


def test_the_total_is_the_sum_of_the_runs() -> None:
    _, planned = some_plan()
    whole = predict(planned, "test", "h200", NOTHING)
    alone = [line for one in planned for line in predict([one], "test", "h200", NOTHING)]
    assert sum(line.seconds for line in whole) == pytest.approx(sum(line.seconds for line in alone))
    assert {(line.backbone, line.stage): line.runs for line in whole} == {
        ("bert-base-uncased", "train"): 4,
        ("bert-base-uncased", "score"): 5,
        ("roberta-large", "train"): 4,
        ("roberta-large", "score"): 5,
        ("none", "score"): 1,
    }
    assert not any(line.measured for line in whole)


def test_a_skipped_run_takes_no_time() -> None:
    skipped = run_of("sscl[layer=12]")
    assert skipped.skip
    assert predict([Planned(skipped, ("sts",), ())], "test", "h200", NOTHING) == []


def test_the_printed_table_adds_up_and_is_reproducible() -> None:
    content, planned = some_plan()
    printed = report(content, planned, "h200", 4, Path("nowhere"))
    assert report(content, planned, "h200", 4, Path("nowhere")) == printed
    *rows, total = [line.split() for line in printed.partition("\n\n")[0].splitlines()[1:]]
    assert total[0] == "all"
    assert sum(int(row[2]) for row in rows) == int(total[1])
    assert sum(float(row[4]) for row in rows) == pytest.approx(float(total[3]), abs=0.05)
    assert all(float(row[5]) == pytest.approx(float(row[4]) / 4, abs=0.01) for row in rows)
    assert float(total[4]) == pytest.approx(float(total[3]) / 4, abs=0.01)


def test_the_paper_suite_takes_at_most_40_hours_of_an_h200() -> None:
    content = config.load(config.PAPERS[0])
    planned = config.planned(content)
    lines = {name: predict(planned, "test", name, NOTHING) for name in PEAKS}
    hours = {name: sum(line.seconds for line in lines[name]) / 3600 for name in PEAKS}
    assert 20 < hours["h200"] == hours["h100"] <= 40 < hours["a100"] < 1000


def test_ct_bert_trains_on_the_pairs_that_it_draws() -> None:
    assert steps(run_of("ct-bert[drawn=600]")) == 300


def test_a_dropped_batch_takes_no_step() -> None:
    texts = (
        "simcse[batch_size=3,sentences=11]",
        "simcse[batch_size=3,drop_last=true,sentences=11]",
    )
    assert [steps(run_of(text)) for text in texts] == [4, 3]


# Times from results


def leave(
    folder: Path, run: Run, device: str, seconds: float, tasks: Sequence[str] = ("MR",)
) -> Path:
    """Write the scores of a run whose training and scoring took some seconds each."""
    outcome = {"status": "finished", "steps": 100, "work": {"seconds": seconds}}
    provenance = {
        "run": run.describe(), "outcome": outcome, "device": {"name": device}, "seconds": seconds,
        "tasks": {task: {} for task in tasks},
    }  # fmt: skip
    path = folder / "mine" / "scores" / f"{run.id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"provenance": provenance, "records": []}))
    return path


def test_times_come_from_the_device_asked_for(tmp_path: Path) -> None:
    leave(tmp_path, run_of(), "NVIDIA H200", 300.0)
    leave(tmp_path, run_of("gs-infonce", sentences=6400), "NVIDIA H200", 500.0)
    leave(tmp_path, run_of("is-cse"), "NVIDIA A100-SXM4-80GB", 900.0)
    measured = Measured.read(tmp_path, "h200")
    assert Measured.read(tmp_path, "h100") == NOTHING
    other_seed = replace(run_of(), seed=1)
    assert measured.seconds(other_seed, "train", ()) == 300.0
    per_step = measured.seconds(run_of("is-cse", sentences=640), "train", ())
    assert per_step == pytest.approx(10 * (3.0 + 5.0) / 2)
    assert measured.seconds(run_of(batch_size=32), "train", ()) is None
    assert measured.seconds(run_of(name="roberta-base"), "train", ()) is None
    assert measured.seconds(run_of(), "score", ["MR"]) == 400.0
    assert measured.seconds(run_of(), "score", ["sts"]) is None
    lines = predict([Planned(run_of(), ("MR",), ())], "test", "h200", measured)
    assert {(line.stage, line.seconds, line.measured) for line in lines} == {
        ("train", 300.0, 1),
        ("score", 400.0, 1),
    }


def test_results_without_times_are_skipped(tmp_path: Path) -> None:
    # The world's tasks have SentEval's names, but not their sizes.
    leave(tmp_path, replace(run_of(), data="world"), "NVIDIA H200", 3.0)
    path = leave(tmp_path, run_of(), "NVIDIA H200", 300.0)
    content = json.loads(path.read_text())
    del content["provenance"]["seconds"]  # scored by an earlier version
    path.write_text(json.dumps(content))
    path.with_name("broken.json").write_text("{}")
    assert Measured.read(tmp_path, "h200") == NOTHING


# Times of `bench gpu-day`


def leave_gpu_day(results: Path) -> None:
    """BERT-base at batch size 64 alone, and classifiers of which a part failed."""
    seconds = {"start": 7.0, "step": 0.01, "selection": 0.5, "end": 3.0}
    shape = {"width": 768, "depth": 12, "batch": 64, "precision": "mixed", "seconds": seconds}
    rows = {
        "timing": [shape | {"encoding": {"flops": 4e13}}, {"name": "bert-large", "fault": "full"}],
        "classifiers": [{"seconds": 3.0, "steps": 1000}, {"seconds": 1.0, "steps": 7000}],
    }
    for part, found in rows.items():
        device = {"device": {"name": "NVIDIA H200"}}
        content = json.dumps({"provenance": device, "results": found})
        (results / "gpu-day").mkdir(parents=True, exist_ok=True)
        (results / "gpu-day" / f"{part}.json").write_text(content)


def test_a_training_takes_the_parts_of_its_shape(tmp_path: Path) -> None:
    leave_gpu_day(tmp_path)
    measured = Measured.read(tmp_path, "h200")
    assert Measured.read(tmp_path, "h100") == NOTHING
    whole = 7 + 15_625 * 0.01 + 125 * 0.5 + 3
    for run in (run_of(), run_of("gs-infonce"), run_of(name="roberta-base", batch_size=64)):
        assert measured.seconds(run, "train", ()) == pytest.approx(whole)
    # Other shapes, batch sizes and precisions are not known.
    others = (run_of(name="bert-large-uncased"), run_of(batch_size=32), run_of(layers=6))
    for run in (*others, run_of(precision="float32")):
        assert measured.seconds(run, "train", ()) is None
    # Results of the suite come first.
    leave(tmp_path, run_of(), "NVIDIA H200", 300.0)
    assert Measured.read(tmp_path, "h200").seconds(run_of(), "train", ()) == 300.0


def test_a_scoring_is_estimated_by_measured_rates(tmp_path: Path) -> None:
    leave_gpu_day(tmp_path)
    measured = Measured.read(tmp_path, "h200")
    for name, rate in (("bert-base-uncased", 4e13), ("bert-large-uncased", 66.9e12 * UTILISATION)):
        run = run_of(name=name)
        flop, count = scoring_work(run, ["MR"], classifier.MODES["test"], "h200")
        seconds = estimate(run, "score", ["MR"], "test", "h200", measured)
        assert seconds == pytest.approx(flop / rate + count * 4.0 / 8000)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"provenance": null}'])
def test_a_damaged_file_is_as_none(content: str, tmp_path: Path) -> None:
    leave_gpu_day(tmp_path)
    for path in (tmp_path / "gpu-day").iterdir():
        path.write_text(content)
    assert Measured.read(tmp_path, "h200") == NOTHING


# The command


def test_plan_predicts_and_writes_only_what_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["plan", "--suite", "chinese", "--device", "h200", "--gpus", "2"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "wall h at 2" in printed
    assert not list(tmp_path.iterdir())
    assert main([*words, "--out", "plan.json"]) == 0
    assert json.loads((tmp_path / "plan.json").read_text())["suite"] == "chinese"
    assert capsys.readouterr().out == printed
    assert main(["plan", "--suite", "chinese"]) == 0
    count = len(json.loads((tmp_path / "plan.json").read_text())["runs"])
    said = capsys.readouterr().out
    assert said == f"chinese: {count} runs; the configuration is valid\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--suite", "papre", "--device", "h200"], "unknown suite 'papre'; did you mean 'paper'?"),
        (
            ["--suite", "chinese", "--device", "h2000"],
            "invalid value for '--device': 'h2000' is unknown; did you mean 'h200'?",
        ),
        (
            ["--suite", "chinese", "--device", "h200", "--gpus", "0"],
            "--gpus is '0'; write a whole number from 1 to",
        ),
        (["--suite", "smoke", "--device", "h200"], "the suite 'smoke' is on the embedded world"),
    ],
)
def test_a_mistaken_estimate_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {sentence}")
    assert error.count("\n") == 1
