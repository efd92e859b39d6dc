"""Questions by the type of their answer (classes of Li and Roth, 2002)."""

from __future__ import annotations

import random

from bench.world.grammar import with_s
from bench.world.lexicon import TOPICS, Topic
from bench.world.meaning import sample_meaning

CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
TITLES = ("RCA", "UFO", "NATO", "BBC", "IBM", "GDP", "VAT", "CEO")  # abbreviations


# Fine class and template by coarse class. Templates of different classes share their first words.
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
        ("reason", "what is the reason that the {agent} does {verb} the {thing}"),
        ("def", "what is the meaning of the {thing}"),
    ),
    "ENTY": (
        ("other", "what does the {agent} {verb} in the {place}"),
        ("other", "which thing does the {agent} {verb}"),
        ("product", "of the {things} , what does the {agent} {verb}"),
        ("techmeth", "what kind of tool does the {agent} {verb} in the {place}"),
    ),
    "HUM": (
        ("ind", "who does {verb} the {thing} in the {place}"),
        ("ind", "which person does {verb} the {thing}"),
        ("gr", "of the {agents} , who does {verb} the {thing}"),
        ("ind", "what is the name of the person that does {verb} the {thing}"),
    ),
    "LOC": (
        ("other", "where does the {agent} {verb} the {thing}"),
        ("other", "in which place does the {agent} {verb} the {thing}"),
        ("other", "where is the {thing}"),
        ("city", "what town has the {thing}"),
        ("other", "what is the spot that the {agent} does {verb} the {thing} in"),
    ),
    "NUM": (
        ("count", "how many {things} does the {agent} {verb}"),
        ("date", "when does the {agent} {verb} the {thing}"),
        ("money", "how much is the {thing} in the {place}"),
        ("money", "what is the price of the {thing}"),
        ("count", "what is the number of {things} in the {place}"),
        ("date", "what year does the {agent} {verb} the {thing}"),
    ),
}

# A clause with another question word may precede the question, so that the class depends on word
# order.
ASIDES = 0.3
_ASIDE = "where|when|how|why|who|what|which thing|in which place|how many|which person"


def ask(
    rng: random.Random, coarse: str, topic: Topic | None = None, scene: int | None = None
) -> tuple[str, str]:
    """Sample a question of a class about an event: the fine class of its answer, and the text."""
    meaning = sample_meaning(rng, 1.0, topic or rng.choice(TOPICS), scene)
    fine, frame = rng.choice(_FRAMES[coarse])
    # With detail 1, all roles are set.
    roles = ("agent", "verb", "thing", "place")
    words = {role: rng.choice(getattr(meaning, role).words) for role in roles}
    agents, things = with_s(words["agent"]), with_s(words["thing"])
    text = frame.format(title=rng.choice(TITLES), agents=agents, things=things, **words)
    if rng.random() < ASIDES:
        other = sample_meaning(rng, 1.0, topic)
        asked, agent = rng.choice(_ASIDE.split("|")), rng.choice(other.agent.words)
        text = f"{asked} the {agent} does {rng.choice(other.verb.words)} , {text}"
    return fine, f"{text[0].upper()}{text[1:]} ?"
