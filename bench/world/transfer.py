"""The seven transfer sets of SentEval with sentences of the embedded world."""

from __future__ import annotations

import random
from collections.abc import Callable

from bench.world.draws import Draw, Sample, collect, evenly
from bench.world.lexicon import TOPICS
from bench.world.opinion import Opinion, fact, phrase, review, view
from bench.world.question import CLASSES, ask
from bench.world.sets import Source, sample_pair
from bench.world.speech import REGISTERS, Tree

# Samples by class, about as unbalanced as the real sets. They include the blank lines of CR and
# MPQA.
TWO_CLASSES = {
    "MR": {"positive": 200, "negative": 200},
    "CR": {"positive": 190, "negative": 130},
    "MPQA": {"positive": 150, "negative": 250},
    "SUBJ": {"objective": 200, "subjective": 200},
}
SST = {"train": 500, "dev": 100, "test": 200}
SST_PHRASES = 0.4  # share of phrases in the training split; dev and test are sentences
TREC = {
    "train": {"ABBR": 20, "DESC": 82, "ENTY": 86, "HUM": 84, "LOC": 62, "NUM": 66},
    "test": {"ABBR": 8, "DESC": 38, "ENTY": 30, "HUM": 22, "LOC": 24, "NUM": 28},
}
MRPC = {"train": 300, "test": 150}
MRPC_SOURCE = Source("MRPC", 0, 0.6, 0.3, ("plain", "fronted"), alike=0.8)
MRPC_GOLD = 3.5  # highest gold score of a pair that is not a paraphrase

_BY_NAME = {topic.name: topic for topic in TOPICS}
ARTS = tuple(
    _BY_NAME[name] for name in ("music", "school", "sport", "sea", "war", "court")
)  # topics of MR
GOODS = tuple(_BY_NAME[name] for name in ("market", "kitchen", "clinic", "farm"))  # topics of CR


def lower(tree: Tree) -> str:
    """Return the text of a tree in lower case."""
    return " ".join(tree.words()).lower()


def _judging(
    make: Callable[[random.Random, bool], Opinion],
    names: tuple[str, str] = ("negative", "positive"),
) -> Draw:
    """Return a sampling function of opinions labelled by valence."""

    def draw(rng: random.Random) -> Sample:
        opinion = make(rng, rng.random() < 0.5)
        return names[opinion.good], lower(opinion.tree)

    return draw


def _statement(rng: random.Random) -> Sample:
    register = rng.choice(REGISTERS)
    if rng.random() < 0.5:
        return "objective", lower(fact(rng, register))
    return "subjective", lower(view(rng, register))


_DRAWS: dict[str, Draw] = {
    "MR": _judging(
        lambda rng, good: review(rng, good, rng.choice(ARTS), rng.choice(REGISTERS[:2]), 0.2)
    ),
    "CR": _judging(
        lambda rng, good: review(rng, good, rng.choice(GOODS), rng.choice(REGISTERS[1:]), 0.1)
    ),
    "MPQA": _judging(phrase),
    "SUBJ": _statement,
}


def sample_two_classes(rng: random.Random, name: str, wanted: dict[str, int]) -> list[Sample]:
    """Sample MR, CR, MPQA or SUBJ: `wanted` sentences of each class."""
    return collect(rng, _DRAWS[name], wanted, set())


def sample_sst(rng: random.Random) -> dict[str, list[Sample]]:
    """Sample the splits of SST, with labels "1" and "0"."""
    whole = _judging(
        lambda rng, good: review(rng, good, rng.choice(ARTS), rng.choice(REGISTERS[:2]), 0.2),
        ("0", "1"),
    )
    seen: set[str] = set()
    splits = {}
    for split, size in SST.items():
        short = round(size * SST_PHRASES) if split == "train" else 0
        rows = collect(rng, whole, evenly(("1", "0"), size - short), seen)
        rows += collect(rng, _judging(phrase, ("0", "1")), evenly(("1", "0"), short), seen)
        rng.shuffle(rows)
        splits[split] = rows
    return splits


def sample_trec(rng: random.Random) -> dict[str, list[Sample]]:
    """Sample the splits of TREC: coarse class and line of the file."""

    def draw(rng: random.Random) -> Sample:
        question = ask(rng, rng.choice(CLASSES))
        return question.coarse, f"{question.coarse}:{question.fine} {question.text}"

    seen: set[str] = set()
    return {split: collect(rng, draw, wanted, seen) for split, wanted in TREC.items()}


def sample_mrpc(rng: random.Random) -> dict[str, list[Sample]]:
    """Sample the splits of MRPC: "1" for equal meanings, else "0", and two sentences with a tab
    between.

    Pairs of nearly equal meanings are rejected, because raters would disagree on them.
    """

    def draw(rng: random.Random) -> Sample | None:
        pair = sample_pair(rng, MRPC_SOURCE)
        same = pair.first.meaning == pair.second.meaning
        if not same and pair.gold > MRPC_GOLD:
            return None
        return str(int(same)), f"{pair.first.text}\t{pair.second.text}"

    seen: set[str] = set()
    return {
        split: collect(rng, draw, {"1": size * 2 // 3, "0": size - size * 2 // 3}, seen)
        for split, size in MRPC.items()
    }
