"""Pairs of sentences with gold scores: the STS sets of the embedded world."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from bench.tasks.world.grammar import Sentence, Speaker
from bench.tasks.world.meaning import EVENT_FACTORS, ROLES, Event, Meaning, change, pick_topic, sample_event, similarity


@dataclass(frozen=True)
class Pair:
    """Two sentences and the similarity of what they mean, 0 to 5."""

    first: Sentence
    second: Sentence
    gold: float


@dataclass(frozen=True)
class Source:
    """One subset: where its two sides come from and how rich its meanings are.

    `detail` is the chance of each optional role, `events` the clauses of a sentence, `shape` what kind of meaning it holds
    (told, asked, defined), `echo` the chance that both sentences of a pair are said in one style.
    """

    name: str
    pairs: int
    registers: tuple[str, str]
    detail: float = 0.5
    events: int = 1
    shape: str = "told"
    echo: float = 0.1


STS: dict[str, tuple[Source, ...]] = {
    "STS12": (
        Source("MSRpar", 70, ("news", "news"), 0.6, events=2),
        Source("MSRvid", 70, ("caption", "caption"), 0.15),
        Source("SMTeuroparl", 50, ("parliament", "parliament"), 0.6, echo=0.25),
        Source("surprise.OnWN", 60, ("definition", "definition"), 0.3, shape="defined"),
        Source("surprise.SMTnews", 50, ("news", "answer"), 0.5),
    ),
    "STS13": (
        Source("FNWN", 40, ("frame", "definition"), 0.5, shape="defined"),
        Source("headlines", 90, ("headline", "headline"), 0.5),
        Source("OnWN", 70, ("definition", "definition"), 0.4, shape="defined", echo=0.25),
    ),
    "STS14": (
        Source("deft-forum", 50, ("forum", "forum"), 0.4),
        Source("deft-news", 40, ("news", "wiki"), 0.8),
        Source("headlines", 60, ("headline", "headline"), 0.6),
        Source("images", 60, ("caption", "caption"), 0.4),
        Source("OnWN", 60, ("definition", "definition"), 0.3, shape="defined"),
        Source("tweet-news", 60, ("tweet", "headline"), 0.6),
    ),
    "STS15": (
        Source("answers-forums", 60, ("forum", "answer"), 0.5),
        Source("answers-students", 70, ("answer", "answer"), 0.3, echo=0.25),
        Source("belief", 60, ("forum", "parliament"), 0.3),
        Source("headlines", 60, ("headline", "headline"), 0.5),
        Source("images", 60, ("caption", "caption"), 0.5),
    ),
    "STS16": (
        Source("answer-answer", 50, ("answer", "forum"), 0.5),
        Source("headlines", 50, ("headline", "headline"), 0.5),
        Source("plagiarism", 50, ("wiki", "answer"), 0.6, echo=0.25),
        Source("postediting", 50, ("parliament", "news"), 0.5, events=2, echo=0.25),
        Source("question-question", 60, ("question", "question"), 0.4, shape="asked"),
    ),
}

# What the benchmark's pairs and the compositional pairs of SICK are made of.
_MIXED = tuple(replace(source, pairs=0) for subset in ("STS12", "STS14", "STS16") for source in STS[subset])
STSB = {"train": 300, "dev": 400, "test": 240}
SICK = {"train": 200, "trial": 80, "test_annotated": 300}
SICK_SOURCE = Source("SICK", 0, ("plain", "plain"), 0.25, echo=0.25)

# Changes to the first meaning that make the second, and how often: none (a paraphrase), one, two, ... roles; or, as negative
# numbers, a new meaning from the same topic (-1) or from any (-2).
_CHANGES = (0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 5, -1, -1, -1, -2, -2, -2)
_CHANGEABLE = ("verb", "agent", "patient", "verb", "agent", "patient", "swap", *ROLES, *EVENT_FACTORS)


def new_meaning(rng: random.Random, source: Source, topic_of: Meaning | None = None) -> Meaning:
    """A meaning as the source has them, in the topic of another meaning where one is given."""
    topic = pick_topic(rng) if topic_of is None else topic_for(topic_of)
    events = tuple(sample_event(rng, topic, source.detail, sober=rng.random() < 0.7) for _ in range(source.events))
    link = rng.choice(("and", "then", "because")) if source.events == 2 else None
    stance = rng.choice(("glad", "sorry")) if source.shape == "told" and rng.random() < 0.1 else None
    question = None
    if source.shape == "asked":
        question = rng.choice(("whether", "whether", "who", "what", "where", "when", "why", "how"))
    meaning = Meaning(events, link, question, stance)
    return replace(meaning, events=tuple(_fit(event, source, question) for event in events))


def topic_for(meaning: Meaning):
    """The topic that a meaning's first event is about."""
    from bench.tasks.world.lexicon import TOPICS

    event = meaning.events[0]
    named = {concept.family for concept in (event.verb, event.agent, event.patient, event.place) if concept is not None}
    return next((topic for topic in TOPICS if topic.name in named), TOPICS[0])


def _fit(event: Event, source: Source, question: str | None) -> Event:
    """The event without what the source cannot say or the question asks for."""
    if source.shape == "defined":
        return replace(event, agent=None, name=None, agent_many=False, tense="present", mood="fact", negative=False)
    if question == "who":
        return replace(event, agent=None, name=None, agent_many=False)
    if question == "what":
        return replace(event, patient=None, quality=None, patient_many=False)
    if question == "where":
        return replace(event, place=None, town=None)
    if question == "when":
        return replace(event, time=None)
    return event


def changed(meaning: Meaning, changes: int, rng: random.Random, source: Source) -> Meaning:
    """The meaning after `changes` drawn changes to its events' roles."""
    for _ in range(changes):
        place = rng.randrange(len(meaning.events))
        for _ in range(20):  # until a role that is told is hit
            event = _fit(change(meaning.events[place], rng.choice(_CHANGEABLE), rng), source, meaning.question)
            if event != meaning.events[place]:
                break
        events = list(meaning.events)
        events[place] = event
        meaning = replace(meaning, events=tuple(events))
    return meaning


def sample_pair(rng: random.Random, source: Source) -> Pair:
    """A pair of the source: its gold spread over the scale by the number of changes."""
    first = new_meaning(rng, source)
    changes = rng.choice(_CHANGES)
    if changes >= 0:
        second = changed(first, changes, rng, source)
    else:
        second = new_meaning(rng, source, topic_of=first if changes == -1 else None)
    style = rng.getrandbits(32)
    echo = changes != 0 and rng.random() < source.echo
    other = style if echo else rng.getrandbits(32)
    left, right = source.registers
    return Pair(Speaker(left, style).say(first), Speaker(right, other).say(second), similarity(first, second))


def sample_set(rng: random.Random, source: Source, pairs: int | None = None) -> list[Pair]:
    """Distinct pairs of one source."""
    found: dict[tuple[str, str], Pair] = {}
    while len(found) < (source.pairs if pairs is None else pairs):
        pair = sample_pair(rng, source)
        found.setdefault((pair.first.text, pair.second.text), pair)
    return list(found.values())


def sample_mixed(rng: random.Random, pairs: int) -> list[tuple[Source, Pair]]:
    """Pairs of the mixed benchmark, each with the source it is drawn from."""
    return [(source, sample_pair(rng, source)) for source in (rng.choice(_MIXED) for _ in range(pairs))]
