"""Evaluative words and sentences: what somebody thinks of a topic's people and things."""

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


# Good and bad. Words of foreign spelling stand among them as in real reviews.
QUALITIES = _by_valence(
    "fine|vile kind|cruel bright|dull neat|ugly superb|awful clever|stupid lively|bleak naïve|blasé "
    "gentle|harsh noble|base witty|trite graceful|clumsy honest|crooked brisk|sluggish"
)
FEELINGS = _by_valence("adore|loathe admire|despise praise|scorn enjoy|resent")
NEUTRAL = ("red", "wooden", "large", "small")  # qualities that nobody judges by
DEGREES = ("very", "truly", "quite")
HEDGES = ("i suppose", "it seems", "surely", "perhaps")
NEGATED = 0.15  # chance that a judgement is the negated opposite
BE = {True: "was", False: "is"}  # by tense: whether past


@dataclass(frozen=True)
class Opinion:
    """A judgement, whether it is a good one, and how it is said."""

    good: bool
    tree: Tree


def quality(rng: random.Random, good: bool, register: Register) -> list[str]:
    """Words that judge so: an adjective with a degree, or two, seldom the negated opposite."""
    kind = rng.random()
    if kind < NEGATED:
        return [register.never, rng.choice(QUALITIES[not good])]
    if kind < 0.3:
        return [rng.choice(DEGREES), rng.choice(QUALITIES[good])]
    return [rng.choice(QUALITIES[good]), "and", rng.choice(QUALITIES[good])]


def feeling(rng: random.Random, good: bool, register: Register) -> list[str]:
    """A verb that feels so, past or not, seldom the negated opposite."""
    never = rng.random() < NEGATED
    verb = rng.choice(FEELINGS[good != never])
    return [*([register.never] if never else []), with_ed(verb) if rng.random() < 0.5 else verb]


def _target(rng: random.Random, register: Register, topic: Topic, before: Sequence[str] = ()) -> Tree:
    return noun(rng, register, rng.choice((*topic.agents, *topic.things)), before=before)


def judgement(rng: random.Random, good: bool, register: Register, topic: Topic) -> Tree:
    """A clause that judges: something is so, "i" feel so of it, or someone so does something."""
    kind = rng.randrange(3)
    if kind == 0:
        is_so = (BE[rng.random() < 0.5], *quality(rng, good, register))
        return Tree("S", (_target(rng, register, topic), Tree("VP", is_so)))
    if kind == 1:
        verb = Tree("V", tuple(feeling(rng, good, register)))
        thing = _target(rng, register, topic, [rng.choice(QUALITIES[good])] if rng.random() < 0.7 else [])
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
    """A judgement; at times another like it, or with the chance `concession` its opposite granted of something else."""
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
    """A short expression of opinion, without a stop mark: somebody judged, a feeling, or a quality."""
    topic, register = rng.choice(TOPICS), rng.choice(REGISTERS)
    kind = rng.randrange(3)
    if kind == 0:
        return Opinion(good, _target(rng, register, topic, quality(rng, good, register)))
    if kind == 1:
        return Opinion(good, Tree("VP", (*feeling(rng, good, register), _target(rng, register, topic))))
    place = noun(rng, register, rng.choice(topic.places))
    return Opinion(good, Tree("AP", (*quality(rng, good, register), Tree("PP", (register.at, place)))))


def fact(rng: random.Random, register: Register, topic: Topic | None = None) -> Tree:
    """An event told by nobody in particular, or what somebody else thinks of somebody."""
    topic = topic or rng.choice(TOPICS)
    told = sample_clause(rng, 0.5, topic)
    if rng.random() < 0.7:
        qualities = (rng.choice(("", *NEUTRAL)), rng.choice(("", *NEUTRAL)))
        return root(rng, register, [sentence(told, rng, register, qualities=qualities)], 0.4)
    verb = inflect(rng.choice(FEELINGS[rng.random() < 0.5]), told.past, told.plural_agent)
    others = noun(rng, register, rng.choice(topic.agents))
    agent = noun(rng, register, told.meaning.agent, told.plural_agent)
    return root(rng, register, [Tree("S", (agent, Tree("VP", (Tree("V", (verb,)), others))))], 0.4)


def view(rng: random.Random, register: Register) -> Tree:
    """A review, or an event that the speaker is unsure of."""
    if rng.random() < 0.7:
        return review(rng, rng.random() < 0.5, register=register).tree
    return guess(rng, register, rng.choice(TOPICS))


def guess(rng: random.Random, register: Register, topic: Topic) -> Tree:
    """An event that the speaker is unsure of."""
    told = narrate(sample_clause(rng, 0.5, topic), rng, register, padding=0.3)
    return Tree(told.label, (Tree("AP", (rng.choice(HEDGES),)), *told.children))
