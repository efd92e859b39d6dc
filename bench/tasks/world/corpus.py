"""The training corpus: documents of consecutive sentences about one topic and its hero."""

from __future__ import annotations

import random

from bench.tasks.world.lexicon import TOPICS
from bench.tasks.world.meaning import sample_meaning
from bench.tasks.world.speech import REGISTERS, Sentence, say


def sample_document(rng: random.Random) -> list[Sentence]:
    """A title and four to twelve sentences: one topic, one sentence in three about the hero, mostly in one register."""
    topic = rng.choice(TOPICS)
    hero = rng.randrange(len(topic.agents))
    register = rng.choice(REGISTERS)
    sentences = [say(sample_meaning(rng, 0.0, topic, hero), rng, register, ("plain",), 0.0)]
    for _ in range(rng.randrange(4, 13)):
        meaning = sample_meaning(rng, 0.5, topic, hero if rng.random() < 0.3 else None)
        spoken = register if rng.random() < 0.7 else rng.choice(REGISTERS)
        sentences.append(say(meaning, rng, spoken))
    return sentences
