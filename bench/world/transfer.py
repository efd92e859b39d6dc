"""The seven transfer sets of SentEval with sentences of the embedded world.

The files have SentEval's formats with their irregularities.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from bench.world.draws import Draw, Sample, Sizes, Stream, collect, evenly, write_lines
from bench.world.grammar import Speaker
from bench.world.lexicon import TOPIC, TOPICS
from bench.world.opinion import fact, phrase, review, view
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
_BLANKS = {"CR": {"positive": 1, "negative": 1}, "MPQA": {"positive": 1}}
_FILES = {
    "MR": "rt-polarity.{:.3}",  # the ending is the beginning of the class
    "CR": "custrev.{:.3}",
    "MPQA": "mpqa.{:.3}",
    "SUBJ": "subj.{}",
}
SST = {"train": 500, "dev": 100, "test": 200}
SST_PHRASES = {"train": 200, "dev": 0, "test": 0}  # phrases among them; the others are sentences
TREC = {
    "train": {"ABBR": 20, "DESC": 82, "ENTY": 86, "HUM": 84, "LOC": 62, "NUM": 66},
    "test": {"ABBR": 8, "DESC": 38, "ENTY": 30, "HUM": 22, "LOC": 24, "NUM": 28},
}
MRPC = {"train": 300, "test": 150}
MRPC_SOURCE = Source("MRPC", 0, 0.6, 0.3, ("plain", "fronted"), alike=0.8)
MRPC_GOLD = 3.5  # highest gold score of a pair that is not a paraphrase

ARTS = [TOPIC[name] for name in ("music", "school", "sport", "sea", "war", "court")]  # of MR
GOODS = [TOPIC[name] for name in ("market", "kitchen", "clinic", "farm")]  # of CR


def _lower(tree: Tree) -> str:
    return " ".join(tree.words()).lower()


def _judging(make: Callable[[random.Random, bool], Tree], *names: str) -> Draw:
    """Return a sampling function of opinions labelled by valence; `names` of bad and good ones."""

    def draw(rng: random.Random) -> Sample:
        good = rng.random() < 0.5
        return names[good], _lower(make(rng, good))

    return draw


def _movie_review(rng: random.Random, good: bool) -> Tree:
    topic = rng.choice(ARTS)
    return review(Speaker(rng, rng.choice(REGISTERS[:2])), good, topic, 0.2)


def _product_review(rng: random.Random, good: bool) -> Tree:
    topic = rng.choice(GOODS)
    return review(Speaker(rng, rng.choice(REGISTERS[1:])), good, topic, 0.1)


def _statement(rng: random.Random) -> Sample:
    speaker = Speaker(rng, rng.choice(REGISTERS))
    if rng.random() < 0.5:
        return "objective", _lower(fact(speaker, rng.choice(TOPICS)))
    return "subjective", _lower(view(speaker))


def _question(rng: random.Random) -> Sample:
    coarse = rng.choice(CLASSES)
    return coarse, f"{coarse}:{' '.join(ask(rng, coarse))}"


def _paraphrase(rng: random.Random) -> Sample | None:
    pair = sample_pair(rng, MRPC_SOURCE)
    # Raters would disagree on nearly equal meanings.
    clear = pair.same or pair.gold <= MRPC_GOLD
    return (str(int(pair.same)), "\t".join(pair.texts)) if clear else None


_DRAWS: dict[str, Draw] = {
    "MR": _judging(_movie_review, "negative", "positive"),
    "CR": _judging(_product_review, "negative", "positive"),
    "MPQA": _judging(phrase, "negative", "positive"),
    "SUBJ": _statement,
}


def write_transfer(folder: Path, stream: Stream) -> Sizes:
    """Write the seven transfer sets and return their sizes for the manifest."""
    for name, sizes in TWO_CLASSES.items():
        rng = stream(name)
        blanks = {label: _BLANKS.get(name, {}).get(label, 0) for label in sizes}
        wanted = {label: size - blanks[label] for label, size in sizes.items()}
        samples = collect(rng, _DRAWS[name], wanted, set())
        for label in sizes:
            lines = [f"{text} \n" for own, text in samples if own == label]
            for _ in range(blanks[label]):
                lines.insert(rng.randrange(1, len(lines)), "\n")
            write_lines(folder / name / _FILES[name].format(label), lines, "", "latin-1")

    rng, seen = stream("SST"), set[str]()
    whole, short = _judging(_movie_review, "0", "1"), _judging(phrase, "0", "1")
    for split, size in SST.items():
        rows = collect(rng, whole, evenly(("1", "0"), size - SST_PHRASES[split]), seen)
        rows += collect(rng, short, evenly(("1", "0"), SST_PHRASES[split]), seen)
        rng.shuffle(rows)
        lines = [f"{text} \t{label}" for label, text in rows]
        write_lines(folder / "SST" / "binary" / f"sentiment-{split}", lines)

    rng, seen = stream("TREC"), set[str]()
    for split, file in (("train", "train_5500.label"), ("test", "TREC_10.label")):
        lines = [line for _, line in collect(rng, _question, TREC[split], seen)]
        write_lines(folder / "TREC" / file, lines, encoding="latin-1")

    rng, seen = stream("MRPC"), set[str]()
    for split, size in MRPC.items():
        rows = collect(rng, _paraphrase, {"1": size * 2 // 3, "0": size - size * 2 // 3}, seen)
        lines = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
        for number, (label, texts) in enumerate(rows):
            lines.append(f"{label}\t{2 * number + 1}\t{2 * number + 2}\t{texts}")
        write_lines(folder / "MRPC" / f"msr_paraphrase_{split}.txt", lines, encoding="utf-8-sig")
    trec = {split: sum(wanted.values()) for split, wanted in TREC.items()}
    return {**TWO_CLASSES, "SST2": SST, "TREC": trec, "MRPC": MRPC}
