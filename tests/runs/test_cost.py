"""Predicted hours: work against what the engine counts, sums by hand, ratios from results, and what a user reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.__main__ import main
from bench.evaluation import classifier, protocols
from bench.models.roofline import record
from bench.models.transformer import load_backbone
from bench.registry.backbones import backbone
from bench.runs import config, workload
from bench.runs.config import Planned
from bench.runs.cost import ASSUMED, SHEETS, Device, Measured, predict, report
from bench.runs.run import Run, resolve
from bench.runs.workload import Architecture, classifying, corpus_tokens, encoding, training
from bench.training.context import RunContext
from bench.training.schedule import batches
from bench.utils.errors import UserError
from methods.base import Step

H200 = Device("h200")
NOTHING = Measured({}, {})


@pytest.fixture(autouse=True)
def no_local_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.delenv("BENCH_MODELS", raising=False)


def run_of(text: str = "simcse", name: str = "bert-base-uncased", corpus: str = "wiki1m", **recipe: Any) -> Run:
    return resolve(text, backbone_name=name, corpus=corpus, data="senteval", seed=42, recipe=recipe)


def looped_flop(width: int, depth: int, inner: int, length: float, first_only: bool) -> float:
    """FLOP of one sequence: a sum over layers and over each layer's products (rows, columns, inner dimension)."""
    total = 0.0
    for layer in range(depth):
        asked = 1 if first_only and layer == depth - 1 else length
        products = [(length, width, width)] * 2  # keys, values
        products += [(asked, width, width)] * 2  # queries, and what joins the heads
        products += [(asked, length, width)] * 2  # scores, and what they weigh
        products += [(asked, inner, width), (asked, width, inner)]
        total += sum(2 * rows * columns * dimension for rows, columns, dimension in products)
    return total


# What a run asks of the machine


@pytest.mark.parametrize(
    ("name", "published", "pooling_layer"),
    [  # all weights of the checkpoints' encoders, as their authors and papers count them, and the pooling layer's
        ("bert-base-uncased", 109_482_240, 768 * 769),
        ("bert-large-uncased", 335_141_888, 1024 * 1025),
        ("roberta-base", 124_645_632, 768 * 769),
        ("roberta-large", 355_359_744, 1024 * 1025),
        ("bert-base-chinese", 102_267_648, 768 * 769),
    ],
)
def test_weights_of_known_backbones(name: str, published: int, pooling_layer: int) -> None:
    assert Architecture.of(backbone(name)).weights == published - pooling_layer


def test_weights_of_a_folder_are_those_that_torch_counts(tiny_backbone: Path) -> None:
    model, _ = load_backbone(tiny_backbone)
    counted = sum(weight.numel() for weight in model.parameters())
    assert Architecture.of(backbone(str(tiny_backbone))).weights == counted
    cut = Architecture.of(backbone(str(tiny_backbone)), layers=1)
    assert counted - cut.weights == sum(w.numel() for w in model.encoder.layer[1:].parameters())


@pytest.mark.parametrize("pooler", ["cls_mlp", "avg"])
def test_a_training_does_the_work_that_was_predicted(
    pooler: str, tiny_bert: Path, tiny_data: Path, tiny_corpus: Path, tmp_path: Path
) -> None:
    recipe = {"batch_size": 8, "pooler": pooler, "max_length": 12}
    run = resolve(
        "simcse", backbone_name=str(tiny_bert), corpus=str(tiny_corpus), data=str(tiny_data), seed=1, recipe=recipe
    )
    context = RunContext(run, tmp_path, "cpu")
    method = run.build()
    method.begin(context)
    rows = list(batches(method.items(context), run.recipe, 1))
    for index, batch in enumerate(rows):
        method.step_loss(context, Step(index, len(rows), 8, 1, batch))
    work, weights, steps = training(run)
    assert steps == len(rows)
    assert work.sentences == context.work.sentences
    assert work.tokens == context.work.tokens
    # Attention grows with the square of the length, of which the mean is taken; so a little less is predicted.
    assert 0.97 * context.work.forward <= work.forward <= context.work.forward
    assert work.backward == 2 * work.forward
    assert weights == sum(w.numel() for module in context.modules() for w in module.parameters())


def test_tokens_are_measured_where_corpus_and_tokenizer_are_there(tiny_bert: Path, tiny_corpus: Path) -> None:
    run = run_of(name=str(tiny_bert), corpus=str(tiny_corpus), max_length=5, sentences=7)
    _, tokenizer = load_backbone(tiny_bert)
    lines = tiny_corpus.read_text().splitlines()
    lengths = [min(5, len(tokenizer(line)["input_ids"])) for line in lines]
    assert corpus_tokens(run) == (7, pytest.approx(sum(lengths) / len(lengths)), True)
    assert corpus_tokens(run_of(max_length=32)) == (1_000_000, 23.4, False)
    assert corpus_tokens(run_of(max_length=33))[1] == pytest.approx((23.4 + 24.1) / 2)
    with pytest.raises(UserError, match="nothing is known of the corpus"):
        corpus_tokens(run_of(corpus=str(tiny_corpus)))  # a backbone of the hub, whose tokenizer is not here


