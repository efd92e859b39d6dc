"""How meanings are said: registers, clause structures, synonyms. Nothing here carries meaning.

A register brings its own small words for everything: it marks most of a sentence's tokens and says nothing of its
meaning, as style does in real text. So an average of word vectors mostly tells registers apart, while there are too few
registers to tell sentences apart.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.world.meaning import Meaning


class Tree(NamedTuple):
    """A node of a derivation: a label over words and further nodes."""

    label: str
    children: tuple[Tree | str, ...]

    def words(self) -> list[str]:
        """The words below, in order."""
        return str(self).split()

    def __str__(self) -> str:
        return " ".join(map(str, self.children))


def spell(words: Sequence[str]) -> str:
    """Tokens joined by spaces; the first is capitalised, proper names always are."""
    return " ".join([words[0][0].upper() + words[0][1:], *words[1:]])


@dataclass(frozen=True)
class Sentence:
    """A sentence with all that is known of it."""

    meaning: Meaning
    tree: Tree

    @property
    def text(self) -> str:
        """Its tokens, spelled."""
        return spell(self.tree.words())


@dataclass(frozen=True)
class Register:
    """The small words of one way of speaking."""

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
    """One sentence with the given meaning.

    Args:
        structures: clause structures to choose from.
        padding: chance of the register's empty opening phrase, and half the chance of its closing one.
    """

    def noun(concept_words: tuple[str, ...], *before: str) -> Tree:
        return Tree("NP", (register.the, *before, rng.choice(concept_words)))

    agent = noun(meaning.agent.words)
    if meaning.name:
        agent = Tree("NP", (*agent.children, meaning.name.words[0]))
    thing = noun(meaning.thing.words)
    helper = register.did if meaning.mood == "fact" else register.moods[meaning.mood]
    verb = Tree("V", (helper, *([register.never] if meaning.negative else []), rng.choice(meaning.verb.words)))
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
