"""The text of a run: `method[key=value,...]+ingredient[key=value,...]@paper|official`.

A value may have brackets of its own, such as the text of another run. `""` is the empty text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bench.registry.methods import method_classes
from bench.registry.values import format_value
from bench.utils.errors import UserError, did_you_mean

SETTINGS = ("paper", "official")
EMPTY = '""'

Keys = dict[str, str]


def parse(text: str) -> tuple[list[tuple[str, Keys]], str | None]:
    """Split the text of a run into parts with their keys, and the setting.

    >>> parse("gs-infonce[multiple=1]+is-cse@paper")
    ([('gs-infonce', {'multiple': '1'}), ('is-cse', {})], 'paper')

    Raises:
        UserError: the syntax is wrong, or the setting is unknown.
    """
    body, *rest = _split(text.strip(), "@")
    setting = "@".join(rest) if rest else None
    if setting not in (None, *SETTINGS):
        raise UserError(f"unknown setting '{setting}' in '{text}'{did_you_mean(setting, SETTINGS)}")
    return [_parse_part(part, text) for part in _split(body, "+")], setting


def spell(name: str, keys: Mapping[str, Any]) -> str:
    """The text of a part, with its keys sorted."""
    texts = [f"{key}={format_value(value) or EMPTY}" for key, value in sorted(keys.items())]
    return f"{name}[{','.join(texts)}]" if texts else name


def _split(text: str, mark: str) -> list[str]:
    """The pieces of a text between a mark outside brackets."""
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
        raise UserError(f"'{text}' has an unmatched bracket; write method[key=value,...]")
    return pieces


def _parse_part(part: str, text: str) -> tuple[str, Keys]:
    match = re.fullmatch(r"\s*([a-z0-9-]+)\s*(?:\[(.*)\])?\s*", part, re.DOTALL)
    if not match:
        context = f" in '{text}'" if part != text else ""
        remedy = _meant(text) or _meant(part)
        remedy = remedy or "; write method[key=value,...]+method@paper|official"
        raise UserError(f"cannot read '{part}'{context}{remedy}")
    keys: Keys = {}
    for item in filter(None, _split(match[2] or "", ",")):
        key, equals, value = (word.strip() for word in item.partition("="))
        if not equals or not key or not value:
            raise UserError(f"cannot read '{item}' in '{text}'; write key=value")
        if key in keys:
            raise UserError(f"'{key}' is given twice in '{text}'; give it once")
        keys[key] = "" if value == EMPTY else value
    return match[1], keys


def _meant(part: str) -> str:
    """Suggest the name of the method whose title or name a part begins with, written otherwise."""
    written = part.partition("[")[0].strip().lower()
    titles = {cls.title.lower(): name for name, cls in method_classes().items()}
    plain = re.sub(r"[^a-z0-9]+", "-", written).strip("-")
    name = titles.get(written) or (plain if plain in method_classes() else None)
    return f"; did you mean '{name}'?" if name else ""
