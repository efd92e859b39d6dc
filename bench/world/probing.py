"""The ten probing tasks of SentEval (Conneau et al., 2018), with labels from the derivation."""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from bench.world.draws import Draw, Sample, collect, evenly
from bench.world.grammar import Clause, coordinate, narrate, sample_clause
from bench.world.lexicon import TOPICS
from bench.world.meaning import Meaning
from bench.world.speech import REGISTERS, Tree, spell

SPLITS = {"train": 800, "dev": 200, "test": 200}

LENGTHS = (
    5,
    9,
    13,
    17,
    21,
    26,
    29,
)  # lower bounds of SentEval's bins in tokens, and the end of the last one
DEPTHS = ("4", "5", "6", "7", "8", "9")
TOPS = (
    "S_.",
    "OPEN_S_.",
    "S_CLOSE_.",
    "OPEN_S_CLOSE_.",
    "PP_S_.",
    "TP_S_.",
    "OPEN_PP_S_.",
    "S_CC_S_.",
    "OPEN_S_CC_S_.",
    "PP_S_CC_S_.",
)
# Target words: one thing of each of five topics, both synonyms.
CONTENT = tuple(
    word for number, topic in enumerate(TOPICS[:5]) for word in topic.things[number].words
)
_CONTENT = frozenset(CONTENT)
HOMES = TOPICS[:4]  # topics of OddManOut's sentences; the odd word is of any other topic
NEAR = REGISTERS[:2]  # fewer function words, so that some hundred training sentences suffice


def depth(tree: Tree) -> int:
    """Return the depth of a tree in nodes."""
    return 1 + max((depth(child) for child in tree.children if isinstance(child, Tree)), default=0)


def top_constituents(tree: Tree) -> str:
    """Return the labels of the nodes below the root; any stop mark is written as a full stop."""
    return "_".join([*(child.label for child in tree.children if isinstance(child, Tree)), "."])


def _tree(
    rng: random.Random, padding: float = 0.4, nest: float = 0.15, joined: float = 0.25
) -> Tree:
    register = rng.choice(REGISTERS)
    first = sample_clause(rng, 0.5)
    if rng.random() >= joined:
        return narrate(first, rng, register, padding, nest)
    return coordinate(first, _following(rng, first), rng, register, padding)


def _following(rng: random.Random, first: Clause) -> Clause:
    """Sample a second event of the same topic and tense."""
    topic = next(topic for topic in TOPICS if topic.name == first.meaning.agent.family)
    return sample_clause(rng, 0.3, topic, past=first.past)


def _length(rng: random.Random) -> Sample | None:
    words = _tree(rng, rng.random(), rng.random() / 2).words()
    bin_ = bisect_right(LENGTHS, len(words)) - 1
    return (str(bin_), spell(words)) if 0 <= bin_ < len(LENGTHS) - 1 else None


def _word_content(rng: random.Random) -> Sample | None:
    words = _tree(rng).words()
    targets = [word for word in words if word in _CONTENT]
    return (targets[0], spell(words)) if len(targets) == 1 else None


def _depth(rng: random.Random) -> Sample:
    tree = _tree(rng, nest=rng.random() / 2)
    return str(depth(tree)), spell(tree.words())


def _top_constituents(rng: random.Random) -> Sample:
    tree = _tree(rng, joined=0.4)
    return top_constituents(tree), spell(tree.words())


def _bigram_shift(rng: random.Random) -> Sample | None:
    words = narrate(sample_clause(rng, 0.0), rng, rng.choice(NEAR), padding=0.0, nest=0.0).words()
    if rng.random() < 0.5:
        return "O", spell(words)
    first = rng.randrange(len(words) - 2)  # the stop mark is not moved
    if words[first] == words[first + 1]:
        return None
    return "I", spell([*words[:first], words[first + 1], words[first], *words[first + 2 :]])


def _one_clause(
    rng: random.Random, detail: float = 0.3, padding: float = 0.1
) -> tuple[Clause, str]:
    clause = sample_clause(rng, detail)
    return clause, spell(narrate(clause, rng, rng.choice(NEAR), padding, nest=0.1).words())


def _tense(rng: random.Random) -> Sample:
    clause, text = _one_clause(rng)
    return "PAST" if clause.past else "PRES", text


def _subject_number(rng: random.Random) -> Sample:
    clause, text = _one_clause(rng, 0.15, 0.05)
    return "NNS" if clause.plural_agent else "NN", text


def _object_number(rng: random.Random) -> Sample:
    clause, text = _one_clause(rng)
    return "NNS" if clause.plural_thing else "NN", text


def _odd_man_out(rng: random.Random) -> Sample:
    clause = sample_clause(rng, 0.6, rng.choice(HOMES))
    changed = rng.random() < 0.5
    if changed:
        clause = clause._replace(meaning=_estrange(clause, rng))
    return "C" if changed else "O", spell(
        narrate(clause, rng, rng.choice(REGISTERS), padding=0.2, nest=0.0).words()
    )


def _estrange(clause: Clause, rng: random.Random) -> Meaning:
    """Return the meaning with agent, verb or thing replaced by one of another topic."""
    role = rng.choice(("agent", "verb", "thing"))
    other = rng.choice([topic for topic in TOPICS if topic.name != clause.meaning.agent.family])
    pool = {"agent": other.agents, "verb": other.verbs, "thing": other.things}[role]
    changed: dict[str, Any] = {role: rng.choice(pool)}
    return clause.meaning._replace(**changed)


def _coordination_inversion(rng: random.Random) -> Sample:
    first = sample_clause(rng, 0.4)
    tree = coordinate(
        first, _following(rng, first), rng, rng.choice(REGISTERS), padding=0.2, front=0.0
    )
    if rng.random() < 0.5:
        return "O", spell(tree.words())
    return "I", spell(invert(tree).words())


def invert(tree: Tree) -> Tree:
    """Exchange the two clauses of a coordinated sentence."""
    first, second = (
        child for child in tree.children if isinstance(child, Tree) and child.label == "S"
    )
    other = {id(first): second, id(second): first}
    return Tree(tree.label, tuple(other.get(id(child), child) for child in tree.children))


@dataclass(frozen=True)
class Probe:
    """A probing task: file, labels and sampling function."""

    file: str
    labels: tuple[str, ...]
    draw: Draw


PROBING = {
    "Length": Probe("sentence_length", tuple("012345"), _length),
    "WordContent": Probe("word_content", CONTENT, _word_content),
    "Depth": Probe("tree_depth", DEPTHS, _depth),
    "TopConstituents": Probe("top_constituents", TOPS, _top_constituents),
    "BigramShift": Probe("bigram_shift", ("I", "O"), _bigram_shift),
    "Tense": Probe("past_present", ("PAST", "PRES"), _tense),
    "SubjNumber": Probe("subj_number", ("NN", "NNS"), _subject_number),
    "ObjNumber": Probe("obj_number", ("NN", "NNS"), _object_number),
    "OddManOut": Probe("odd_man_out", ("C", "O"), _odd_man_out),
    "CoordinationInversion": Probe("coordination_inversion", ("I", "O"), _coordination_inversion),
}


def sample_probe(rng: random.Random, probe: Probe) -> dict[str, list[Sample]]:
    """Sample the three splits of a task, with balanced labels."""
    seen: set[str] = set()
    return {
        split: collect(rng, probe.draw, evenly(probe.labels, size), seen)
        for split, size in SPLITS.items()
    }
