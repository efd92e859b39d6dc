"""Evaluative sentences about the people and things of a topic."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from bench.world.grammar import inflect, narrate, noun, root, sample_clause, sentence, with_ed
from bench.world.lexicon import TOPICS, Topic
from bench.world.speech import REGISTERS, Register, Tree


def _by_valence(opposites: str) -> dict[bool, tuple[str, ...]]:
    good, bad = zip(*(pair.split("|") for pair in opposites.split()), strict=True)
    return {True: good, False: bad}


# Positive and negative adjectives; some are not ASCII, as in real reviews.
QUALITIES = _by_valence(
    "fine|vile kind|cruel bright|dull neat|ugly superb|awful clever|stupid lively|bleak naïve|blasé "
    "gentle|harsh noble|base witty|trite graceful|clumsy honest|crooked brisk|sluggish"
)
FEELINGS = _by_valence("adore|loathe admire|despise praise|scorn enjoy|resent")
NEUTRAL = ("red", "wooden", "large", "small")  # adjectives without valence
DEGREES = ("very", "truly", "quite")
HEDGES = ("i suppose", "it seems", "surely", "perhaps")
NEGATED = 0.15  # chance of a negated opposite
BE = {True: "was", False: "is"}  # by tense: whether past


@dataclass(frozen=True)
class Opinion:
    """A judgement, with its valence and derivation."""

    good: bool
    tree: Tree


def quality(rng: random.Random, good: bool, register: Register) -> list[str]:
    """Sample evaluative words: an adverb and an adjective, two adjectives, or a negated
    opposite."""
    kind = rng.random()
    if kind < NEGATED:
        return [register.never, rng.choice(QUALITIES[not good])]
    if kind < 0.3:
        return [rng.choice(DEGREES), rng.choice(QUALITIES[good])]
    return [rng.choice(QUALITIES[good]), "and", rng.choice(QUALITIES[good])]


def feeling(rng: random.Random, good: bool, register: Register) -> list[str]:
    """Sample a verb of feeling in present or past, or a negated opposite."""
    never = rng.random() < NEGATED
    verb = rng.choice(FEELINGS[good != never])
    return [*([register.never] if never else []), with_ed(verb) if rng.random() < 0.5 else verb]


def _target(
    rng: random.Random, register: Register, topic: Topic, before: Sequence[str] = ()
) -> Tree:
    return noun(rng, register, rng.choice((*topic.agents, *topic.things)), before=before)


def judgement(rng: random.Random, good: bool, register: Register, topic: Topic) -> Tree:
    """Sample an evaluative clause: a predicate adjective, a feeling of "i", or an event with
    adjectives."""
    kind = rng.randrange(3)
    if kind == 0:
        is_so = (BE[rng.random() < 0.5], *quality(rng, good, register))
        return Tree("S", (_target(rng, register, topic), Tree("VP", is_so)))
    if kind == 1:
        verb = Tree("V", tuple(feeling(rng, good, register)))
        thing = _target(
            rng, register, topic, [rng.choice(QUALITIES[good])] if rng.random() < 0.7 else []
        )
        return Tree("S", (Tree("NP", ("i",)), Tree("VP", (verb, thing))))
    words = (rng.choice(QUALITIES[good]), rng.choice(QUALITIES[good]))
    return sentence(sample_clause(rng, 0.2, topic), rng, register, qualities=words)


def review(
    rng: random.Random,
    good: bool,
    topic: Topic | None = None,
    register: Register | None = None,
    padding: float = 0.4,
    concession: float = 0.1,
) -> Opinion:
    """Sample a review of one or two judgements, or with chance `concession` one with a conceded
    opposite."""
    topic, register = topic or rng.choice(TOPICS), register or rng.choice(REGISTERS)
    main = judgement(rng, good, register, topic)
    inside: list[Tree | str] = [main]
    kind = rng.random()
    if kind < concession:
        though = Tree("SBAR", ("though", judgement(rng, not good, register, topic)))
        inside = [though, ",", main] if rng.random() < 0.5 else [main, ",", though]
    elif kind < concession + 0.5:
        inside = [main, Tree("CC", ("and",)), judgement(rng, good, register, topic)]
    return Opinion(good, root(rng, register, inside, padding))


def phrase(rng: random.Random, good: bool) -> Opinion:
    """Sample a short opinion without stop mark: a noun phrase, a feeling, or an adjective
    phrase."""
    topic, register = rng.choice(TOPICS), rng.choice(REGISTERS)
    kind = rng.randrange(3)
    if kind == 0:
        return Opinion(good, _target(rng, register, topic, quality(rng, good, register)))
    if kind == 1:
        return Opinion(
            good, Tree("VP", (*feeling(rng, good, register), _target(rng, register, topic)))
        )
    place = noun(rng, register, rng.choice(topic.places))
    return Opinion(
        good, Tree("AP", (*quality(rng, good, register), Tree("PP", (register.at, place))))
    )


def fact(rng: random.Random, register: Register, topic: Topic | None = None) -> Tree:
    """Sample an objective sentence: an event, or what a third person feels."""
    topic = topic or rng.choice(TOPICS)
    clause = sample_clause(rng, 0.5, topic)
    if rng.random() < 0.7:
        qualities = (rng.choice(("", *NEUTRAL)), rng.choice(("", *NEUTRAL)))
        return root(rng, register, [sentence(clause, rng, register, qualities=qualities)], 0.4)
    verb = inflect(rng.choice(FEELINGS[rng.random() < 0.5]), clause.past, clause.plural_agent)
    others = noun(rng, register, rng.choice(topic.agents))
    agent = noun(rng, register, clause.meaning.agent, clause.plural_agent)
    return root(rng, register, [Tree("S", (agent, Tree("VP", (Tree("V", (verb,)), others))))], 0.4)


def view(rng: random.Random, register: Register) -> Tree:
    """Sample a subjective sentence: a review or a hedged event."""
    if rng.random() < 0.7:
        return review(rng, rng.random() < 0.5, register=register).tree
    return guess(rng, register, rng.choice(TOPICS))


def guess(rng: random.Random, register: Register, topic: Topic) -> Tree:
    """Sample a hedged event."""
    tree = narrate(sample_clause(rng, 0.5, topic), rng, register, padding=0.3)
    return Tree(tree.label, (Tree("AP", (rng.choice(HEDGES),)), *tree.children))
