"""The training corpus: documents about one topic and a main character."""

from __future__ import annotations

import random

from bench.world.grammar import coordinate, narrate, sample_clause
from bench.world.lexicon import TOPICS, Topic
from bench.world.meaning import sample_meaning
from bench.world.opinion import fact, guess, phrase, review
from bench.world.question import CLASSES, ask
from bench.world.speech import REGISTERS, Register, say, spell

# Kinds of sentences and their weights: events as in the STS sets, and those of transfer and probing
# sets.
_KINDS = {
    "event": 56,
    "narration": 8,
    "coordination": 4,
    "fact": 2,
    "guess": 2,
    "review": 18,
    "phrase": 4,
    "question": 6,
}


def sample_document(rng: random.Random) -> list[str]:
    """Sample a title and 4 to 12 sentences of one topic; 30 % are about the main character, 70 % in
    one register."""
    topic = rng.choice(TOPICS)
    hero = rng.randrange(len(topic.agents))
    register = rng.choice(REGISTERS)
    liked = (
        rng.random() < 0.5
    )  # all opinions of a document have one valence, so that co-occurrence reveals it
    sentences = [say(sample_meaning(rng, 0.0, topic, hero), rng, register, ("plain",), 0.0).text]
    for _ in range(rng.randrange(4, 13)):
        scene = hero if rng.random() < 0.3 else None
        spoken = register if rng.random() < 0.7 else rng.choice(REGISTERS)
        sentences.append(_sentence(rng, topic, scene, spoken, liked))
    return sentences


def _sentence(
    rng: random.Random, topic: Topic, scene: int | None, register: Register, liked: bool
) -> str:
    kind = rng.choices(list(_KINDS), list(_KINDS.values()))[0]
    if kind == "event":
        return say(sample_meaning(rng, 0.5, topic, scene), rng, register).text
    if kind == "question":
        return ask(rng, rng.choice(CLASSES), topic, scene).text
    if kind == "fact":
        return spell(fact(rng, register, topic).words())
    if kind == "guess":
        return spell(guess(rng, register, topic).words())
    if kind == "phrase":
        return spell(phrase(rng, liked).tree.words())
    if kind == "review":
        return spell(review(rng, liked, topic, register, concession=0.1).tree.words())
    first = sample_clause(rng, 0.5, topic, scene)
    if kind == "narration":
        return spell(narrate(first, rng, register).words())
    second = sample_clause(rng, 0.3, topic, scene, past=first.past)
    return spell(coordinate(first, second, rng, register).words())
