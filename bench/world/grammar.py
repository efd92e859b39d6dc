"""Number, tense and clauses of the embedded language, in the registers of `speech`.

All words are regular ("stealed", "tooths"), so that forms follow from the grammar.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from bench.world.lexicon import TOPICS, Concept, Topic
from bench.world.meaning import Meaning, sample_meaning
from bench.world.speech import Register, Tree

_TOPIC = {topic.name: topic for topic in TOPICS}
CONJUNCTIONS = ("and", "but", "so")
PRONOUNS = {False: "he", True: "they"}  # by number: whether plural
LATER = ("then", "later")
WHEN = {True: ("yesterday", "formerly"), False: ("today", "nowadays")}  # by tense: whether past
DATED = 0.25  # chance of an adverb of tense, from which a model can learn the forms of verbs


class Clause(NamedTuple):
    """An event with tense and the number of agent and thing."""

    meaning: Meaning
    past: bool
    plural_agent: bool
    plural_thing: bool


@cache
def with_s(word: str) -> str:
    """Return the plural of a noun, or the third person singular of a verb."""
    if word.endswith("man"):
        return word[:-2] + "en"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")


@cache
def with_ed(verb: str) -> str:
    """Return the past of a verb."""
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else "ed")


def inflect(verb: str, past: bool, plural: bool) -> str:
    """Return the form of a verb that agrees with its subject."""
    return with_ed(verb) if past else verb if plural else with_s(verb)


def sample_clause(
    rng: random.Random,
    detail: float,
    topic: Topic | None = None,
    scene: int | None = None,
    past: bool | None = None,
) -> Clause:
    """Sample an event by `sample_meaning`, in the mood "fact". Tense and numbers are uniform.

    A plural agent has no proper name.
    """
    meaning = sample_meaning(rng, detail, topic, scene)
    plural_agent, plural_thing = rng.random() < 0.5, rng.random() < 0.5
    return Clause(
        meaning=meaning._replace(mood="fact", name=None if plural_agent else meaning.name),
        past=rng.random() < 0.5 if past is None else past,
        plural_agent=plural_agent,
        plural_thing=plural_thing,
    )


def noun(
    rng: random.Random,
    register: Register,
    concept: Concept,
    plural: bool = False,
    before: Sequence[str] = (),
    after: Sequence[Tree | str] = (),
) -> Tree:
    """Return a noun phrase: article, `before`, a random synonym, `after`."""
    word = rng.choice(concept.words)
    return Tree("NP", (register.the, *before, with_s(word) if plural else word, *after))


def _modifier(
    rng: random.Random, register: Register, topic: Topic, plural: bool, nest: float
) -> list[Tree]:
    """Return a relative clause or an "of" phrase with chance `nest`, modified recursively."""
    if rng.random() >= nest:
        return []
    relative, other = rng.random() < 0.5, rng.random() < 0.5
    concept = rng.choice(topic.things if relative else topic.agents)
    inner = noun(rng, register, concept, other, after=_modifier(rng, register, topic, other, nest))
    if not relative:
        return [Tree("PP", ("of", inner))]
    verb = inflect(rng.choice(rng.choice(topic.verbs).words), rng.random() < 0.5, plural)
    return [Tree("RC", (register.cleft[1], Tree("VP", (Tree("V", (verb,)), inner))))]


def adverbials(clause: Clause, rng: random.Random, register: Register) -> list[Tree]:
    """Return place and time, in random order."""
    phrases = []
    if clause.meaning.place:
        phrases.append(Tree("PP", (register.at, noun(rng, register, clause.meaning.place))))
    if clause.meaning.time:
        phrases.append(Tree("TP", (rng.choice(clause.meaning.time.words),)))
    return phrases if rng.random() < 0.5 else phrases[::-1]


def sentence(
    clause: Clause,
    rng: random.Random,
    register: Register,
    rest: Sequence[Tree] = (),
    nest: float = 0.0,
    subject: Tree | None = None,
    qualities: tuple[str, str] = ("", ""),
) -> Tree:
    """Return the node S of a clause.

    Args:
        clause: what is said.
        rng: random stream.
        register: style.
        rest: adverbials at the end.
        nest: chance that a noun is modified, recursively.
        subject: replaces the agent.
        qualities: adjectives of agent and thing, or "".
    """
    meaning = clause.meaning
    topic = _TOPIC[meaning.agent.family]

    def phrase(concept: Concept, plural: bool, quality: str, name: Concept | None = None) -> Tree:
        after = [name.words[0]] if name else _modifier(rng, register, topic, plural, nest)
        return noun(rng, register, concept, plural, [quality] if quality else [], after)

    agent = subject or phrase(meaning.agent, clause.plural_agent, qualities[0], meaning.name)
    verb = inflect(rng.choice(meaning.verb.words), clause.past, clause.plural_agent)
    never = [register.never] if meaning.negative else []
    thing = phrase(meaning.thing, clause.plural_thing, qualities[1])
    when = [Tree("AP", (rng.choice(WHEN[clause.past]),))] if rng.random() < DATED else []
    return Tree("S", (agent, Tree("VP", (Tree("V", (*never, verb)), thing, *rest, *when))))


def root(
    rng: random.Random, register: Register, inside: Sequence[Tree | str], padding: float
) -> Tree:
    """Return a sentence: filler phrases of the register, with the chances of `speech.say`, and a
    stop mark."""
    opening = [Tree("OPEN", (register.opening,))] if rng.random() < padding else []
    closing = [Tree("CLOSE", (register.closing,))] if rng.random() < padding / 2 else []
    return Tree("ROOT", (*opening, *inside, *closing, register.stop))


def narrate(
    clause: Clause,
    rng: random.Random,
    register: Register,
    padding: float = 0.4,
    nest: float = 0.15,
    front: float = 0.2,
) -> Tree:
    """Return a sentence of one event; `front` is the chance that an adverbial precedes the
    clause."""
    rest = adverbials(clause, rng, register)
    fronted = [rest.pop(0)] if rest and rng.random() < front else []
    return root(rng, register, [*fronted, sentence(clause, rng, register, rest, nest)], padding)


def coordinate(
    first: Clause,
    second: Clause,
    rng: random.Random,
    register: Register,
    padding: float = 0.4,
    front: float = 0.2,
) -> Tree:
    """Return two joined events. The second clause may have an adverb ("then"), a pronoun as
    subject, or both."""
    rest = adverbials(first, rng, register)
    fronted = [rest.pop(0)] if rest and rng.random() < front else []
    pronoun = Tree("NP", (PRONOUNS[second.plural_agent],)) if rng.random() < 0.6 else None
    after = sentence(second, rng, register, adverbials(second, rng, register), subject=pronoun)
    if rng.random() < 0.5:
        after = Tree("S", (Tree("AP", (rng.choice(LATER),)), *after.children))
    joined = [sentence(first, rng, register, rest), Tree("CC", (rng.choice(CONJUNCTIONS),)), after]
    return root(rng, register, [*fronted, *joined], padding)
