"""The text of a run: `method[key=value,...]+ingredient[key=value,...]@paper|official`.

A value may have brackets of its own, such as the text of another run. `""` is the empty text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from bench.registry.methods import method_classes
from bench.registry.values import format_value
from bench.utils.errors import UserError, did_you_mean

SETTINGS = ("paper", "official")
EMPTY = '""'
DEEPEST = 20  # brackets inside each other, such as of teachers that have teachers

Keys = dict[str, str]


def parse(text: str) -> tuple[list[tuple[str, Keys]], str | None]:
    """Split the text of a run into parts with their keys, and the setting.

    >>> parse("gs-infonce[multiple=1]+is-cse@paper")
    ([('gs-infonce', {'multiple': '1'}), ('is-cse', {})], 'paper')

    Raises:
        UserError: the syntax is wrong, or the setting is unknown.
    """
    if not text.isprintable():
        raise UserError(
            f"{text!r} has a character that cannot be printed, or a line break; remove it"
        )
    if not _is_balanced(text):
        raise UserError(f"'{text}' has an unmatched bracket; write method[key=value,...]")
    if max(_depths(text), default=0) > DEEPEST:
        raise UserError(
            f"'{text[:60]}...' has more than {DEEPEST} brackets inside each other; name fewer runs "
            "inside runs"
        )
    body, *rest = _split(text.strip(), "@")
    setting = "@".join(rest) if rest else None
    if setting not in (None, *SETTINGS):
        raise UserError(f"unknown setting '{setting}' in '{text}'{did_you_mean(setting, SETTINGS)}")
    return [_parse_part(part, text) for part in _split(body, "+")], setting


def spell(name: str, keys: Mapping[str, Any]) -> str:
    """The text of a part, with its keys sorted."""
    texts = [f"{key}={format_value(value) or EMPTY}" for key, value in sorted(keys.items())]
    return f"{name}[{','.join(texts)}]" if texts else name


def _depths(text: str) -> list[int]:
    """How many brackets are open after each letter."""
    return list(accumulate((letter == "[") - (letter == "]") for letter in text))


def _is_balanced(text: str) -> bool:
    depths = [0, *_depths(text)]
    return min(depths) == 0 == depths[-1]


def _split(text: str, mark: str) -> list[str]:
    """The pieces of a text between a mark outside brackets."""
    pairs = zip(text, _depths(text), strict=True)
    places = [place for place, (letter, open_) in enumerate(pairs) if letter == mark and not open_]
    ends = [*places, len(text)]
    return [text[first:end] for first, end in zip([0, *(p + 1 for p in places)], ends, strict=True)]


def _meant(part: str) -> str:
    """Suggest the name of the method whose title or name a part begins with, written otherwise."""
    written = part.partition("[")[0].strip()
    names = {cls.title.lower(): name for name, cls in method_classes().items()}
    plain = re.sub(r"[^a-z0-9]+", "-", written.lower()).strip("-")
    name = names.get(written.lower()) or (plain if plain in names.values() else None)
    return f"; did you mean '{name}'?" if name else ""


def _parse_part(part: str, text: str) -> tuple[str, Keys]:
    match = re.fullmatch(r"\s*([a-z0-9-]+)\s*(?:\[(.*)\])?\s*", part, re.DOTALL)
    if not match or not _is_balanced(match[2] or ""):
        where = f"cannot read '{part}'" + (f" in '{text}'" if part != text else "")
        remedy = _meant(text) or _meant(part)
        raise UserError(where + (remedy or "; write method[key=value,...]+method@paper|official"))
    keys: Keys = {}
    for item in filter(None, _split(match[2] or "", ",")):
        key, equals, value = (word.strip() for word in item.partition("="))
        if not equals or not key or not value:
            raise UserError(f"cannot read '{item}' in '{text}'; write key=value")
        if key in keys:
            raise UserError(f"'{key}' is given twice in '{text}'; give it once")
        keys[key] = "" if value == EMPTY else value
    return match[1], keys
