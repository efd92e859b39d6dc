"""The smallest run and the smallest suite that tests share."""

from pathlib import Path
from typing import Any

from bench.runs import config
from bench.runs.plan import Plan
from bench.runs.resolve import resolve, suite_recipe
from bench.runs.run import Run

SMALL = {"batch_size": 8, "learning_rate": 1e-3, "select_every": 2, "sentences": 28}  # four steps


def tiny_run(
    text: str, bert: Path, data: Path, corpus: Path, /, seed: int = 1, **recipe: object
) -> Run:
    """A run of four steps, unless its text or `recipe` says otherwise."""
    names = {key: value for key, value in {**SMALL, **recipe}.items() if f"{key}=" not in text}
    places = {"backbone_name": str(bert), "corpus": str(corpus), "data": str(data)}
    return resolve(text, **places, seed=seed, recipe=names)


def train_words(method: str, bert: Path, data: Path, corpus: Path) -> list[str]:
    """The command that trains and scores a method with seed 1, without the suite's folder."""
    places = [str(bert), "--corpus", str(corpus), "--data", str(data)]
    recipe = ["--recipe", "batch_size=8", "select_every=2"]
    return ["train", method, *places, "--seed", "1", *recipe]


def tiny_configuration(
    bert: object, data: object, corpus: object, /, **content: Any
) -> dict[str, Any]:
    """A suite of one seed on one backbone; `content` has its methods and may change the rest."""
    own = {"suite": "tiny", "data": str(data), "corpus": str(corpus), "tasks": ["sts"]}
    return own | {"seeds": [1], "backbones": {str(bert): None}} | content


def seeds_of_simcse(count: int) -> Plan:
    """The plan of SimCSE on bert-base-uncased with a number of seeds, scored on a task alone."""
    content = {"suite": "s", "data": "senteval", "corpus": "wiki1m", "tasks": ["MR"]}
    content |= {"seeds": [*range(1, count + 1)], "backbones": {"bert-base-uncased": None}}
    return config.plan(config.validate(content | {"methods": ["simcse"]}))


def training_words(run: Run, suite: Path) -> list[str]:
    """The command that trains a run, given by its text."""
    recipe = [f"{key}={value}" for key, value in sorted(suite_recipe(run).items())]
    words = ["train", run.text, run.reference, "--suite", str(suite)]
    words += ["--corpus", run.corpus, "--data", run.data, "--seed", str(run.seed)]
    return [*words, "--recipe", *recipe, "--stages", "train"]
