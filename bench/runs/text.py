"""The text of a run.

A text is `method[key=value,...]+ingredient[key=value,...]@paper|official`. A value may have
brackets of its own, such as the text of another run, and commas that no `key=` follows. `""` is
the empty text. Spaces at the ends of a value belong to it only where the hyper-parameter has the
mark `TEXT`. Keys are hyper-parameters of the part they follow; after the first part they may also
be recipe fields. All parts but the first are sorted, and keys that change nothing are left out, so
that a run has exactly one spelling in a suite.

A hyper-parameter with the mark `MODEL` may name the encoder of another run, `run:TEXT` or `run:TEXT
on BACKBONE`. That run is needed first. It has the corpus, data and seed of the run that needs it,
and the suite's recipe.
"""

import re
from collections.abc import Mapping
from typing import Any

from bench.registry.methods import format_value, method_classes
from bench.utils.brackets import read_keys, split
from bench.utils.errors import UserError, did_you_mean, suggestion

SETTINGS = ("paper", "official")
EMPTY = '""'
RUN = "run:"

Keys = dict[str, Any]


def parse(text: str) -> tuple[list[tuple[str, Keys]], str | None]:
    """Split the text of a run into parts with their keys, and the setting.

    >>> parse("gs-infonce[multiple=1]+is-cse@paper")
    ([('gs-infonce', {'multiple': '1'}), ('is-cse', {})], 'paper')
    """
    body, *suffixes = split(text.strip(), "@")
    setting = "@".join(suffixes) if suffixes else None
    if setting not in (None, *SETTINGS):
        raise UserError(f"unknown setting '{setting}' in '{text}'{did_you_mean(setting, SETTINGS)}")
    return [_parse_part(part, text) for part in split(body, "+")], setting


def spell(name: str, keys: Mapping[str, Any]) -> str:
    """The text of a part, with its keys sorted."""
    texts = [f"{key}={format_value(value) or EMPTY}" for key, value in sorted(keys.items())]
    return f"{name}[{','.join(texts)}]" if texts else name


def _parse_part(part: str, text: str) -> tuple[str, Keys]:
    match = re.fullmatch(r"\s*([a-z0-9-]+)\s*(?:\[(.*)\])?\s*", part, re.DOTALL)
    if not match:
        context = f" in '{text}'" if part != text else ""
        hint = suggestion(part.partition("[")[0].strip(), method_classes())
        hint = hint or "; write method[key=value,...]+method@paper|official"
        raise UserError(f"cannot read '{part}'{context}{hint}")
    keys: Keys = {}
    if match[2]:
        method = method_classes().get(match[1])
        with_spaces = method.Hyper.marked("text") if method else {}
        for key, value in read_keys(match[2], text).items():
            word = value.strip()
            if not word:
                raise UserError(f"cannot read '{key}=' in '{text}'; write key=value")
            keys[key] = value if key in with_spaces else word
            if word == EMPTY:
                keys[key] = ""
    return match[1], keys


def split_run(value: str) -> tuple[str, str]:
    """The text of the run that a value names, and its backbone, empty if it names none.

    >>> split_run("run:simcse@paper on roberta-base")
    ('simcse@paper', 'roberta-base')
    """
    value = value.removeprefix(RUN)
    text, separator, name = value.rpartition(" on ")
    if not separator or set(name) & set("[]"):  # the " on " stands in a value
        return value.strip(), ""
    return text.strip(), name.strip()
