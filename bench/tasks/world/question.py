"""Questions about events, by the type of what is asked for (the classes of Li and Roth, 2002)."""

from __future__ import annotations

import random
from dataclasses import dataclass

from bench.tasks.world.grammar import with_s
from bench.tasks.world.lexicon import TOPICS, Concept, Topic
from bench.tasks.world.meaning import sample_meaning

CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
TITLES = ("RCA", "UFO", "NATO", "BBC", "IBM", "GDP", "VAT", "CEO")  # of what short forms are asked for


@dataclass(frozen=True)
class Question:
    """A question, and the coarse and the fine class of its answer."""

    coarse: str
    fine: str
    text: str


# What is asked, by class: fine class and frame. Frames of different classes share their first words.
_FRAMES = {
    "ABBR": (
        ("exp", "what does {title} stand for in the {place}"),
        ("abb", "what is the short form for the {agent} in the {place}"),
    ),
    "DESC": (
        ("reason", "why does the {agent} {verb} the {thing} in the {place}"),
        ("manner", "how does the {agent} {verb} the {thing}"),
        ("def", "what is the {thing} to the {agent}"),
        ("desc", "what does the {verb} of the {thing} mean to the {agent}"),
    ),
    "ENTY": (
        ("other", "what does the {agent} {verb} in the {place}"),
        ("other", "which thing does the {agent} {verb}"),
        ("product", "of the {things} , what does the {agent} {verb}"),
    ),
    "HUM": (
        ("ind", "who does {verb} the {thing} in the {place}"),
        ("ind", "which person does {verb} the {thing}"),
        ("gr", "of the {agents} , who does {verb} the {thing}"),
    ),
    "LOC": (
        ("other", "where does the {agent} {verb} the {thing}"),
        ("other", "in which place does the {agent} {verb} the {thing}"),
        ("other", "where is the {thing}"),
    ),
    "NUM": (
        ("count", "how many {things} does the {agent} {verb}"),
        ("date", "when does the {agent} {verb} the {thing}"),
        ("money", "how much is the {thing} in the {place}"),
    ),
}


def ask(rng: random.Random, coarse: str, topic: Topic | None = None, scene: int | None = None) -> Question:
    """A question of the given class about an event."""
    meaning = sample_meaning(rng, 1.0, topic or rng.choice(TOPICS), scene)
    fine, frame = rng.choice(_FRAMES[coarse])

    def word(concept: Concept | None) -> str:
        assert concept is not None  # detail 1 tells the place
        return rng.choice(concept.words)

    words = {role: word(getattr(meaning, role)) for role in ("agent", "verb", "thing", "place")}
    text = frame.format(title=rng.choice(TITLES), agents=with_s(words["agent"]), things=with_s(words["thing"]), **words)
    return Question(coarse, fine, f"{text[0].upper()}{text[1:]} ?")
