"""The probing tasks, in the format of SentEval."""

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from random import choice, random, randrange

from tools.world.language import (
    REGISTERS,
    TOPIC,
    TOPICS,
    Clause,
    Tree,
    sample_clause,
    spell,
)
from tools.world.samples import Draw, Sample, Sizes, collect, evenly, start, write_part

_CODES = {"train": "tr", "dev": "va", "test": "te"}

# Lower bounds of SentEval's bins in tokens, and the end of the last one.
LENGTHS = (5, 9, 13, 17, 21, 26, 29)
DEPTHS = "456789"
NUMBERS = ("NN", "NNS")
_TOPS = (
    "S_. OPEN_S_. S_CLOSE_. OPEN_S_CLOSE_. PP_S_. TP_S_. OPEN_PP_S_. S_CC_S_. OPEN_S_CC_S_. "
    "PP_S_CC_S_."
)
TOPS = _TOPS.split()
# Target words: one thing of each of five topics, both synonyms.
CONTENT = [word for number, topic in enumerate(TOPICS[:5]) for word in topic.things[number].words]
HOMES = TOPICS[:4]  # topics of OddManOut's sentences; the odd word is of any other topic
NEAR = REGISTERS[:2]  # fewer function words, so that some hundred training sentences suffice


def depth(tree: Tree) -> int:
    return 1 + max(map(depth, tree.parts()), default=0)


def _tree(padding: float = 0.4, nest: float = 0.15, joined: float = 0.25) -> Tree:
    register = choice(REGISTERS)
    first = sample_clause(0.5)
    second = None
    if random() < joined:
        second = _following(first)
    return register.narrate(first, second, padding, nest)


def _following(first: Clause) -> Clause:
    return sample_clause(0.3, TOPIC[first.meaning.agent.family], past=first.past)


def _length() -> Sample | None:
    tree = _tree(random(), random() / 2)
    bin_ = bisect_right(LENGTHS, len(tree.words())) - 1
    if 0 <= bin_ < len(LENGTHS) - 1:
        return str(bin_), tree.text()
    return None


def _word_content() -> Sample | None:
    tree = _tree()
    targets = [word for word in tree.words() if word in CONTENT]
    if len(targets) == 1:
        return targets[0], tree.text()
    return None


def _depth() -> Sample:
    tree = _tree(nest=random() / 2)
    return str(depth(tree)), tree.text()


def _top_constituents() -> Sample:
    tree = _tree(joined=0.4)
    return "_".join([part.label for part in tree.parts()] + ["."]), tree.text()


def _bigram_shift() -> Sample | None:
    clause = sample_clause(0.0)
    words = choice(NEAR).narrate(clause, padding=0.0, nest=0.0).words()
    if random() < 0.5:
        return "O", spell(words)
    first = randrange(len(words) - 2)  # the stop mark is not moved
    if words[first] == words[first + 1]:
        return None
    return "I", spell([*words[:first], words[first + 1], words[first], *words[first + 2 :]])


def _feature(name: str, *labels: str, detail: float = 0.3, padding: float = 0.1) -> Draw:
    """A draw of clauses, labelled by a feature that is false or true."""

    def draw() -> Sample:
        clause = sample_clause(detail)
        tree = choice(NEAR).narrate(clause, padding=padding, nest=0.1)
        return labels[getattr(clause, name)], tree.text()

    return draw


def _odd_man_out() -> Sample:
    clause, label = sample_clause(0.6, choice(HOMES)), "O"
    if random() < 0.5:
        label, role, home = "C", choice(("agent", "verb", "thing")), clause.meaning.agent.family
        foreign = choice([topic for topic in TOPICS if topic.name != home])
        odd = {role: choice(getattr(foreign, f"{role}s"))}
        clause = clause._replace(meaning=clause.meaning._replace(**odd))
    return label, choice(REGISTERS).narrate(clause, padding=0.2, nest=0.0).text()


def _coordination_inversion() -> Sample:
    first = sample_clause(0.4)
    second = _following(first)
    tree = choice(REGISTERS).narrate(first, second, padding=0.2, front=0.0)
    if random() < 0.5:
        return "O", tree.text()
    left, right = (part for part in tree.parts() if part.label == "S")
    exchanged = {left: right, right: left}
    return "I", Tree("", *(exchanged.get(child, child) for child in tree.children)).text()


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


def write_probing(out: Path, name: str, sizes: Sizes) -> None:
    """Write a probing set, of balanced labels."""
    start(name)
    (labels, draw), seen, lines = PROBING[name], set[str](), list[str]()
    for part, size in sizes.items():
        rows = collect(draw, evenly(labels, size), seen)
        lines += [f"{_CODES[part]}\t{label}\t{text}" for label, text in rows]
    write_part(out, name, "", lines)
