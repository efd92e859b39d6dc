"""Meanings of sentences and their similarity.

The gold score of a pair depends only on the two meanings, not on the wording.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from bench.world.lexicon import NAMES, TIMES, TOPIC, TOPICS, Concept, Topic

MOODS = ("fact", "must", "wish", "may")


class Meaning(NamedTuple):
    """Who does what to what, where, when and in which mood. Unspecified roles are None."""

    agent: Concept
    verb: Concept
    thing: Concept
    place: Concept | None = None
    time: Concept | None = None
    name: Concept | None = None  # the agent's proper name
    mood: str = "fact"
    negative: bool = False


# Weights of shared roles. Agent, verb and thing weigh most, as for human raters.
ROLES = {"agent": 2.0, "verb": 2.0, "thing": 2.0, "place": 1.0, "time": 0.75, "name": 0.5}
RELATED = 0.3  # share of the weight for another concept of the same family
PERSONS = 0.5  # chance that the thing is another agent of the topic
FACTORS = {"negative": 0.7, "mood": 0.9}  # of the similarity for different polarity or mood


def closeness(a: Concept | None, b: Concept | None) -> float:
    """Return 1 for equal concepts, `RELATED` for the same kind and family, else 0."""
    if a is None or b is None:
        return 0.0
    return 1.0 if a == b else RELATED if a[:2] == b[:2] else 0.0


def similarity(a: Meaning, b: Meaning) -> float:
    """Return the gold similarity in [0, 5]. It is symmetric, and 5 only for equal meanings."""
    # Not `sum`: since Python 3.12 it compensates rounding, which moves gold scores that are rounded
    # from x.5.
    shared = weights = 0.0
    for role, weight in ROLES.items():
        one, other = getattr(a, role), getattr(b, role)
        if one is not None or other is not None:
            shared += weight * closeness(one, other)
            weights += weight
    value = 5 * shared / weights
    for feature, factor in FACTORS.items():
        if getattr(a, feature) != getattr(b, feature):
            value *= factor
    return value


def sample_meaning(
    rng: random.Random, detail: float, topic: Topic | None = None, scene: int | None = None
) -> Meaning:
    """Sample an event of a topic; `detail` is the chance of each optional role.

    80 % of the roles come from the agent's scene, the others from any scene of the topic. The thing
    can be a person, so that the same words in another order have another meaning.
    """
    topic = topic or rng.choice(TOPICS)
    scene = rng.randrange(len(topic.agents)) if scene is None else scene

    def cast(concepts: tuple[Concept, ...]) -> Concept:
        return concepts[scene] if rng.random() < 0.8 else rng.choice(concepts)

    # The person acted upon is mostly the next scene's agent, so that roles can be learnt from
    # co-occurrence.
    others = topic.agents[scene + 1 :] + topic.agents[:scene]
    person = others[0] if rng.random() < 0.8 else rng.choice(others)
    return Meaning(
        agent=topic.agents[scene],
        verb=cast(topic.verbs),
        thing=person if rng.random() < PERSONS else cast(topic.things),
        place=cast(topic.places) if rng.random() < detail else None,
        time=rng.choice(TIMES) if rng.random() < detail * 0.7 else None,
        name=rng.choice(NAMES) if rng.random() < detail * 0.3 else None,
        mood="fact" if rng.random() < 0.8 else rng.choice(MOODS[1:]),
        negative=rng.random() < 0.12,
    )


def change(meaning: Meaning, role: str, rng: random.Random) -> Meaning:
    """Return the meaning with one role or feature changed. Unspecified roles do not change.

    "order" exchanges agent and thing if both are persons. Two thirds of the new concepts are of the
    same topic, so that related meanings are frequent.
    """
    if role == "order":
        persons = meaning.thing.kind == "agent"
        return meaning._replace(agent=meaning.thing, thing=meaning.agent) if persons else meaning
    value: Any = getattr(meaning, role)
    if value is None:
        return meaning
    if role == "negative":
        return meaning._replace(negative=not value)
    pool: Any = {"mood": MOODS, "time": TIMES, "name": NAMES}.get(role)
    if pool is None:
        topic = TOPIC[value.family]
        if rng.random() >= 2 / 3:
            topic = rng.choice([other for other in TOPICS if other != topic])
        pool = getattr(topic, f"{value.kind}s")
    taken = (value, meaning.agent, meaning.thing)  # agent and thing must differ
    return meaning._replace(**{role: rng.choice([other for other in pool if other not in taken])})
