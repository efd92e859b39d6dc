"""Number, tense and clauses: sentences of the embedded world that inflect, told in the registers of `speech`.

Every word is regular here ("stealed", "tooths"), so that its form follows from its grammar alone.
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
DATED = 0.25  # chance that a clause also says its tense in a word: by their company, forms of verbs are learnt


class Clause(NamedTuple):
    """An event with its grammar: tense, and the number of those who act and of what they act upon."""

    meaning: Meaning
    past: bool
    plural_agent: bool
    plural_thing: bool


@cache
def with_s(word: str) -> str:
    """The plural of a noun, and the verb of one in the present."""
    if word.endswith("man"):
        return word[:-2] + "en"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")


@cache
def with_ed(verb: str) -> str:
    """The past of a verb."""
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else "ed")


def inflect(verb: str, past: bool, plural: bool) -> str:
    """A verb that agrees with its subject."""
    return with_ed(verb) if past else verb if plural else with_s(verb)


def sample_clause(
    rng: random.Random, detail: float, topic: Topic | None = None, scene: int | None = None, past: bool | None = None
) -> Clause:
    """An event as `sample_meaning` draws it, without mood; tense and numbers are even chances.

    Only one person has a proper name.
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
    """Article, what stands before the noun, one of its synonyms, and what follows it."""
    word = rng.choice(concept.words)
    return Tree("NP", (register.the, *before, with_s(word) if plural else word, *after))


def _modifier(rng: random.Random, register: Register, topic: Topic, plural: bool, nest: float) -> list[Tree]:
    """With the chance `nest`, a relative clause or "of" somebody, which are modified in turn."""
    if rng.random() >= nest:
        return []
    relative, other = rng.random() < 0.5, rng.random() < 0.5
    concept = rng.choice(topic.things if relative else topic.agents)
    inner = noun(rng, register, concept, other, after=_modifier(rng, register, topic, other, nest))
    if not relative:
        return [Tree("PP", ("of", inner))]
    verb = inflect(rng.choice(rng.choice(topic.verbs).words), rng.random() < 0.5, plural)
    return [Tree("RC", (register.cleft[1], Tree("VP", (Tree("V", (verb,)), inner))))]


def adverbials(told: Clause, rng: random.Random, register: Register) -> list[Tree]:
    """Where and when, in either order."""
    found = []
    if told.meaning.place:
        found.append(Tree("PP", (register.at, noun(rng, register, told.meaning.place))))
    if told.meaning.time:
        found.append(Tree("TP", (rng.choice(told.meaning.time.words),)))
    return found if rng.random() < 0.5 else found[::-1]


def sentence(
    told: Clause,
    rng: random.Random,
    register: Register,
    rest: Sequence[Tree] = (),
    nest: float = 0.0,
    subject: Tree | None = None,
    qualities: tuple[str, str] = ("", ""),
) -> Tree:
    """The node S of a clause.

    Args:
        rest: adverbials at its end.
        nest: chance that a noun is modified, and its modifier's noun again.
        subject: said instead of the agent.
        qualities: adjectives of agent and thing.
    """
    meaning = told.meaning
    topic = _TOPIC[meaning.agent.family]

    def phrase(concept: Concept, plural: bool, quality: str, name: Concept | None = None) -> Tree:
        after = [name.words[0]] if name else _modifier(rng, register, topic, plural, nest)
        return noun(rng, register, concept, plural, [quality] if quality else [], after)

    agent = subject or phrase(meaning.agent, told.plural_agent, qualities[0], meaning.name)
    verb = inflect(rng.choice(meaning.verb.words), told.past, told.plural_agent)
    never = [register.never] if meaning.negative else []
    thing = phrase(meaning.thing, told.plural_thing, qualities[1])
    when = [Tree("AP", (rng.choice(WHEN[told.past]),))] if rng.random() < DATED else []
    return Tree("S", (agent, Tree("VP", (Tree("V", (*never, verb)), thing, *rest, *when))))


def root(rng: random.Random, register: Register, inside: Sequence[Tree | str], padding: float) -> Tree:
    """A whole sentence: the register's empty phrases, by the chances of `speech.say`, and its stop mark."""
    opening = [Tree("OPEN", (register.opening,))] if rng.random() < padding else []
    closing = [Tree("CLOSE", (register.closing,))] if rng.random() < padding / 2 else []
    return Tree("ROOT", (*opening, *inside, *closing, register.stop))


def narrate(
    told: Clause, rng: random.Random, register: Register, padding: float = 0.4, nest: float = 0.15, front: float = 0.2
) -> Tree:
    """One event; `front` is the chance that its first adverbial comes before the clause."""
    rest = adverbials(told, rng, register)
    fronted = [rest.pop(0)] if rest and rng.random() < front else []
    return root(rng, register, [*fronted, sentence(told, rng, register, rest, nest)], padding)


def coordinate(
    first: Clause, second: Clause, rng: random.Random, register: Register, padding: float = 0.4, front: float = 0.2
) -> Tree:
    """Two events joined. The second clause is marked as such: by "then", by a pronoun for its agent, by both or not."""
    rest = adverbials(first, rng, register)
    fronted = [rest.pop(0)] if rest and rng.random() < front else []
    pronoun = Tree("NP", (PRONOUNS[second.plural_agent],)) if rng.random() < 0.6 else None
    after = sentence(second, rng, register, adverbials(second, rng, register), subject=pronoun)
    if rng.random() < 0.5:
        after = Tree("S", (Tree("AP", (rng.choice(LATER),)), *after.children))
    joined = [sentence(first, rng, register, rest), Tree("CC", (rng.choice(CONJUNCTIONS),)), after]
    return root(rng, register, [*fronted, *joined], padding)
