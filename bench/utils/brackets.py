"""Keys in brackets, NAME[key=value,...], where values may have brackets and commas of their own."""

import re
from collections.abc import Iterable

from bench.utils.errors import UserError


def split(text: str, mark: str) -> list[str]:
    """The pieces of a text between a mark outside brackets; `UserError` if brackets are unpaired.

    >>> split("a[x=[1+2]]+b", "+")
    ['a[x=[1+2]]', 'b']
    """
    pieces, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth < 0:
            break
        if letter == mark and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    if depth != 0:
        raise UserError(f"'{text}' has an unmatched bracket; write name[key=value,...]")
    return pieces


def items(pieces: Iterable[str], begin: str) -> list[str]:
    """Items from pieces between commas: a piece that does not begin as the pattern `begin` says
    belongs to the value before it.

    >>> items(["x=1", "2", "y=3"], r"\\w+=")
    ['x=1,2', 'y=3']
    """
    found: list[str] = []
    for piece in pieces:
        if found and not re.match(begin, piece):
            found[-1] += f",{piece}"
        else:
            found.append(piece)
    return found
