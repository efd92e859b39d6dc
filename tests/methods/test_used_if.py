"""Hyper-parameters without effect (`Method.used_if`) change no weight and make no other run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.checks.method_contract import STEPS, Trial
from bench.checks.verify import computing
from bench.registry.methods import method_class, method_classes
from bench.runs.run import Run

# What switches a hyper-parameter off, and two of its values.
CASES = {
    ("cards", "words"): ("switch=0,neighbours=2", "each", "count"),
    ("cards", "retrieval"): ("switch=0,neighbours=0", "avg", "cls_before_pooler"),
    ("cropping", "lines"): ("unit=sentence", 2, 3),
    ("cropping", "longest"): ("unit=sentence", 128, 8),
    ("cropping", "cut"): ("unit=document", 0.1, 0.5),
    ("dclr", "complement"): ("phi=2", "backbone", "toy-bert"),
    ("dclr", "complement_dropout"): ("phi=2", False, True),
    ("dclr", "ascent_steps"): ("noise_times=0", 4, 1),
    ("dclr", "ascent_size"): ("ascent_steps=0", 1e-3, 1.0),
    ("declutr", "masked"): (
        "language=0,anchors=1,document=8,longest=4,shortest=2,drop_last=false",
        0.15,
        0.5,
    ),
    ("diffcse", "generator"): ("weight=0", "backbone", "toy-bert"),
    ("diffcse", "masked"): ("weight=0", 0.3, 0.6),
    ("diffcse", "padded"): ("weight=0", False, True),
    ("esimcse", "redraw"): ("rate=0", True, False),
    ("esimcse", "momentum"): ("queue=0", 0.995, 0.1),
    ("esimcse", "random_start"): ("queue=0", False, True),
    ("focal-infonce", "hardness"): ("focal_negative=false", 0.3, 1.0),
    ("gs-infonce", "std"): ("multiple=0", 1.0, 2.0),
    ("gs-infonce", "weight"): ("multiple=0", 1.0, 2.0),
    ("is-cse", "neighbours"): ("group=kmeans", 16, 4),
    ("is-cse", "beta"): ("group=kmeans", 2.0, 0.5),
    ("is-cse", "clusters"): ("group=knn", 64, 8),
    ("is-cse", "gamma"): ("group=knn", 0.5, 0.1),
    ("mixcse", "share"): ("mixtures=none", 0.2, 0.4),
    ("mixcse", "mixed_anchors"): ("mixtures=none", True, False),
    ("mixcse", "normalised"): ("mixtures=none", False, True),
    ("mixcse", "larger_share"): ("mixtures=none", "zeroed", "removed"),
    ("rankcse", "teacher"): ("gamma=0", "backbone", "toy-bert"),
    ("rankcse", "teacher_2"): ("gamma=0", None, "backbone"),
    ("rankcse", "teacher_pooler"): ("gamma=0", "avg", "cls_before_pooler"),
    ("rankcse", "alpha"): ("teacher=backbone,teacher_2=none", 0.33, 0.9),
    ("rankcse", "ranking"): ("gamma=0", "listmle", "listnet"),
    ("rankcse", "tau2"): ("gamma=0", 0.05, 1.0),
    ("rankcse", "tau3"): ("ranking=listmle", 0.025, 1.0),
    ("rankcse", "rank_epsilon"): ("ranking=listnet", 0.0, 1e-2),
    ("rankcse", "consistency"): ("beta=0", "divergence", "entropy"),
    ("simcse-plus-plus", "feature_temperature"): ("weight=0", 5.0, 1.0),
    ("sscl", "stack"): ("layer=1", 2, 1),
    ("sup-simcse", "own_weight"): ("contradictions=false", 1.0, 2.0),
    ("word-noise", "probability"): ("noise=none", 0.1, 0.9),
    ("word-noise", "reading"): ("noise=none", "shared", "second"),
}


class Forced(Trial):
    """A trial whose runs have one hyper-parameter with a value that planning would drop."""

    def __init__(self, name: str, suite: Path, text: str, key: str, value: Any) -> None:
        super().__init__(method_class(name), suite)
        self.forced, self.key, self.value = text, key, value

    def resolve(self, text: str, seed: int = 1) -> Run:
        run = super().resolve(self.forced, seed)
        ((name, version, hyper),) = run.parts
        return replace(run, parts=((name, version, {**hyper, self.key: self.value}),))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trial")


def test_every_entry_has_its_case() -> None:
    entries = {(name, key) for name, cls in method_classes().items() for key in cls.used_if}
    assert entries == CASES.keys()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "key"), CASES)
def test_without_effect_it_changes_no_weight(name: str, key: str, inputs: Path) -> None:
    off, *values = CASES[name, key]
    trials = [Forced(name, inputs, f"{name}[{off}]", key, value) for value in values]
    with computing(1, deterministic=True):
        first, second = (trial.training(steps=STEPS).modules.state_dict() for trial in trials)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("name", "key"), CASES)
def test_without_effect_it_makes_no_other_run(name: str, key: str, inputs: Path) -> None:
    off, *values = CASES[name, key]
    trial = Trial(method_class(name), inputs)
    words = {"none" if one is None else str(one).lower() for one in values}
    texts = [f"{name}[{off},{key}={word}]" for word in words if f"{key}=" not in off]
    assert {trial.resolve(text).id for text in texts} == {trial.resolve(f"{name}[{off}]").id}
