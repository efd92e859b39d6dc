"""What a sentence of the embedded world means, and how alike two meanings are.

The gold score of a pair is a function of its two meanings alone; how they are said never enters.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import permutations

from bench.tasks.world.lexicon import PERSONS, QUALITIES, SOCIAL, TIMES, TOPICS, TOWNS, Concept, Topic


@dataclass(frozen=True)
class Event:
    """Who does what to whom or what, where and when. A role that is not told is None."""

    verb: Concept
    agent: Concept | None = None
    patient: Concept | None = None
    name: Concept | None = None  # the agent's proper name
    quality: Concept | None = None  # of the patient
    place: Concept | None = None
    town: Concept | None = None
    time: Concept | None = None
    agent_many: bool = False
    patient_many: bool = False
    tense: str = "past"  # past, present, future
    mood: str = "fact"  # fact, must, want, may
    negative: bool = False


@dataclass(frozen=True)
class Meaning:
    """One event or two linked ones, told or asked, perhaps with how the speaker feels about it."""

    events: tuple[Event, ...]
    link: str | None = None  # and, then, because (the first because of the second)
    question: str | None = None  # whether, who, what, where, when, why, how
    stance: str | None = None  # glad, sorry


# What a shared role is worth. The core of an event (verb, agent, patient) holds two thirds, as human raters of similarity
# weigh them; the rest is spread over details. A near relative (a sibling in the same topic) earns RELATED of a role.
ROLES = {"verb": 3.0, "agent": 3.0, "patient": 3.0, "place": 1.5, "time": 1.2, "town": 1.0, "name": 1.0, "quality": 0.8}
RELATED = 0.35

# What remains of the similarity where this differs. Polarity weighs most: the same words with "not" tell another story.
EVENT_FACTORS = {"negative": 0.65, "mood": 0.8, "tense": 0.88, "agent_many": 0.95, "patient_many": 0.95}
SENTENCE_FACTORS = {"link": 0.9, "question": 0.75, "stance": 0.88}


def closeness(a: Concept | None, b: Concept | None) -> float:
    """1 for the same concept, `RELATED` for siblings (same slot, same family), else 0."""
    if a is None or b is None:
        return 0.0
    if a is b or a == b:
        return 1.0
    return RELATED if (a.kind, a.family) == (b.kind, b.family) else 0.0


def event_similarity(a: Event, b: Event) -> float:
    """Similarity of two events in [0, 1]: shared roles, out of the roles that either tells, times `EVENT_FACTORS`."""
    told = [role for role in ROLES if getattr(a, role) is not None or getattr(b, role) is not None]
    shared = sum(ROLES[role] * closeness(getattr(a, role), getattr(b, role)) for role in told)
    similarity = shared / sum(ROLES[role] for role in told)
    for feature, factor in EVENT_FACTORS.items():
        if getattr(a, feature) != getattr(b, feature):
            similarity *= factor
    return similarity


def similarity(a: Meaning, b: Meaning) -> float:
    """Gold similarity of two meanings in [0, 5], symmetric; 5 exactly for equal meanings.

    Events are matched so that their similarities sum highest; an event without a partner earns nothing.
    """
    longer, shorter = (a, b) if len(a.events) >= len(b.events) else (b, a)
    best, kept_order = max(
        (
            (
                sum(event_similarity(longer.events[i], event) for i, event in zip(order, shorter.events, strict=True)),
                order,
            )
            for order in permutations(range(len(longer.events)), len(shorter.events))
        ),
        key=lambda match: (match[0], match[1] == tuple(sorted(match[1]))),
    )
    value = 5 * best / len(longer.events)
    for feature, factor in SENTENCE_FACTORS.items():
        if getattr(a, feature) != getattr(b, feature) or (
            feature == "link" and kept_order != tuple(sorted(kept_order))
        ):
            value *= factor
    return value


def pick_topic(rng: random.Random) -> Topic:
    """One of the topics."""
    return rng.choice(TOPICS)


def sample_event(
    rng: random.Random, topic: Topic, detail: float = 0.5, agent: Concept | None = None, sober: bool = False
) -> Event:
    """An event of a topic; `detail` is the chance of each optional role, `sober` text tells past facts nine times in ten.

    Agents prefer two of their topic's verbs and events prefer one place, so that words are known by their company; one in
    five is free.
    """
    agent = agent or rng.choice(topic.agents)
    if rng.random() < 0.25:
        verb = rng.choice(SOCIAL)
        patient = rng.choice([other for other in topic.agents if other != agent])
        place = rng.choice(topic.places)
    else:
        habit = topic.agents.index(agent) if agent in topic.agents else 0
        number = (habit + rng.randrange(2)) if rng.random() < 0.8 else rng.randrange(len(topic.verbs))
        verb = topic.verbs[number % len(topic.verbs)]
        patient = rng.choice(topic.objects[verb]) if rng.random() < 0.9 else rng.choice(topic.things)
        place = topic.places[number % len(topic.places)] if rng.random() < 0.8 else rng.choice(topic.places)

    def maybe(draw: Callable[[], Concept]) -> Concept | None:
        return draw() if rng.random() < detail else None

    plain = sober and rng.random() < 0.9
    mood = "fact" if plain or rng.random() < 0.7 else rng.choice(("must", "want", "may"))
    tense = "past" if plain else rng.choice(("past", "past", "present", "future"))
    name = rng.choice(PERSONS) if rng.random() < detail / 2 else None
    return Event(
        verb,
        agent,
        patient,
        name=name,
        quality=rng.choice(_qualities(patient)) if rng.random() < detail / 2 else None,
        place=maybe(lambda: place),
        town=rng.choice(TOWNS) if rng.random() < detail / 2 else None,
        time=maybe(lambda: rng.choice(TIMES)),
        agent_many=name is None and rng.random() < 0.25,
        patient_many=rng.random() < 0.3,
        tense="future" if mood == "may" and tense == "present" else tense,
        mood=mood,
        negative=not plain and rng.random() < 0.12,
    )


def _qualities(patient: Concept) -> tuple[Concept, ...]:
    """What can be said of a patient; persons have no price or colour."""
    if patient.kind == "thing":
        return QUALITIES
    return tuple(quality for quality in QUALITIES if quality.family in ("size", "age", "worth"))


def change(event: Event, role: str, rng: random.Random) -> Event:
    """The event with one role or feature changed to another value; roles that are not told are left alone.

    `role` is a key of `ROLES` or `EVENT_FACTORS`, or "swap": agent and patient trade places, where both are persons.
    """
    if role == "swap":
        if event.agent is None or event.patient is None or event.patient.kind != "agent" or event.name:
            return event
        return replace(
            event,
            agent=event.patient,
            patient=event.agent,
            agent_many=event.patient_many,
            patient_many=event.agent_many,
        )
    value = getattr(event, role)
    if isinstance(value, bool):
        return event if role == "agent_many" and event.name else replace(event, **{role: not value})
    if role == "tense":
        tenses = [tense for tense in ("past", "present", "future") if tense != value]
        return replace(
            event, tense=rng.choice([tense for tense in tenses if (tense, event.mood) != ("present", "may")])
        )
    if role == "mood":
        moods = [mood for mood in ("fact", "must", "want", "may") if mood != value]
        return replace(event, mood=rng.choice([mood for mood in moods if (event.tense, mood) != ("present", "may")]))
    if value is None:
        return event
    return replace(event, **{role: rng.choice([other for other in _rivals(event, role, rng) if other != value])})


def _rivals(event: Event, role: str, rng: random.Random) -> tuple[Concept, ...]:
    """Concepts that may stand in a told role: siblings mostly, one time in three strangers."""
    value: Concept = getattr(event, role)
    if role == "quality" and event.patient is not None:
        return _qualities(event.patient)
    if value.family == "social":
        return SOCIAL
    pools = {"time": TIMES, "town": TOWNS, "name": PERSONS}
    if role in pools:
        return pools[role]
    slot = {"verb": "verbs", "agent": "agents", "place": "places", "thing": "things"}[
        "agent" if value.kind == "agent" else value.kind
    ]
    home = next(topic for topic in TOPICS if topic.name == value.family)
    topic = home if rng.random() < 2 / 3 else rng.choice([other for other in TOPICS if other is not home])
    pool: tuple[Concept, ...] = getattr(topic, slot)
    return pool
