"""Keys in brackets, NAME[key=value,...], where values may contain brackets and commas."""

from collections.abc import Sequence

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


def read_keys(text: str, source: str, bare: Sequence[str] = ()) -> dict[str, str]:
    """The keys `text` in brackets of the text `source`. A comma ends a value only before `key=`, or
    before one of the `bare` keys, which need no value.

    >>> read_keys("x=1,2,y=3", "a[x=1,2,y=3]")
    {'x': '1,2', 'y': '3'}
    """
    keys: dict[str, str] = {}
    key = ""
    for piece in split(text, ","):
        name, equals, value = piece.partition("=")
        name = name.strip()
        if name in bare or (equals and name.isidentifier()):
            if name in keys:
                raise UserError(f"'{name}' is given twice in '{source}'; give it once")
            key, keys[name] = name, value
        elif keys:
            keys[key] += f",{piece}"
        else:
            raise UserError(f"cannot read '{piece.strip()}' in '{source}'; write key=value")
    return keys
