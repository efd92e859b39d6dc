"""Reproductions of printed numbers by others, as docs/policy.md registers them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from bench.reported import FOLDER, MEASURES, printed
from bench.reported.address import address
from bench.utils.errors import UserError, did_you_mean

_TEXT = {"type": "string", "pattern": r"\S"}
_SCORES = {"type": "array", "minItems": 1, "items": {"type": "number"}}
_ENTRY = {
    "type": "object",
    "additionalProperties": False,
    "required": ["by", "date", "url", "code", "numbers"],
    "properties": {
        "by": _TEXT,
        "date": {"type": "string", "format": "date", "pattern": r"^\d{4}-\d\d-\d\d$"},
        "url": {"type": "string", "pattern": r"^https://\S+$"},
        "code": _TEXT,
        "note": _TEXT,
        "numbers": {"type": "object", "minProperties": 1, "additionalProperties": _SCORES},
    },
}
_VALIDATOR = Draft202012Validator({"type": "array", "items": _ENTRY})


@dataclass(frozen=True)
class Reproduction:
    """Scores of printed numbers that somebody else measured.

    Attributes:
        by: who did.
        date: when the scores were made, as 2026-11-23.
        url: https address of code, configuration and logs.
        code: what was run.
        numbers: by address of the printed number, one score per seed in its units.
        note: differences from what is printed; empty if there are none.
    """

    by: str
    date: str
    url: str
    code: str
    numbers: Mapping[str, list[float]]
    note: str = ""


def reproductions(path: Path = FOLDER / "reproductions.yaml") -> tuple[Reproduction, ...]:
    """The registered reproductions, in the order of the file.

    Raises:
        UserError: the file cannot be read, an entry is not as docs/policy.md describes it, or an
            address is not of a printed score; the message names the entry.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    content = json.loads(json.dumps(content, default=str))  # YAML reads dates as such
    for fault in _VALIDATOR.iter_errors(content):
        raise UserError(f"{path.name}, {_place(fault.absolute_path)}: {fault.message}; fix it")
    for count, entry in enumerate(content, 1):
        if not all(map(math.isfinite, chain.from_iterable(entry["numbers"].values()))):
            raise UserError(f"{path.name}, entry {count}: a score is no finite number")
    entries = tuple(Reproduction(**entry) for entry in content)
    numbers = printed()
    scores = numbers[numbers["metric"].isin(MEASURES)]
    known = {address(number) for number in scores.itertuples()} if entries else set()
    for count, entry in enumerate(entries, 1):
        for name in entry.numbers.keys() - known:
            what = f"entry {count}: '{name}' is not the address of a printed score"
            raise UserError(f"{path.name}, {what}{did_you_mean(name, known)}")
    return entries


def _place(path: Any) -> str:
    """Where in the file an error is, in words."""
    first, *rest = path or [-1]
    return " ".join([f"entry {first + 1}", *map(repr, rest)]) if first >= 0 else "the file"
