"""Evaluative sentences about the people and things of a topic."""

from __future__ import annotations

import random
from collections.abc import Sequence

from bench.world.grammar import Speaker, inflect, sample_clause, with_ed
from bench.world.lexicon import TOPICS, Topic
from bench.world.speech import REGISTERS, Tree


def _by_valence(opposites: str) -> dict[bool, tuple[str, ...]]:
    good, bad = zip(*(pair.split("|") for pair in opposites.split()), strict=True)
    return {True: good, False: bad}


# Positive and negative adjectives; some are not ASCII, as in real reviews.
QUALITIES = _by_valence(
    "fine|vile kind|cruel bright|dull neat|ugly superb|awful clever|stupid lively|bleak naïve|blasé"
    " gentle|harsh noble|base witty|trite graceful|clumsy honest|crooked brisk|sluggish"
)
FEELINGS = _by_valence("adore|loathe admire|despise praise|scorn enjoy|resent")
NEUTRAL = ("red", "wooden", "large", "small")  # adjectives without valence
DEGREES = ("very", "truly", "quite")
HEDGES = ("i suppose", "it seems", "surely", "perhaps")
NEGATED = 0.15  # chance of a negated opposite
CONCEDED = 0.1  # chance of a conceded opposite
BE = {True: "was", False: "is"}  # by tense: whether past


def quality(speaker: Speaker, good: bool) -> list[str]:
    """Sample an adverb and an adjective, two adjectives, or a negated opposite."""
    rng = speaker.rng
    kind = rng.random()
    if kind < NEGATED:
        return [speaker.register.never, rng.choice(QUALITIES[not good])]
    if kind < 0.3:
        return [rng.choice(DEGREES), rng.choice(QUALITIES[good])]
    return [rng.choice(QUALITIES[good]), "and", rng.choice(QUALITIES[good])]


def feeling(speaker: Speaker, good: bool) -> list[str]:
    """Sample a verb of feeling in present or past, or a negated opposite."""
    rng = speaker.rng
    never = rng.random() < NEGATED
    verb = rng.choice(FEELINGS[good != never])
    verb = with_ed(verb) if rng.random() < 0.5 else verb
    return [speaker.register.never, verb] if never else [verb]


def _target(speaker: Speaker, topic: Topic, before: Sequence[str] = ()) -> Tree:
    return speaker.noun(speaker.rng.choice((*topic.agents, *topic.things)), before=before)


def judgement(speaker: Speaker, good: bool, topic: Topic) -> Tree:
    """Sample a clause: a predicate adjective, a feeling of "i", or an event with adjectives."""
    rng = speaker.rng
    kind = rng.randrange(3)
    if kind == 0:
        is_so = (BE[rng.random() < 0.5], *quality(speaker, good))
        return Tree("S", (_target(speaker, topic), Tree("VP", is_so)))
    if kind == 1:
        verb = Tree("V", tuple(feeling(speaker, good)))
        before = [rng.choice(QUALITIES[good])] if rng.random() < 0.7 else []
        return Tree("S", (Tree("NP", ("i",)), Tree("VP", (verb, _target(speaker, topic, before)))))
    words = (rng.choice(QUALITIES[good]), rng.choice(QUALITIES[good]))
    return speaker.sentence(sample_clause(rng, 0.2, topic), qualities=words)


def review(speaker: Speaker, good: bool, topic: Topic, padding: float = 0.4) -> Tree:
    """Sample a review of one or two judgements, or of one with a conceded opposite."""
    rng = speaker.rng
    main = judgement(speaker, good, topic)
    inside: list[Tree | str] = [main]
    kind = rng.random()
    if kind < CONCEDED:
        though = Tree("SBAR", ("though", judgement(speaker, not good, topic)))
        inside = [though, ",", main] if rng.random() < 0.5 else [main, ",", though]
    elif kind < CONCEDED + 0.5:
        inside = [main, Tree("CC", ("and",)), judgement(speaker, good, topic)]
    return speaker.root(inside, padding)


def phrase(rng: random.Random, good: bool) -> Tree:
    """Sample a noun phrase, a feeling, or an adjective phrase, without stop mark."""
    topic, speaker = rng.choice(TOPICS), Speaker(rng, rng.choice(REGISTERS))
    kind = rng.randrange(3)
    if kind == 0:
        return _target(speaker, topic, quality(speaker, good))
    if kind == 1:
        return Tree("VP", (*feeling(speaker, good), _target(speaker, topic)))
    place = speaker.noun(rng.choice(topic.places))
    return Tree("AP", (*quality(speaker, good), Tree("PP", (speaker.register.at, place))))


def fact(speaker: Speaker, topic: Topic) -> Tree:
    """Sample an objective sentence: an event, or what a third person feels."""
    rng = speaker.rng
    clause = sample_clause(rng, 0.5, topic)
    if rng.random() < 0.7:
        qualities = (rng.choice(("", *NEUTRAL)), rng.choice(("", *NEUTRAL)))
        return speaker.root([speaker.sentence(clause, qualities=qualities)])
    verb = inflect(rng.choice(FEELINGS[rng.random() < 0.5]), clause.past, clause.plural_agent)
    others = speaker.noun(rng.choice(topic.agents))
    agent = speaker.noun(clause.meaning.agent, clause.plural_agent)
    return speaker.root([Tree("S", (agent, Tree("VP", (Tree("V", (verb,)), others))))])


def view(speaker: Speaker) -> Tree:
    """Sample a subjective sentence: a review or a hedged event."""
    rng = speaker.rng
    if rng.random() < 0.7:
        return review(speaker, rng.random() < 0.5, rng.choice(TOPICS))
    return guess(speaker, rng.choice(TOPICS))


def guess(speaker: Speaker, topic: Topic) -> Tree:
    """Sample a hedged event."""
    rng = speaker.rng
    tree = speaker.narrate(sample_clause(rng, 0.5, topic), padding=0.3)
    return Tree(tree.label, (Tree("AP", (rng.choice(HEDGES),)), *tree.children))
