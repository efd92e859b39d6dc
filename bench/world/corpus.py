"""The training corpus: documents about one topic and a main character."""

from __future__ import annotations

import random

from bench.world.grammar import Speaker, sample_clause
from bench.world.lexicon import TOPICS, Topic
from bench.world.meaning import sample_meaning
from bench.world.opinion import fact, guess, phrase, review
from bench.world.question import CLASSES, ask
from bench.world.speech import REGISTERS

# Kinds of sentences, those of the STS sets ("event") and of transfer and probing sets: weights.
_KINDS = {
    "event": 56, "narration": 8, "coordination": 4, "fact": 2, "guess": 2, "review": 18,
    "phrase": 4, "question": 6,
}  # fmt: skip


def sample_document(rng: random.Random) -> list[str]:
    """Sample a title and 4 to 12 sentences of one topic, mostly in one register."""
    topic = rng.choice(TOPICS)
    hero = rng.randrange(len(topic.agents))
    register = rng.choice(REGISTERS)
    liked = rng.random() < 0.5  # opinions of one valence, so that co-occurrence reveals it
    title = sample_meaning(rng, 0.0, topic, hero)
    sentences = [Speaker(rng, register).say(title, ("plain",), 0.0)]
    for _ in range(rng.randrange(4, 13)):
        scene = hero if rng.random() < 0.3 else None
        spoken = register if rng.random() < 0.7 else rng.choice(REGISTERS)
        sentences.append(_sentence(Speaker(rng, spoken), topic, scene, liked))
    return sentences


def _sentence(speaker: Speaker, topic: Topic, scene: int | None, liked: bool) -> str:
    rng = speaker.rng
    kind = rng.choices(list(_KINDS), list(_KINDS.values()))[0]
    if kind == "event":
        return speaker.say(sample_meaning(rng, 0.5, topic, scene))
    if kind == "question":
        return ask(rng, rng.choice(CLASSES), topic, scene)[1]
    if kind == "fact":
        return fact(speaker, topic).text()
    if kind == "guess":
        return guess(speaker, topic).text()
    if kind == "phrase":
        return phrase(rng, liked).text()
    if kind == "review":
        return review(speaker, liked, topic).text()
    first = sample_clause(rng, 0.5, topic, scene)
    joined = kind == "coordination"
    second = sample_clause(rng, 0.3, topic, scene, first.past) if joined else None
    return speaker.narrate(first, second).text()
