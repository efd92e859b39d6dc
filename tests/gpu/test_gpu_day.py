"""`bench gpu-day` on the pretended device: every part, what fails, and the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import main
from bench.checks import gpu_day, timing
from bench.checks.gpu_day import LOSSES, PARTS, Day, measure, time_classifiers
from bench.checks.gpu_page import SECTIONS, page
from bench.checks.timing import PublishedShape
from bench.evaluation import protocols
from bench.evaluation.classifier import MODES, Fitted
from bench.models import fused_graphs
from bench.runs import config
from bench.runs.cost import Measured
from bench.utils.files import read_json, write_json
from tests.support.pretended_device import PretendedDevice
from tests.support.tiny_suite import tiny_configuration

Patch = pytest.MonkeyPatch
SHAPE = PublishedShape("bert", 32, 2, 4, 60, 8, official=3835, goal=105)
SMALL = {
    "MR": ({"positive": 40, "negative": 40}, 1),
    "Length": ({"train": 64, "dev": 16, "test": 16}, 2),
}


@pytest.fixture
def day(tiny_bert: Path, tiny_data: Path, tiny_corpus: Path, tmp_path: Path) -> Day:
    """Small enough for the pretended device. Every score is within the reference."""
    recipe = {"batch_size": 8, "select_every": 2, "sentences": 32}
    methods = {"recipe": recipe, "methods": ["word-overlap", "simcse"], "seeds": [3, 4]}
    content = tiny_configuration(tiny_bert, tiny_data, tiny_corpus, tasks=["STS12"], **methods)
    plan = config.plan(content, config.planned(content))
    write_reference(tmp_path / "reference.json", plan, [-200.0, 200.0])
    shapes = {"small": SHAPE, "small-float32": replace(SHAPE, precision="float32")}
    sizes: dict[str, Any] = {"shapes": shapes, "steps": 4, "every": 2, "pairs": 6}
    sizes["graph_steps"] = 12
    out, reference = tmp_path / "gpu-day", tmp_path / "reference.json"
    return Day(out, plan, reference, classified=SMALL, width=8, **sizes)


def write_reference(path: Path, plan: dict[str, Any], values: Sequence[float]) -> None:
    names = [f"{run['method']}@{run['setting']} on {run['backbone']}" for run in plan["runs"]]
    cells = {name: {"STS12 spearman": values} for name in names}
    arithmetics = {name: {"cells": cells} for name in ("plain", "oldest")}
    write_json(path, {"runs": {}, "cells": cells, "arithmetics": arithmetics})


def results(day: Day, part: str) -> list[dict[str, Any]]:
    content = read_json(day.out / f"{part}.json")
    assert content["provenance"]["device"]["name"] == "NVIDIA H200 (pretended)"
    rows: list[dict[str, Any]] = content["results"]
    return rows


def test_every_part(day: Day, device: PretendedDevice, monkeypatch: Patch) -> None:
    monkeypatch.setattr(fused_graphs, "SEEN", 1)
    assert measure(day, list(PARTS)) == []
    (losses,) = results(day, "losses")
    assert losses["name"] == "simcse@official on tiny-bert"
    assert losses["losses"] == pytest.approx(losses["on_the_cpu"], rel=2e-5)  # as test_training.py
    assert len(losses["losses"]) == LOSSES
    words, trained = results(day, "smoke")
    assert (words["scores"], trained["scores"]) == (1, 1)
    assert words["outside"] == trained["outside"] == []
    assert len(list((day.out / "smoke" / "trained").iterdir())) == 1  # the first seed alone
    own, single = results(day, "timing")
    assert (own["precision"], single["precision"]) == ("mixed", "float32")
    seconds = own["seconds"]
    assert all(seconds[part] > 0 for part in ("start", "step", "selection", "end"))
    steps = 125_000  # a million sentences in batches of 8, and a selection every 2
    counted = seconds["start"] + steps * seconds["step"] + steps / 2 * seconds["selection"]
    assert own["million"] == pytest.approx(counted + seconds["end"])
    assert own["memory"] == 2**30
    assert own["work"]["peak"]["type"] == "float16"
    assert own["host"] > 0
    assert own["encoding"]["flops"] > 0
    for name, row in zip(day.shapes, results(day, "graphs"), strict=True):
        assert (row["shape"], row["steps"]) == (name, 12)
        assert 0 < row["replays"] < 12
        assert row["seconds"].keys() == {"without", "with"}
        assert min(row["seconds"].values()) > 0
    for task, row in zip(SMALL, results(day, "classifiers"), strict=True):
        sizes, count = SMALL[task]
        fewest = protocols.fewest_steps(sizes, MODES["test"], "cuda", task == "Length")
        assert (row["name"], row["tasks"], row["steps"]) == (task, count, fewest)
    assert_rendered(page(day.out))
    measured = Measured.read(day.out.parent, "h200")
    assert measured.parts[32, 2, 8, "mixed"] == seconds
    assert measured.encoding[32, 2] == single["encoding"]["flops"]
    assert measured.classifier_step


def assert_rendered(text: str) -> None:
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        f"### {part.capitalize()}" for part in SECTIONS
    ]
    assert sum("NVIDIA H200 (pretended), torch " in line for line in lines) == len(SECTIONS)
    (small,) = (line for line in lines if line.startswith("| small |") and "3,835" in line)
    assert small.split(" | ")[2:4] == ["105", "3,835"]
    (small,) = (line for line in lines if line.startswith("| small |") and line.endswith("% |"))
    assert small.split(" | ")[1] == "8, mixed"
    assert any(line.startswith("| 2 x Length |") for line in lines)


@pytest.mark.parametrize(("task", "count"), [("MR", 1), ("Length", 2)])
def test_classifiers_train_the_fewest_passes(
    task: str, count: int, day: Day, monkeypatch: Patch
) -> None:
    """So that the steps, by which their seconds are divided, are those taken."""
    passes: list[int] = []

    def noted(*arguments: Any, **more: Any) -> list[list[Fitted]]:
        fitted = fit(*arguments, **more)
        passes.extend(head.passes for heads in fitted for head in heads)
        return fitted

    fit = protocols.fit
    monkeypatch.setattr(protocols, "fit", noted)
    sizes = SMALL[task][0] if task == "MR" else {"train": 512, "dev": 16, "test": 16}
    time_classifiers(sizes, count, replace(day, device="cpu"))
    settings = MODES["test"]
    assert set(passes) == {settings.epoch_size * (settings.tenacity + 2)}
    networks = len(protocols.NETWORKS)
    assert len(passes) == {"MR": 10 * (10 * 4 + 1), "Length": 2 * (4 + networks)}[task]


@pytest.mark.parametrize("factor", [1.1, math.nan])
def test_other_losses_are_a_fault(factor: float, day: Day, monkeypatch: Patch) -> None:
    found = iter([[4.0, 3.0, 2.0], [4.0, 3.0, 2.0 * factor]])
    monkeypatch.setattr(gpu_day, "first_losses", lambda *_: next(found))
    (fault,) = measure(replace(day, device="cpu"), ["losses"])
    assert fault.startswith("losses, simcse@official on tiny-bert: the losses differ by ")


@pytest.mark.parametrize(
    ("losses", "replays", "said"),
    [
        ([3.0, 2.5], 1, "the loss of step 2 is 2.5 with CUDA graphs and 2.0 without"),
        ([3.0, math.nan], 1, "the loss of step 2 is nan with CUDA graphs and 2.0 without"),
        ([3.0, 2.0], 0, "no step of 12 was computed by a CUDA graph"),
    ],
)
def test_graphs_that_are_wrong_or_not_used_are_a_fault(
    losses: list[float], replays: int, said: str, day: Day, monkeypatch: Patch
) -> None:
    found = {False: (0.1, [3.0, 2.0], 0), True: (0.1, losses, replays)}
    monkeypatch.setattr(timing, "_half_timed", lambda *_, graphs: found[graphs])
    faults = measure(replace(day, device="cpu", shapes={"small": SHAPE}), ["graphs"])
    assert len(faults) == 1
    assert faults[0].startswith(f"graphs, small: {said}")


def test_scores_outside_the_reference_are_listed(day: Day) -> None:
    write_reference(day.reference, day.plan, [-300.0])
    assert measure(replace(day, device="cpu"), ["smoke"]) == []
    words, _ = read_json(day.out / "smoke.json")["results"]
    (outside,) = words["outside"]
    assert outside["cell"] == "STS12 spearman"
    assert outside["value"] > outside["high"] > -301
    assert "2 runs with 2 scores, 2 of them outside" in page(day.out)


def test_results_of_other_code_are_not_kept(day: Day) -> None:
    there = replace(day, device="cpu")
    first, second = (smoke_of(there, spoilt) for spoilt in (False, True))
    assert second == first


def smoke_of(day: Day, spoilt: bool) -> Any:
    for path in (day.suite / "scores").glob("*.json") if spoilt else ():
        content = read_json(path)
        write_json(
            path, content | {"records": [one | {"value": 500.0} for one in content["records"]]}
        )
    assert measure(day, ["smoke"]) == []
    return read_json(day.out / "smoke.json")["results"]


def test_what_fails_does_not_stop_the_others(day: Day, monkeypatch: Patch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(protocols, "nested", broken)
    (fault,) = measure(replace(day, device="cpu"), ["classifiers"])
    assert "RuntimeError" in fault
    assert "illegal memory access" in fault
    first, second = read_json(day.out / "classifiers.json")["results"]
    assert "fault" in first
    assert second["seconds"] > 0
    assert "* **MR** failed: RuntimeError" in page(day.out)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "no GPU is visible; gpu-day tests and measures one"),
        (["--parts", "timings"], "unknown part 'timings'; did you mean 'timing'?"),
    ],
)
def test_a_mistake_is_a_sentence(
    words: list[str], sentence: str, monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(["gpu-day", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {sentence}")
    assert error.count("\n") == 1