def test_bert_base_on_a_million_sentences() -> None:
    """The floor that is stated in docs/performance.md, from plain loops."""
    run = run_of()
    assert (run.recipe.batch_size, run.recipe.select_every) == (64, 125)
    tokens, dev = looped_flop(768, 12, 3072, 23.4, True), looped_flop(768, 12, 3072, 16.4, True)
    sheet = SHEETS["h200"]
    products = 3 * 2 * 1_000_000 * tokens / sheet["half"]
    weights = 15_625 * 109_482_240 * 36 / sheet["bytes_per_second"]  # the training head is as large as a pooling layer
    selections = 125 * 2909 * dev / sheet["float32"]
    (line,) = predict([Planned(run, (), ())], "test", H200, NOTHING)[:1]
    assert line.floor == pytest.approx(products + weights + selections)
    assert [products, weights, selections] == pytest.approx([22.6, 12.8, 14.2], abs=0.05)


def test_the_floor_grows_with_the_sentences_and_falls_with_the_precision() -> None:
    floors = {
        count: predict([Planned(run_of(sentences=count), (), ())], "test", H200, NOTHING)[0].floor
        for count in (8000, 16_000, 80_000)
    }
    assert floors[16_000] == pytest.approx(2 * floors[8000])
    assert floors[80_000] == pytest.approx(10 * floors[8000])
    single = predict([Planned(run_of(sentences=8000, precision="float32"), (), ())], "test", H200, NOTHING)[0].floor
    assert single > 5 * floors[8000]
    one_moment = run_of(sentences=8000, optimiser="rmsprop")
    spared = 125 * 109_482_240 * 8 / SHEETS["h200"]["bytes_per_second"]
    assert predict([Planned(one_moment, (), ())], "test", H200, NOTHING)[0].floor == pytest.approx(
        floors[8000] - spared
    )


