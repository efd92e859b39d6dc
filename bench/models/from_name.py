"""Models to score: a hub id, a folder, a backbone, or a Python function, with options.

A function is imported only where the user names or passes it, never by a name in a file.
"""

from __future__ import annotations

import importlib
import operator
import os
import re
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.models.encoder import Encoder
from bench.models.load import Normalised, load_encoder
from bench.models.poolers import check_pooler
from bench.registry.backbones import encoder_folder
from bench.registry.methods import FAILURES, describe_error
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import sha256_text, slug

Function = Callable[[list[str]], Any]

FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")  # module:function
KEYS = ("pooler", "prompt", "normalize")
OPTIONS = re.compile(r"(?P<source>.+)\[(?P<options>[^][]*)\]")


@dataclass(frozen=True)
class Model:
    """A model to score; `pooler` and `prompt` as in `load_encoder`."""

    source: str | Function  # hub id, folder, name of a backbone, `module:function`, or a function
    pooler: str | None = None
    prompt: str | None = None
    normalize: bool = False  # scale vectors to length 1

    @classmethod
    def read(cls, word: str, common: Model | None = None) -> Model:
        """Parse `SOURCE` or `SOURCE[pooler=avg,prompt=query,normalize]` of the command line, with
        the options of `common` where it sets none."""
        model = replace(common or cls(word), source=word)
        match = OPTIONS.fullmatch(word)
        if not match:
            return model
        options: dict[str, Any] = {}
        for item in match["options"].split(","):
            key, _, value = (part.strip() for part in item.partition("="))
            if key not in KEYS:
                raise UserError(
                    f"'{word}' has an unknown option '{key}'{did_you_mean(key, KEYS)}; "
                    "write pooler=avg, prompt=query or normalize"
                )
            options[key] = value.lower() != "false" if key == "normalize" else value
        return replace(model, source=match["source"], **options)

    @classmethod
    def stored(cls, described: Mapping[str, Any]) -> Model:
        """The model that a file of results describes (see `describe`). Code that a file names is
        never run."""
        model = cls(described["model"], **{key: described[key] for key in KEYS})
        if described["function"] or model.is_function:
            raise UserError(
                f"'{model.name}' is a function, which is not run only because a file names it; "
                "evaluate it again"
            )
        return model

    @property
    def is_function(self) -> bool:
        return not isinstance(self.source, str) or bool(FUNCTION.fullmatch(self.source))

    @property
    def name(self) -> str:
        source = self.source
        if isinstance(source, str):
            return source
        return f"{source.__module__}:{getattr(source, '__qualname__', type(source).__name__)}"

    @property
    def options(self) -> list[str]:
        given = {"pooler": self.pooler, "prompt": self.prompt}
        options = [f"{key}={value}" for key, value in given.items() if value is not None]
        return options + ["normalize"] * self.normalize

    @property
    def label(self) -> str:
        return f"{self.name}[{','.join(self.options)}]" if self.options else self.name

    def describe(self) -> dict[str, Any]:
        """The model for files of results, as JSON; `stored` reads it back."""
        options = {key: getattr(self, key) for key in KEYS}
        return {"model": self.name, **options, "function": self.is_function}

    def check(self) -> None:
        """Refuse mistakes that are visible before anything is loaded."""
        if self.is_function:
            self._function()
        else:
            encoder_folder(str(self.source))
        if self.pooler is not None:
            check_pooler(self.pooler)

    def _function(self) -> Function:
        """The function; one that is named is imported from Python's path or the present folder."""
        if not isinstance(self.source, str):
            return self.source
        module, _, path = self.source.partition(":")
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            function: Function = operator.attrgetter(path)(importlib.import_module(module))
        except FAILURES as error:
            raise UserError(
                f"'{self.source}' cannot be imported ({describe_error(error)}); "
                "run in its folder, or install what it needs"
            ) from error
        return function

    def load(self, device: str) -> Encoder:
        if self.is_function:
            if self.pooler is not None or self.prompt is not None:
                raise UserError(
                    f"'{self.name}' is a function, which has no pooler and no prompts; omit both"
                )
            encoder: Encoder = FunctionEncoder(self._function(), self.name)
        else:
            options = {"pooler": self.pooler, "prompt": self.prompt}
            encoder = load_encoder(str(self.source), **options, device=device)
        return Normalised(encoder) if self.normalize else encoder


def files(models: Sequence[Model]) -> dict[str, Model]:
    """Models by the names of their files of results."""
    by_file: dict[str, Model] = {}
    for model in models:
        file = slug(model.label).lstrip(".-") + ".json"
        if file in by_file:
            raise UserError(
                f"'{by_file[file].label}' and '{model.label}' would both be written to {file}; "
                "omit one, or evaluate each into its own folder with --out"
            )
        by_file[file] = model
    return by_file


class FunctionEncoder:
    """Encodes with a function from a list of texts to an array (n, d) of numpy or torch.

    Without an attribute `identity` of the function, its vectors are not known in another process
    (`lasting` is False), and evaluations are not resumed.
    """

    kind = "function"

    def __init__(self, function: Function, name: str) -> None:
        self.function, self.name = function, name
        identity = getattr(function, "identity", None)
        self.lasting = identity is not None
        text = f"{name}\n{identity if self.lasting else uuid.uuid4()}"
        self.identity = f"{self.kind}-{sha256_text(text)[:16]}"

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        try:
            output = self.function(list(sentences))
            if hasattr(output, "detach"):
                output = output.detach().float().cpu()
            vectors = np.asarray(output, dtype=np.float32)
        except FAILURES as error:
            reason = describe_error(error)
            raise UserError(
                f"'{self.name}' failed on {len(sentences)} texts ({reason}); fix it"
            ) from error
        if vectors.ndim != 2 or len(vectors) != len(sentences) or not vectors.shape[1]:
            raise UserError(
                f"'{self.name}' returned an array of shape {vectors.shape} for {len(sentences)} "
                "texts; return one vector per text"
            )
        return vectors
