"""Derivation trees, and the function words of four registers. Neither changes a meaning.

Like style in real text, a register determines most tokens of a sentence and nothing of its meaning,
so that averages of word vectors mostly separate registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


def spell(words: Sequence[str]) -> str:
    """Join tokens by spaces and capitalise the first one."""
    return " ".join([words[0][0].upper() + words[0][1:], *words[1:]])


class Tree(NamedTuple):
    """A node of a derivation: a label, and words or nodes as children."""

    label: str
    children: tuple[Tree | str, ...]

    def words(self) -> list[str]:
        """Return the words of the tree, in order."""
        return str(self).split()

    def text(self) -> str:
        """Return the words as a sentence."""
        return spell(self.words())

    def __str__(self) -> str:
        return " ".join(map(str, self.children))


class Register(NamedTuple):
    """The function words of a style."""

    the: str
    at: str  # before places
    fact: str  # the helping verbs of the moods
    must: str
    wish: str
    may: str
    never: str
    it_was: str  # of a cleft
    that: str
    opening: str
    closing: str
    stop: str


# A column per register: official, spoken, archaic, and that of queries.
_WORDS = """
    the | this | ye | any
    in | inside | nigh | within
    did | kinda | doth | does
    had to | gotta | shall | have to
    wished to | wanna | fain | want to
    may | could | perchance | possibly
    not | never | nay | hardly
    it was | there goes | lo , 'tis | would it be
    that | who | whom | which
    according to the report , | well , honestly , i mean | hearken , good people , | could anybody tell us whether
    , officials said | , you know | , forsooth | , or not
    . | ! | ; | ?"""  # noqa: E501
REGISTERS = tuple(map(Register, *(line.strip().split(" | ") for line in _WORDS.split("\n")[1:])))
