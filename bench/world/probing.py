"""The ten probing tasks of SentEval (Conneau et al., 2018), with labels from the derivation."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from bench.datasets.tasks import PROBING_FILES
from bench.world.draws import Draw, Sample, Sizes, Stream, collect, evenly, write_lines
from bench.world.grammar import Clause, Speaker, sample_clause
from bench.world.lexicon import TOPIC, TOPICS
from bench.world.meaning import Meaning
from bench.world.speech import REGISTERS, Tree, spell

SPLITS = {"train": 800, "dev": 200, "test": 200}
_CODES = {"train": "tr", "dev": "va", "test": "te"}

# Lower bounds of SentEval's bins in tokens, and the end of the last one.
LENGTHS = (5, 9, 13, 17, 21, 26, 29)
DEPTHS = "456789"
NUMBERS = ("NN", "NNS")
_TOPS = (
    "S_. OPEN_S_. S_CLOSE_. OPEN_S_CLOSE_. PP_S_. TP_S_. OPEN_PP_S_. S_CC_S_. OPEN_S_CC_S_. "
    "PP_S_CC_S_."
)
TOPS = tuple(_TOPS.split())
# Target words: one thing of each of five topics, both synonyms.
CONTENT = [word for number, topic in enumerate(TOPICS[:5]) for word in topic.things[number].words]
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
    speaker = Speaker(rng, rng.choice(REGISTERS))
    first = sample_clause(rng, 0.5)
    second = None if rng.random() >= joined else _following(rng, first)
    return speaker.narrate(first, second, padding, nest)


def _following(rng: random.Random, first: Clause) -> Clause:
    """Sample a second event of the same topic and tense."""
    return sample_clause(rng, 0.3, TOPIC[first.meaning.agent.family], past=first.past)


def _length(rng: random.Random) -> Sample | None:
    tree = _tree(rng, rng.random(), rng.random() / 2)
    bin_ = bisect_right(LENGTHS, len(tree.words())) - 1
    return (str(bin_), tree.text()) if 0 <= bin_ < len(LENGTHS) - 1 else None


def _word_content(rng: random.Random) -> Sample | None:
    tree = _tree(rng)
    targets = [word for word in tree.words() if word in CONTENT]
    return (targets[0], tree.text()) if len(targets) == 1 else None


def _depth(rng: random.Random) -> Sample:
    tree = _tree(rng, nest=rng.random() / 2)
    return str(depth(tree)), tree.text()


def _top_constituents(rng: random.Random) -> Sample:
    tree = _tree(rng, joined=0.4)
    return top_constituents(tree), tree.text()


def _bigram_shift(rng: random.Random) -> Sample | None:
    clause = sample_clause(rng, 0.0)
    words = Speaker(rng, rng.choice(NEAR)).narrate(clause, padding=0.0, nest=0.0).words()
    if rng.random() < 0.5:
        return "O", spell(words)
    first = rng.randrange(len(words) - 2)  # the stop mark is not moved
    if words[first] == words[first + 1]:
        return None
    return "I", spell([*words[:first], words[first + 1], words[first], *words[first + 2 :]])


def _feature(name: str, *labels: str, detail: float = 0.3, padding: float = 0.1) -> Draw:
    """Return a sampling function of clauses, labelled by a feature that is false or true."""

    def draw(rng: random.Random) -> Sample:
        clause = sample_clause(rng, detail)
        tree = Speaker(rng, rng.choice(NEAR)).narrate(clause, padding=padding, nest=0.1)
        return labels[getattr(clause, name)], tree.text()

    return draw


def _odd_man_out(rng: random.Random) -> Sample:
    clause = sample_clause(rng, 0.6, rng.choice(HOMES))
    changed = rng.random() < 0.5
    if changed:
        clause = clause._replace(meaning=_estrange(clause.meaning, rng))
    speaker = Speaker(rng, rng.choice(REGISTERS))
    return "C" if changed else "O", speaker.narrate(clause, padding=0.2, nest=0.0).text()


def _estrange(meaning: Meaning, rng: random.Random) -> Meaning:
    """Return the meaning with agent, verb or thing replaced by one of another topic."""
    role = rng.choice(("agent", "verb", "thing"))
    other = rng.choice([topic for topic in TOPICS if topic.name != meaning.agent.family])
    return meaning._replace(**{role: rng.choice(getattr(other, f"{role}s"))})


def _coordination_inversion(rng: random.Random) -> Sample:
    first = sample_clause(rng, 0.4)
    second = _following(rng, first)
    tree = Speaker(rng, rng.choice(REGISTERS)).narrate(first, second, padding=0.2, front=0.0)
    return ("O", tree.text()) if rng.random() < 0.5 else ("I", invert(tree).text())


def invert(tree: Tree) -> Tree:
    """Exchange the two clauses of a coordinated sentence."""
    first, second = (
        child for child in tree.children if isinstance(child, Tree) and child.label == "S"
    )
    other = {id(first): second, id(second): first}
    return Tree(tree.label, tuple(other.get(id(child), child) for child in tree.children))


# Labels, and sampling function.
PROBING: dict[str, tuple[Sequence[str], Draw]] = {
    "Length": ("012345", _length),
    "WordContent": (CONTENT, _word_content),
    "Depth": (DEPTHS, _depth),
    "TopConstituents": (TOPS, _top_constituents),
    "BigramShift": ("IO", _bigram_shift),
    "Tense": (("PAST", "PRES"), _feature("past", "PRES", "PAST")),
    "SubjNumber": (NUMBERS, _feature("plural_agent", *NUMBERS, detail=0.15, padding=0.05)),
    "ObjNumber": (NUMBERS, _feature("plural_thing", *NUMBERS)),
    "OddManOut": ("CO", _odd_man_out),
    "CoordinationInversion": ("IO", _coordination_inversion),
}


def write_probing(folder: Path, stream: Stream) -> Sizes:
    """Write the ten probing sets, of balanced labels, and return their sizes for the manifest."""
    for name, (labels, draw) in PROBING.items():
        rng, seen = stream(name), set[str]()
        lines = []
        for split, size in SPLITS.items():
            rows = collect(rng, draw, evenly(labels, size), seen)
            lines += [f"{_CODES[split]}\t{label}\t{text}" for label, text in rows]
        write_lines(folder / f"{PROBING_FILES[name]}.txt", lines)
    return {name: dict(SPLITS) for name in PROBING}
