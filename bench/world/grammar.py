"""The grammar of the embedded language: wording of meanings, and clauses with number and tense.

All words are regular ("stealed", "tooths"), so that forms follow from the grammar.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from bench.world.lexicon import TOPIC, Concept, Topic
from bench.world.meaning import Meaning, sample_meaning
from bench.world.speech import Register, Tree

STRUCTURES = ("plain", "fronted", "agent cleft", "thing cleft")
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
    agents, things = rng.random() < 0.5, rng.random() < 0.5
    meaning = meaning._replace(mood="fact", name=None if agents else meaning.name)
    return Clause(meaning, rng.random() < 0.5 if past is None else past, agents, things)


class Speaker(NamedTuple):
    """A register, and the random stream that chooses among synonyms and structures."""

    rng: random.Random
    register: Register

    def noun(
        self,
        concept: Concept,
        plural: bool = False,
        before: Sequence[str] = (),
        after: Sequence[Tree | str] = (),
    ) -> Tree:
        """Return a noun phrase: article, `before`, a random synonym, `after`."""
        word = self.rng.choice(concept.words)
        return Tree("NP", (self.register.the, *before, with_s(word) if plural else word, *after))

    def root(self, inside: Sequence[Tree | str], padding: float = 0.4) -> Tree:
        """Return a sentence with filler phrases and a stop mark.

        `padding` is the chance of the opening phrase, and twice the chance of the closing one.
        """
        rng, register = self
        opening = [Tree("OPEN", (register.opening,))] if rng.random() < padding else []
        closing = [Tree("CLOSE", (register.closing,))] if rng.random() < padding / 2 else []
        return Tree("ROOT", (*opening, *inside, *closing, register.stop))

    def adverbials(self, meaning: Meaning) -> list[Tree]:
        """Return place and time, in random order."""
        phrases = []
        if meaning.place:
            phrases.append(Tree("PP", (self.register.at, self.noun(meaning.place))))
        if meaning.time:
            phrases.append(Tree("TP", (self.rng.choice(meaning.time.words),)))
        return phrases if self.rng.random() < 0.5 else phrases[::-1]

    def say(
        self, meaning: Meaning, structures: Sequence[str] = STRUCTURES, padding: float = 0.4
    ) -> str:
        """Sample a sentence with the given meaning; `padding` as in `root`."""
        rng, register = self
        agent = self.noun(meaning.agent, after=meaning.name.words[:1] if meaning.name else ())
        thing = self.noun(meaning.thing)
        never = [register.never] if meaning.negative else []
        helper = getattr(register, meaning.mood)
        verb = Tree("V", (helper, *never, rng.choice(meaning.verb.words)))
        rest = self.adverbials(meaning)
        structure = rng.choice(structures)
        clause: Sequence[Tree | str]
        if structure == "agent cleft":
            clause = (register.it_was, agent, register.that, Tree("VP", (verb, thing, *rest)))
        elif structure == "thing cleft":
            clause = (register.it_was, thing, register.that, agent, Tree("VP", (verb, *rest)))
        elif structure == "fronted" and rest:
            clause = (*rest, agent, Tree("VP", (verb, thing)))
        else:
            clause = (agent, Tree("VP", (verb, thing, *rest)))
        return self.root(clause, padding).text()

    def _modifier(self, topic: Topic, plural: bool, nest: float) -> list[Tree]:
        """Return a relative clause or an "of" phrase with chance `nest`, modified recursively."""
        rng = self.rng
        if rng.random() >= nest:
            return []
        relative, other = rng.random() < 0.5, rng.random() < 0.5
        concept = rng.choice(topic.things if relative else topic.agents)
        inner = self.noun(concept, other, after=self._modifier(topic, other, nest))
        if not relative:
            return [Tree("PP", ("of", inner))]
        verb = inflect(rng.choice(rng.choice(topic.verbs).words), rng.random() < 0.5, plural)
        return [Tree("RC", (self.register.that, Tree("VP", (Tree("V", (verb,)), inner))))]

    def sentence(
        self,
        clause: Clause,
        rest: Sequence[Tree] = (),
        nest: float = 0.0,
        subject: Tree | None = None,
        qualities: tuple[str, str] = ("", ""),
    ) -> Tree:
        """Return the node S of a clause, with adverbials at the end.

        `nest` is the chance that a noun is modified, recursively; `subject` replaces the agent;
        `qualities` are adjectives of agent and thing, or "".
        """
        rng, meaning = self.rng, clause.meaning

        def phrase(
            concept: Concept, plural: bool, quality: str, name: Concept | None = None
        ) -> Tree:
            topic = TOPIC[meaning.agent.family]
            after = name.words[:1] if name else self._modifier(topic, plural, nest)
            return self.noun(concept, plural, [quality], after)

        agent = subject or phrase(meaning.agent, clause.plural_agent, qualities[0], meaning.name)
        verb = inflect(rng.choice(meaning.verb.words), clause.past, clause.plural_agent)
        never = [self.register.never] if meaning.negative else []
        thing = phrase(meaning.thing, clause.plural_thing, qualities[1])
        when = [Tree("AP", (rng.choice(WHEN[clause.past]),))] if rng.random() < DATED else []
        return Tree("S", (agent, Tree("VP", (Tree("V", (*never, verb)), thing, *rest, *when))))

    def narrate(
        self,
        clause: Clause,
        second: Clause | None = None,
        padding: float = 0.4,
        nest: float = 0.15,
        front: float = 0.2,
    ) -> Tree:
        """Return a sentence of one event, or of two, whose nouns are not modified.

        The second clause may have an adverb ("then"), a pronoun as subject, or both. `front` is the
        chance that an adverbial precedes the first clause.
        """
        rng = self.rng
        rest = self.adverbials(clause.meaning)
        fronted = [rest.pop(0)] if rest and rng.random() < front else []
        if second is None:
            return self.root([*fronted, self.sentence(clause, rest, nest)], padding)
        pronoun = Tree("NP", (PRONOUNS[second.plural_agent],)) if rng.random() < 0.6 else None
        after = self.sentence(second, self.adverbials(second.meaning), subject=pronoun)
        if rng.random() < 0.5:
            after = Tree("S", (Tree("AP", (rng.choice(LATER),)), *after.children))
        before = self.sentence(clause, rest)
        conjunction = Tree("CC", (rng.choice(CONJUNCTIONS),))
        return self.root([*fronted, before, conjunction, after], padding)
