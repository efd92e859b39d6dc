"""The STS sets of the embedded world: sentence pairs with gold scores."""

from __future__ import annotations

import random
from typing import NamedTuple

from bench.world.grammar import STRUCTURES, Speaker
from bench.world.lexicon import TOPIC
from bench.world.meaning import FACTORS, ROLES, Meaning, change, sample_meaning, similarity
from bench.world.speech import REGISTERS


class Pair(NamedTuple):
    """Two sentences, their meanings, and the similarity of these, 0 to 5."""

    texts: tuple[str, str]
    meanings: tuple[Meaning, Meaning]
    gold: float

    @property
    def same(self) -> bool:
        """Whether the meanings are equal."""
        return self.meanings[0] == self.meanings[1]

    def lower(self) -> list[str]:
        """Return the sentences in lower case."""
        return [text.lower() for text in self.texts]


class Source(NamedTuple):
    """A subset and its sampling parameters."""

    name: str
    pairs: int
    detail: float = 0.5  # chance of each optional role
    padding: float = 0.6  # chance of a filler phrase
    structures: tuple[str, ...] = STRUCTURES
    registers: tuple[int, ...] = (0, 1, 2, 3)
    alike: float = 0.75  # chance that register, structure and opening phrase are shared


_PLAIN = ("plain", "fronted")

STS: dict[str, tuple[Source, ...]] = {
    "STS12": (
        Source("MSRpar", 70, 0.9, 0.7),
        Source("MSRvid", 70, 0.2, 0.2, ("plain",)),
        Source("SMTeuroparl", 50, 0.7, 0.9, registers=(0, 2)),
        Source("surprise.OnWN", 60, 0.3),
        Source("surprise.SMTnews", 50, 0.7, registers=(0, 1)),
    ),
    "STS13": (
        Source("FNWN", 40, 0.6, 0.9, registers=(0, 3)),
        Source("headlines", 90, 0.5, 0.0, _PLAIN),
        Source("OnWN", 70, 0.3),
    ),
    "STS14": (
        Source("deft-forum", 50, 0.4, 0.8, registers=(1, 3)),
        Source("deft-news", 40, 0.8, registers=(0, 1)),
        Source("headlines", 60, 0.5, 0.0, _PLAIN),
        Source("images", 60, 0.3, 0.3, _PLAIN),
        Source("OnWN", 60, 0.3),
        Source("tweet-news", 60, 0.6, 0.4, registers=(0, 1)),
    ),
    "STS15": (
        Source("answers-forums", 60, 0.5, 0.8, registers=(1, 3)),
        Source("answers-students", 70, 0.3, 0.5, _PLAIN),
        Source("belief", 60, 0.4, 0.9, registers=(1, 2)),
        Source("headlines", 60, 0.5, 0.0, _PLAIN),
        Source("images", 60, 0.4, 0.3, _PLAIN),
    ),
    "STS16": (
        Source("answer-answer", 50, 0.5, 0.7, registers=(0, 1)),
        Source("headlines", 50, 0.5, 0.0, _PLAIN),
        Source("plagiarism", 50, 0.7, 0.6),
        Source("postediting", 50, 0.8, 0.6),
        Source("question-question", 60, 0.4, 0.7, registers=(3, 1)),
    ),
}

STSB = {"train": 300, "dev": 400, "test": 300}
SICK = {"train": 200, "trial": 100, "test_annotated": 300}
SICK_SOURCE = Source("SICK", 0, 0.4, 0.3)
NLI = Source("NLI", 1000, 0.4, 0.3)  # of triples
_MIXED = tuple(source for year in ("STS12", "STS14", "STS16") for source in STS[year])

# Uniform choices for the second meaning of a pair: a number of changes (0 for a paraphrase), agent
# and thing exchanged (or one change if they are not both persons), or a new meaning of the same or
# of any topic.
_EXCHANGED, _SAME_TOPIC, _ANY_TOPIC = -1, -2, -3
_CHANGES = [0] * 4 + [_EXCHANGED] * 4 + [1, 1, 2, 3] + [_SAME_TOPIC] * 2 + [_ANY_TOPIC] * 2
_CHANGEABLE = ("agent", "verb", "thing", *ROLES, *FACTORS)


def _second(first: Meaning, rng: random.Random, source: Source) -> Meaning:
    changes = rng.choice(_CHANGES)
    if changes in (_SAME_TOPIC, _ANY_TOPIC):
        topic = TOPIC[first.agent.family] if changes == _SAME_TOPIC else None
        return sample_meaning(rng, source.detail, topic)
    if changes == _EXCHANGED and (exchanged := change(first, "order", rng)) != first:
        return exchanged
    meaning = first
    for _ in range(abs(changes)):
        meaning = change(meaning, rng.choice(_CHANGEABLE), rng)
    return meaning


def sample_pair(rng: random.Random, source: Source) -> Pair:
    """Sample a pair of a source."""
    first = sample_meaning(rng, source.detail)
    second = _second(first, rng, source)
    left = right = rng.choice(source.registers)
    structures, padding = source.structures, source.padding
    if rng.random() < source.alike:
        structures, padding = (rng.choice(structures),), float(rng.random() < padding)
    else:
        right = rng.choice(source.registers)
    one = Speaker(rng, REGISTERS[left]).say(first, structures, padding)
    other = Speaker(rng, REGISTERS[right]).say(second, structures, padding)
    return Pair((one, other), (first, second), similarity(first, second))


def sample_set(rng: random.Random, source: Source, pairs: int) -> list[Pair]:
    """Sample distinct pairs of one source."""
    distinct: dict[tuple[str, str], Pair] = {}
    while len(distinct) < pairs:
        pair = sample_pair(rng, source)
        distinct.setdefault(pair.texts, pair)
    return list(distinct.values())


def sample_triples(rng: random.Random, source: Source) -> list[tuple[str, ...]]:
    """Sample distinct triples: a sentence, one of its meaning, and one of its opposite."""
    distinct: dict[tuple[str, ...], None] = {}
    while len(distinct) < source.pairs:
        meaning = sample_meaning(rng, source.detail)
        said = (meaning, meaning, change(meaning, "negative", rng))
        texts = tuple(
            Speaker(rng, REGISTERS[rng.choice(source.registers)]).say(
                one, source.structures, source.padding
            )
            for one in said
        )
        if len({*texts}) == len(texts):
            distinct.setdefault(texts)
    return list(distinct)


def sample_mixed(rng: random.Random, pairs: int) -> list[tuple[Source, Pair]]:
    """Sample pairs of the mixed benchmark, with their sources."""
    sources = (rng.choice(_MIXED) for _ in range(pairs))  # each is drawn before its pair
    return [(source, sample_pair(rng, source)) for source in sources]
