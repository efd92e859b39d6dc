"""The options with which a model is read to be scored, and what they exclude."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from bench.registry.templates import SENTENCE, template_sets, templates_of
from bench.utils.brackets import read_keys
from bench.utils.errors import UserError, did_you_mean
from methods.base import POOLERS

# Positions of every sentence, for poolers that average padding too: longer sentences are cut,
# shorter ones padded. Length: shuxinyin/SimCSE-Pytorch@c5bc95a, SimCSE/train.py:116.
POSITIONS = {"avg_first_last_64": 64}
FLOAT32, DTYPES = "float32", ("float32", "bfloat16")
# Names of poolers in other libraries.
SYNONYMS = {
    "mean": "avg", "mean_pooling": "avg",
    "cls": "cls_before_pooler", "cls_token": "cls_before_pooler", "first": "cls_before_pooler",
    "lasttoken": "last", "last_token": "last", "weightedmean": "weighted_mean",
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """How a model is read. Options that no model has raise a `UserError`; those that a folder
    excludes are refused where it is read (`bench.models.folders.read_kind`)."""

    pooler: str | None = None  # of `POOLERS`; None: the model's own
    # The name of a prompt of the model, or a text before each sentence, or "" for none; None: the
    # model's default.
    prompt: str | None = None
    normalize: bool = False  # whether vectors are scaled to length 1
    template: str | None = None  # text around `<sentence>`, or the name of a set of templates
    dims: int | None = None  # how many first dimensions are kept, before `normalize`; None: all
    dtype: str = FLOAT32  # of weights and states; vectors are float32

    def __post_init__(self) -> None:
        if self.pooler is not None and self.pooler not in POOLERS:
            known = SYNONYMS.get(self.pooler.lower(), self.pooler)
            raise UserError(f"unknown pooler '{self.pooler}'{did_you_mean(known, POOLERS)}")
        if self.dtype not in DTYPES:
            raise UserError(f"unknown dtype '{self.dtype}'{did_you_mean(self.dtype, DTYPES)}")
        if self.template is not None:
            templates_of(self.template)

    @property
    def for_library(self) -> bool:
        """Whether the options are among those that only sentence-transformers carries out."""
        return bool(self.prompt) or self.template is not None or self.dtype != FLOAT32

    @property
    def templates(self) -> list[str | None]:
        """The template, or those of the set that it names."""
        return [None] if self.template is None else [*templates_of(self.template)]

    def around(self, sentence: str) -> str:
        """A sentence in the template. A set of several cannot be taken at once."""
        if self.template in template_sets():
            raise UserError(f"'{self.template}' is a set of templates; load with each of its texts")
        return sentence if self.template is None else self.template.replace(SENTENCE, sentence)

    @property
    def listed(self) -> list[str]:
        """The options that are set, as the command line takes them."""
        values = {name: value for name, value in asdict(self).items() if value != USUAL[name]}
        is_normalized = values.pop("normalize", False)
        return [f"{name}={value}" for name, value in values.items()] + is_normalized * ["normalize"]


NAMES = [field.name for field in fields(Options)]
USUAL = asdict(Options())


def is_prompt_name(prompt: str) -> bool:
    """Tell the name of a prompt from a text, such as "query: ", which has a blank or a mark."""
    return bool(re.fullmatch(r"[\w.-]+", prompt.strip()))


def _prompt(value: str) -> str:
    return value.strip() if is_prompt_name(value) or not value.strip() else value


# What makes a value of the text in brackets. Spaces at the ends of a template, and of the text of a
# prompt, are part of it.
_READERS: dict[str, Callable[[str], Any]] = {
    "dims": int,
    "normalize": lambda value: value.strip().lower() != "false",
    "template": str,
    "prompt": _prompt,
}


def read_options(text: str, word: str) -> dict[str, Any]:
    """The options in brackets of `word`, such as `pooler=avg,prompt=query: ,normalize`."""
    options: dict[str, Any] = {}
    for name, value in read_keys(text, word, bare=["normalize"]).items():
        if name not in NAMES:
            raise UserError(
                f"'{word}' has an unknown option '{name}'{did_you_mean(name, NAMES)}; "
                "write pooler=avg, prompt=query or normalize, and a template with a comma "
                "before word= outside brackets"
            )
        if name == "dims" and not value.strip().isdecimal():
            raise UserError(f"'{word}' has dims '{value}'; write a whole number")
        options[name] = _READERS.get(name, str.strip)(value)
    return options