def test_a_run_that_stops_early_has_the_work_of_its_steps() -> None:
    whole, _, steps = training(run_of())
    half, _, _ = training(run_of(), steps // 5)
    assert half.forward == pytest.approx(whole.forward / 5)
    assert half.selection == pytest.approx(whole.selection / 5)


def test_what_is_scored_is_encoded_once() -> None:
    base = run_of()
    assert encoding(base, ["STS-B"]) == pytest.approx(1344 * looped_flop(768, 12, 3072, 16.6, True))
    assert encoding(base, ["sts", "STS-B"]) == pytest.approx(encoding(base, ["sts"]))
    mean = resolve("untrained[pooler=avg]", backbone_name="roberta-large", corpus="wiki1m", data="senteval", seed=None)
    assert encoding(mean, ["MR"]) == pytest.approx(10_662 * looped_flop(1024, 24, 4096, 27.6, False))
    words = resolve("glove", backbone_name="glove.6B.300d", corpus="wiki1m", data="senteval", seed=None)
    assert encoding(words, ["sts"]) == 0


@pytest.mark.parametrize("task", ["MR", "TREC", "Length"])
def test_classifiers_take_the_steps_that_were_predicted(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On samples that are told apart at the first check, so that every head stops as early as it can."""
    settings, steps = classifier.MODES["test"], 0

    def counted(original: Any) -> Any:
        def step(self: Any, *arguments: Any) -> None:
            nonlocal steps
            steps += 1
            original(self, *arguments)

        return step

    monkeypatch.setattr(classifier._Optimiser, "step", counted(classifier._Optimiser.step))
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
        protocols.split(parts, 2, settings, lambda heads: None)
        protocols.tuned_network(parts, 2, settings, lambda heads: None)
    kind = "probing" if task == "Length" else "transfer"
    monkeypatch.setattr(workload, "read_json", lambda path: {"transfer": {}, "probing": {}} | {kind: {task: sizes}})
    predicted = classifying(2, [task], settings, flops=float("inf"), start=1 / workload.CALLS)
    if task == "Length":  # dropout may delay a network
        assert predicted <= steps <= 1.5 * predicted
    else:
        assert predicted == pytest.approx(steps)


def test_products_of_classifiers_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {
        "transfer": {
            "SST2": {"train": 128, "dev": 9, "test": 9},
            "MRPC": {"train": 100, "test": 9},
            "MR": {"all": 200},
        },
        "probing": {"Tense": {"train": 64, "dev": 9, "test": 9}},
    }
    monkeypatch.setattr(workload, "read_json", lambda path: sizes)

    def flop(task: str) -> float:
        return classifying(10, [task], classifier.MODES["test"], flops=1.0, start=0.0)

    # 28 passes of 2 steps of 4 heads with 64 samples; logits and the gradient of (10 + 1) x 2 weights.
    linear = 2 * (2 * 11 * 2)
    assert flop("SST2") == pytest.approx(28 * 2 * 4 * 64 * linear)
    # 10 folds with 90 samples, then one head with 95; a pair has 20 features.
    assert flop("MRPC") == pytest.approx(28 * 2 * 64 * (10 * 4 + 1) * 2 * (2 * 21 * 2))
    # 100 inner folds with 162 samples, three steps; then ten heads with 171.
    assert flop("MR") == pytest.approx(28 * 3 * 64 * (100 * 4 + 10) * linear)
    # Networks of 50, 100 and 200 units, at three rates of dropout each: of the second layer also its input's gradient.
    networks = sum(3 * (2 * (2 * 11 * h) + 3 * (2 * (h + 1) * 2)) for h in (50, 100, 200))
    assert flop("Tense") == pytest.approx(28 * 64 * (4 * linear + networks))
    assert flop("STS-B") == 0


# The prediction


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
    config.validate(content)
    return content, config.planned(content)


def test_the_total_is_the_sum_of_the_runs() -> None:
    _, planned = some_plan()
    whole = predict(planned, "test", H200, NOTHING)
    alone = [line for one in planned for line in predict([one], "test", H200, NOTHING)]
    assert sum(line.seconds for line in whole) == pytest.approx(sum(line.seconds for line in alone))
    assert sum(line.runs for line in whole) == len(alone)
    assert {(line.backbone, line.stage): line.runs for line in whole} == {
        ("bert-base-uncased", "train"): 4,
        ("bert-base-uncased", "score"): 5,
        ("roberta-large", "train"): 4,
        ("roberta-large", "score"): 5,
        ("none", "score"): 1,
    }
    assert all(line.seconds == ASSUMED * line.floor and line.source == "assumed" for line in whole)


def test_a_run_that_cannot_be_takes_no_time() -> None:
    skipped = run_of("sscl[layer=12]")
    assert skipped.skip
    assert predict([Planned(skipped, ("sts",), ())], "test", H200, NOTHING) == []


def test_the_printed_table_adds_up_and_is_the_same_again() -> None:
    content, planned = some_plan()
    printed = report(content, planned, "h200", 4, Path("nowhere"))
    assert report(content, planned, "h200", 4, Path("nowhere")) == printed
    rows = [line.split() for line in printed.partition("\n\n")[0].splitlines()[1:]]
    total = float(rows[-1][2])
    assert sum(float(row[5]) for row in rows[:-1]) == pytest.approx(total, abs=0.05)
    assert all(float(row[6]) == pytest.approx(float(row[5]) / 4, abs=0.01) for row in rows[:-1])
    assert float(rows[-1][3]) == pytest.approx(total / 4, abs=0.01)
    assert "0 of 2 methods" in printed
    assert "wiki1m 23.4 of 32 (assumed)" in printed


def test_the_paper_suite_takes_days_of_one_device() -> None:
    content = config.load(config.SCHEMA.with_name("paper.yaml"))
    planned = config.planned(content)
    hours = {
        name: sum(line.seconds for line in predict(planned, "test", Device(name), NOTHING)) / 3600 for name in SHEETS
    }
    assert 50 < hours["h200"] < hours["h100"] < hours["a100"] < 1000


# Ratios and factors from results


def left_behind(folder: Path, run: Run, device: str, ratio: float = 3.0, **more: float) -> None:
    """What a training on a device leaves, of `ratio` times the floor at h200's peak and `more` times the work."""
    work, weights, steps = training(run)
    for name, factor in more.items():
        setattr(work, name, factor * getattr(work, name))
    at = H200.peak(run.recipe.precision)
    least = record(work, weights, steps, 1.0, at)["floor_seconds"]
    outcome = {"status": "finished", "steps": steps, "work": record(work, weights, steps, ratio * least, at)}
    content = {"run": run.describe(), "outcome": outcome, "provenance": {"device": {"name": device}}}
    path = folder / "mine" / "trained" / f"{run.id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def test_ratios_come_from_the_device_asked_for(tmp_path: Path) -> None:
    left_behind(tmp_path, run_of(), "NVIDIA H200", ratio=3.0)
    left_behind(tmp_path, run_of("gs-infonce"), "NVIDIA H200", ratio=3.0)
    left_behind(tmp_path, run_of("is-cse"), "NVIDIA A100-SXM4-80GB", ratio=9.0)
    found = Measured.read(tmp_path, H200)
    assert found.ratio("train", "bert-base-uncased") == (pytest.approx(3.0), "measured on 2 runs")
    assert found.ratio("train", "roberta-base") == (pytest.approx(3.0), "measured on 2 runs of bert-base-uncased")
    assert found.ratio("score", "bert-base-uncased") == (ASSUMED, "assumed")
    assert Measured.read(tmp_path, Device("h100")).ratio("train", "bert-base-uncased") == (ASSUMED, "assumed")
    # A slower device's peaks make another floor of the same run.
    assert Measured.read(tmp_path, Device("a100")).ratio("train", "bert-base-uncased")[0] < 9.0
    (line,) = predict([Planned(run_of(), (), ())], "test", H200, found)[:1]
    assert line.seconds == pytest.approx(3.0 * line.floor)


def test_scorings_are_measured_too(tmp_path: Path) -> None:
    run = run_of()
    (least,) = (line.floor for line in predict([Planned(run, ("MR",), ())], "test", H200, NOTHING)[1:])
    provenance = {
        "run": run.describe(), "device": {"name": "NVIDIA H200"}, "mode": "test", "tasks": {"MR": {}},
        "seconds": 4 * least,
    }  # fmt: skip
    path = tmp_path / "mine" / "scores" / "one.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"provenance": provenance, "records": []}))
    found = Measured.read(tmp_path, H200)
    assert found.ratio("score", "bert-base-uncased") == (pytest.approx(4.0), "measured on 1 run")
    world = resolve("untrained[pooler=avg]", backbone_name="roberta-base", corpus="world", data="world", seed=None)
    small = json.dumps({"provenance": {**provenance, "run": world.describe()}, "records": []})
    path.with_name("world.json").write_text(small)  # its tasks have SentEval's names, not their sizes
    assert Measured.read(tmp_path, H200).times == found.times
    del provenance["seconds"]  # scored by an earlier version
    path.write_text(json.dumps({"provenance": provenance, "records": []}))
    assert Measured.read(tmp_path, H200).ratio("score", "bert-base-uncased") == (ASSUMED, "assumed")


def test_work_that_was_counted_stands_in_for_two_views(tmp_path: Path) -> None:
    left_behind(tmp_path, run_of("esimcse", sentences=8000), "somewhere else", forward=1.5, selection=2.0)
    found = Measured.read(tmp_path, H200)
    assert found.factors == {run_of("esimcse").text: pytest.approx((1.5, 1.0, 2.0))}
    run = run_of("esimcse", name="roberta-base")
    plain, counted = (predict([Planned(run, (), ())], "test", H200, known)[0].floor for known in (NOTHING, found))
    work, _, _ = training(run)
    more = 0.5 * work.forward / SHEETS["h200"]["half"] + work.selection / SHEETS["h200"]["float32"]
    assert counted == pytest.approx(plain + more)


def test_results_of_other_versions_say_nothing(tmp_path: Path) -> None:
    left_behind(tmp_path, run_of(), "NVIDIA H200")
    (path,) = tmp_path.glob("*/trained/*.json")
    content = json.loads(path.read_text())
    for change in ({"id": "another"}, {"method": "unheard-of"}, {"data": "world"}):
        path.write_text(json.dumps({**content, "run": content["run"] | change}))
        assert Measured.read(tmp_path, H200) == NOTHING
    del content["outcome"]["work"]
    path.write_text(json.dumps(content))
    assert Measured.read(tmp_path, H200) == NOTHING


def test_results_of_which_nothing_can_be_told_stand_in_nobodys_way(tmp_path: Path, tiny_corpus: Path) -> None:
    left_behind(tmp_path, run_of(), "NVIDIA H200")
    (path,) = tmp_path.glob("*/trained/*.json")
    content = json.loads(path.read_text())
    unknown = run_of(corpus=str(tiny_corpus))  # of a hub backbone, whose tokenizer is not here
    without = resolve("skip-thought", backbone_name="none", corpus="wiki1m", data="senteval", seed=1)
    for number, run in enumerate((unknown, without)):
        path.with_name(f"{number}.json").write_text(json.dumps({**content, "run": run.describe()}))
    assert Measured.read(tmp_path, H200).ratio("train", "bert-base-uncased")[1] == "measured on 1 run"


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


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--suite", "papre", "--device", "h200"], "unknown suite 'papre'; did you mean 'paper'?"),
        (["--suite", "chinese", "--device", "h2000"], "unknown device 'h2000'; did you mean 'h200'?"),
        (["--suite", "chinese"], "plan has nothing to do; add --out FILE.json"),
        (["--suite", "chinese", "--device", "h200", "--gpus", "0"], "--gpus is 0; write how many devices"),
        (["--suite", "smoke", "--device", "h200"], "the suite 'smoke' is on the embedded world"),
    ],
)
def test_a_mistaken_prediction_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {sentence}")
    assert error.count("\n") == 1
