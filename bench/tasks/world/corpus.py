"""The training corpus: documents of consecutive sentences about one topic and its cast."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from bench.tasks.world.grammar import Sentence, Speaker, gloss
from bench.tasks.world.lexicon import PERSONS, QUALITIES, SOCIAL, TIMES, TOPICS, TOWNS, Topic
from bench.tasks.world.meaning import Meaning, sample_event
from bench.tasks.world.registers import REGISTERS

_REGISTERS = tuple(REGISTERS)


@dataclass(frozen=True)
class Document:
    """A title and the sentences after it."""

    title: Sentence
    sentences: tuple[Sentence, ...]


def sample_document(rng: random.Random) -> Document:
    """A document: one topic, register, town and hero throughout; one sentence in eight explains a word."""
    topic = rng.choice(TOPICS)
    register = rng.choice(_REGISTERS)
    town, person, hero = rng.choice(TOWNS), rng.choice(PERSONS), rng.choice(topic.agents)
    sentences = []
    for _ in range(rng.randrange(6, 22)):
        if rng.random() < 0.12:
            sentences.append(_explain(rng, topic))
            continue
        events = []
        for _ in range(2 if register in ("wiki", "news", "parliament") and rng.random() < 0.12 else 1):
            event = sample_event(
                rng, topic, rng.choice((0.1, 0.4, 0.7)), hero if rng.random() < 0.3 else None, register == "wiki"
            )
            if event.agent == hero and event.name:
                event = replace(event, name=person)
            if event.town:
                event = replace(event, town=town)
            if register in ("definition", "frame"):
                event = replace(event, agent=None, name=None, agent_many=False, tense="present", mood="fact")
            events.append(event)
        link = rng.choice(("and", "then", "because")) if len(events) == 2 else None
        question = None
        if register == "question" and events[0].agent is not None:
            question = rng.choice(("whether", "whether", "who", "where", "when", "why", "how"))
            if question == "who":
                events[0] = replace(events[0], agent=None, name=None, agent_many=False)
        stance = (
            rng.choice(("glad", "sorry")) if register not in ("definition", "frame", "headline") and rng.random() < 0.05 else None
        )
        sentences.append(Speaker(register, rng.getrandbits(32)).say(Meaning(tuple(events), link, question, stance)))
    title = Speaker("headline", rng.getrandbits(32)).say(Meaning((sample_event(rng, topic, 0.2, hero),)))
    return Document(title, tuple(sentences))


def _explain(rng: random.Random, topic: Topic) -> Sentence:
    concepts = [*topic.agents, *topic.things, *topic.places, *topic.verbs]
    concept = rng.choice(concepts if rng.random() < 0.85 else [*SOCIAL, *QUALITIES, *TIMES])
    if len(concept.words) == 1:
        concept = rng.choice(topic.things)
    return gloss(concept, rng.getrandbits(32))
