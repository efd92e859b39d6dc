"""Wording of meanings: registers, clause structures and synonyms. None of them changes the meaning.

A register has its own function words. Like style in real text, it determines most tokens of a
sentence and nothing of its meaning, so that averages of word vectors mostly separate registers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.world.meaning import Meaning


class Tree(NamedTuple):
    """A node of a derivation: a label, and words or nodes as children."""

    label: str
    children: tuple[Tree | str, ...]

    def words(self) -> list[str]:
        """Return the words of the tree, in order."""
        return str(self).split()

    def __str__(self) -> str:
        return " ".join(map(str, self.children))


def spell(words: Sequence[str]) -> str:
    """Join tokens by spaces and capitalise the first one."""
    return " ".join([words[0][0].upper() + words[0][1:], *words[1:]])


@dataclass(frozen=True)
class Sentence:
    """A sentence with its meaning and derivation."""

    meaning: Meaning
    tree: Tree

    @property
    def text(self) -> str:
        """The text, with a capital first letter."""
        return spell(self.tree.words())


@dataclass(frozen=True)
class Register:
    """The function words of a style."""

    name: str
    the: str
    at: str  # before places
    did: str
    moods: dict[str, str]
    never: str
    cleft: tuple[str, str]  # it was ... that
    opening: str
    closing: str
    stop: str


REGISTERS = (
    Register(
        "official",
        "the",
        "in",
        "did",
        {"must": "had to", "wish": "wished to", "may": "may"},
        "not",
        ("it was", "that"),
        "according to the report ,",
        ", officials said",
        ".",
    ),
    Register(
        "spoken",
        "this",
        "inside",
        "kinda",
        {"must": "gotta", "wish": "wanna", "may": "could"},
        "never",
        ("there goes", "who"),
        "well , honestly , i mean",
        ", you know",
        "!",
    ),
    Register(
        "archaic",
        "ye",
        "nigh",
        "doth",
        {"must": "shall", "wish": "fain", "may": "perchance"},
        "nay",
        ("lo , 'tis", "whom"),
        "hearken , good people ,",
        ", forsooth",
        ";",
    ),
    Register(
        "query",
        "any",
        "within",
        "does",
        {"must": "have to", "wish": "want to", "may": "possibly"},
        "hardly",
        ("would it be", "which"),
        "could anybody tell us whether",
        ", or not",
        "?",
    ),
)

STRUCTURES = ("plain", "fronted", "agent cleft", "thing cleft")


def say(
    meaning: Meaning,
    rng: random.Random,
    register: Register,
    structures: tuple[str, ...] = STRUCTURES,
    padding: float = 0.4,
) -> Sentence:
    """Sample a sentence with the given meaning.

    Args:
        meaning: what is said.
        rng: random stream.
        register: style.
        structures: clause structures to choose from.
        padding: chance of the opening filler phrase, and twice the chance of the closing one.
    """

    def noun(concept_words: tuple[str, ...], *before: str) -> Tree:
        return Tree("NP", (register.the, *before, rng.choice(concept_words)))

    agent = noun(meaning.agent.words)
    if meaning.name:
        agent = Tree("NP", (*agent.children, meaning.name.words[0]))
    thing = noun(meaning.thing.words)
    helper = register.did if meaning.mood == "fact" else register.moods[meaning.mood]
    verb = Tree(
        "V",
        (helper, *([register.never] if meaning.negative else []), rng.choice(meaning.verb.words)),
    )
    place = [Tree("PP", (register.at, noun(meaning.place.words)))] if meaning.place else []
    time = [Tree("TP", (rng.choice(meaning.time.words),))] if meaning.time else []
    rest = [*place, *time] if rng.random() < 0.5 else [*time, *place]

    structure = rng.choice(structures)
    it_was, that = register.cleft
    clause: tuple[Tree | str, ...]
    if structure == "agent cleft":
        clause = (it_was, agent, that, Tree("VP", (verb, thing, *rest)))
    elif structure == "thing cleft":
        clause = (it_was, thing, that, agent, Tree("VP", (verb, *rest)))
    elif structure == "fronted" and rest:
        clause = (*rest, agent, Tree("VP", (verb, thing)))
    else:
        clause = (agent, Tree("VP", (verb, thing, *rest)))
    opening = [Tree("OPEN", (register.opening,))] if rng.random() < padding else []
    closing = [Tree("CLOSE", (register.closing,))] if rng.random() < padding / 2 else []
    return Sentence(meaning, Tree("ROOT", (*opening, Tree("S", clause), *closing, register.stop)))
