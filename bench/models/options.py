"""The options with which a model is read to be scored, and what they exclude."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from bench.registry.templates import SENTENCE
from bench.utils.brackets import read_keys
from bench.utils.errors import UserError, did_you_mean
from methods.base import POOLERS

# Positions of every sentence, for poolers that average padding too: longer sentences are cut,
# shorter ones padded. Length: shuxinyin/SimCSE-Pytorch@c5bc95a, SimCSE/train.py:116.
POSITIONS = {"avg_first_last_64": 64}
FLOAT32, DTYPES = "float32", ("float32", "bfloat16")
# Names of poolers in other libraries.
SYNONYMS = {
    "mean": "avg", "mean_pooling": "avg", "lasttoken": "last", "last_token": "last",
    "cls_token": "cls_before_pooler", "first": "cls_before_pooler",
    "weightedmean": "weighted_mean",
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
    template: str | None = None  # text around `<sentence>`
    dims: int | None = None  # how many first dimensions are kept, before `normalize`; None: all
    dtype: str = FLOAT32  # of weights and states; vectors are float32

    def __post_init__(self) -> None:
        if self.pooler is not None and self.pooler not in POOLERS:
            name = SYNONYMS.get(self.pooler.lower(), self.pooler)
            raise UserError(f"unknown pooler '{self.pooler}'{did_you_mean(name, POOLERS)}")
        if self.dtype not in DTYPES:
            raise UserError(f"unknown dtype '{self.dtype}'{did_you_mean(self.dtype, DTYPES)}")
        if self.template is not None and SENTENCE not in self.template:
            raise UserError(
                f"the template '{self.template}' lacks {SENTENCE}; write it where that stands"
            )

    @property
    def for_library(self) -> bool:
        """Whether the options are among those that only sentence-transformers carries out."""
        return bool(self.prompt) or self.template is not None or self.dtype != FLOAT32

    def around(self, sentence: str) -> str:
        """A sentence in the template."""
        return sentence if self.template is None else self.template.replace(SENTENCE, sentence)

    @property
    def words(self) -> list[str]:
        """The options that are set, as the command line takes them."""
        values = {name: value for name, value in asdict(self).items() if value != USUAL[name]}
        is_normalized = values.pop("normalize", False)
        return [f"{name}={value}" for name, value in values.items()] + is_normalized * ["normalize"]


USUAL = asdict(Options())  # by name; no others can be set


# How a text in brackets becomes a value. Spaces at the ends of a prompt or template belong to it.
_READERS: dict[str, Callable[[str], Any]] = {
    "dims": int,
    "normalize": lambda value: value.strip().lower() != "false",
    "prompt": str,
    "template": str,
}


def read_options(text: str, source: str) -> dict[str, Any]:
    """The options in the brackets of `source`, such as `pooler=avg,prompt=query,normalize`."""
    options: dict[str, Any] = {}
    for name, value in read_keys(text, source, bare=["normalize"]).items():
        if name not in USUAL:
            raise UserError(
                f"'{source}' has an unknown option '{name}'{did_you_mean(name, USUAL)}; "
                "write pooler=avg, prompt=query or normalize, and a template with a comma "
                "before word= outside brackets"
            )
        if name == "dims" and not value.strip().isdecimal():
            raise UserError(f"'{source}' has dims '{value}'; write a whole number")
        options[name] = _READERS.get(name, str.strip)(value)
    return options
