"""What can be scored by name: a hub id, a folder, or a function of one's own, each with what is said beside it.

A function is the user's code. It is imported only where somebody names it (`module:function`) or hands it over; what a
file of results or a configuration names is never imported.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from bench.models.encoder import Encoder, check_pooler, load_encoder
from bench.models.sentence_transformers import Normalised
from bench.models.transformer import no_folder
from bench.registry.plugins import FAILURES, describe_error
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import slug

Function = Callable[[list[str]], Any]

FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")  # module:function
OPTIONS = re.compile(r"(?P<source>.+)\[(?P<options>[^][]*)\]")


@dataclass(frozen=True)
class Model:
    """One thing to score.

    Attributes:
        source: hub id, folder, name of a backbone, `module:function`, or a function.
        pooler, prompt: as `load_encoder` takes them.
        normalize: whether vectors are made of length 1.
    """

    source: str | Function
    pooler: str | None = None
    prompt: str | None = None
    normalize: bool = False

    @classmethod
    def read(cls, word: str, common: Model | None = None) -> Model:
        """A word of the command line: `SOURCE` or `SOURCE[pooler=avg,prompt=query,normalize]`.

        Args:
            common: what holds where the word says nothing.

        Raises:
            UserError: it cannot be read.
        """
        model = replace(common, source=word) if common else cls(word)
        if Path(word).exists() or not {"[", "]"} & set(word):
            return model
        if not (found := OPTIONS.fullmatch(word)):
            raise UserError(
                f"'{word}' has a bracket without its other half, or something behind it; "
                f"write MODEL[pooler=avg,prompt=query,normalize]"
            )
        options: dict[str, Any] = {}
        for item in found["options"].split(","):
            key, _, value = (part.strip() for part in item.partition("="))
            if key not in ("pooler", "prompt", "normalize"):
                raise UserError(f"'{word}' has an option '{key}'{did_you_mean(key, ('pooler', 'prompt', 'normalize'))}")
            if (key == "normalize" and value not in ("", "true", "false")) or (key == "pooler" and not value):
                raise UserError(f"'{word}': cannot read '{item}'; write pooler=avg, prompt=query or normalize")
            options[key] = value != "false" if key == "normalize" else value
        return replace(model, source=found["source"], **options)

    @classmethod
    def stored(cls, described: Mapping[str, Any]) -> Model:
        """What a file of results says that it scored.

        Raises:
            UserError: that is a function, which is not run on the word of a file.
        """
        model = cls(
            described["model"], described.get("pooler"), described.get("prompt"), bool(described.get("normalize"))
        )
        if described.get("function") or model.is_function:
            raise UserError(
                f"'{model.name}' is a function, which is never run because a file names it; evaluate it again"
            )
        return model

    @property
    def is_function(self) -> bool:
        return not isinstance(self.source, str) or bool(
            FUNCTION.fullmatch(self.source) and not Path(self.source).exists()
        )

    @property
    def name(self) -> str:
        """The source as a text."""
        source = self.source
        if isinstance(source, str):
            return source
        return f"{source.__module__}:{getattr(source, '__qualname__', type(source).__name__)}"

    @property
    def options(self) -> list[str]:
        """What is said beside the source."""
        told = [f"{key}={value}" for key in ("pooler", "prompt") if (value := getattr(self, key)) is not None]
        return told + ["normalize"] * self.normalize

    @property
    def label(self) -> str:
        """As it stands in a table."""
        return f"{self.name}[{','.join(self.options)}]" if self.options else self.name

    def file(self, above: int = 0) -> str:
        """A name for its file of results: the folder's own name, or the whole name of anything else.

        Args:
            above: how many of the folders above it stand before a folder's name.
        """
        folder = Path(self.name)
        name = "-".join(folder.resolve().parts[-1 - above :]) if folder.is_dir() else self.name
        return "-".join(slug(word) or "none" for word in (name, *self.options)) + ".json"

    def describe(self) -> dict[str, Any]:
        """What a file of results holds of it; `stored` reads it back."""
        told = {"model": self.name, "pooler": self.pooler, "prompt": self.prompt, "normalize": self.normalize}
        return told | {"function": self.is_function}

    def check(self) -> None:
        """Raise `UserError` for what can be seen to be wrong before anything is fetched or loaded."""
        if self.is_function:
            if isinstance(self.source, str):
                imported(self.source)
            return
        if self.pooler is not None:
            check_pooler(self.pooler)
        if str(self.source).startswith(("/", "./", "../")) and not Path(str(self.source)).exists():
            raise no_folder(self.source)

    def load(self, device: str) -> Encoder:
        """Its Encoder.

        Raises:
            UserError: it cannot be found or loaded, or does not take what is said beside it.
        """
        if self.is_function:
            if self.pooler is not None or self.prompt is not None:
                raise UserError(f"'{self.name}' is a function, without pooler and prompts; leave both out")
            found = imported(self.source) if isinstance(self.source, str) else self.source
            encoder: Encoder = FunctionEncoder(found, self.name)
        else:
            encoder = load_encoder(str(self.source), pooler=self.pooler, prompt=self.prompt, device=device)
        return Normalised(encoder) if self.normalize else encoder


def files(models: Sequence[Model]) -> dict[str, Model]:
    """Models by the names of their files of results, with as many folders above in them as tell all apart.

    Raises:
        UserError: no number of them does.
    """
    for above in range(max(len(Path(model.name).resolve().parts) for model in models)):
        named = {model.file(above): model for model in models}
        if len(named) == len(models):
            return named
    first, second = next((a, b) for a, b in combinations(models, 2) if a.file(above) == b.file(above))
    raise UserError(
        f"'{first.label}' and '{second.label}' would both be written to {first.file()}; "
        f"leave one out, or evaluate each into a folder of its own with --out"
    )


def imported(name: str) -> Function:
    """The function that `module:function` names, from where Python finds modules and the present folder.

    Raises:
        UserError: there is none.
    """
    module, _, path = name.partition(":")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and f"{module}.".startswith(f"{error.name}."):
            remedy = f"run where {module} lies, or set PYTHONPATH to its folder"
        else:
            remedy = f"install '{error.name}', which {module} needs"
        raise UserError(f"'{name}' cannot be imported ({error}); {remedy}") from None
    except FAILURES as error:
        raise UserError(f"'{name}' cannot be imported ({describe_error(error)}); mend that module") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise UserError(f"'{name}': {module} has no '{part}'{did_you_mean(part, _functions(found))}")
        found = getattr(found, part)
    if not callable(found):
        raise UserError(f"'{name}' is no function; name one that takes a list of texts and gives an array")
    return found


def _functions(holder: Any) -> list[str]:
    return [name for name, value in vars(holder).items() if callable(value) and not name.startswith("_")]


class FunctionEncoder:
    """An Encoder: what a function of a list of texts gives, an array (n, d) of numbers, of numpy or torch.

    Where the function has an attribute `identity`, a text, that and its name are its identity, so that an interrupted
    evaluation goes on; one that says nothing of itself is another one in each process (`lasting` is false).
    """

    kind = "function"

    def __init__(self, function: Function, name: str) -> None:
        self.function, self.name = function, name
        said = getattr(function, "identity", None)
        self.lasting = isinstance(said, str)
        described = f"{name}\n{said}" if self.lasting else f"{name}\n{os.getpid()}\n{time.time_ns()}"
        self._identity = f"{self.kind}-{hashlib.sha256(described.encode()).hexdigest()[:16]}"

    @property
    def identity(self) -> str:
        return self._identity

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        """Raises:
        UserError: the function fails, or gives anything but one vector a sentence.
        """
        if not sentences:
            return np.zeros((0, 0), dtype=np.float32)
        try:
            found = self.function(list(sentences))
        except UserError:
            raise
        except FAILURES as error:
            reason = describe_error(error, self.function)
            raise UserError(f"'{self.name}' failed on {len(sentences)} texts ({reason}); mend it") from error
        if hasattr(found, "detach"):
            found = found.detach().float().cpu()
        try:
            if np.iscomplexobj(found):  # whose imaginary part numpy would leave away
                raise TypeError
            with np.errstate(over="ignore"):  # what is beyond float32 is infinite, and said to be where it is scored
                vectors = np.asarray(found, dtype=np.float32)
        except (TypeError, ValueError):
            raise UserError(
                f"'{self.name}' gave a {type(found).__name__} that is no array of real numbers; give one vector a text"
            ) from None
        if vectors.ndim != 2 or len(vectors) != len(sentences) or not vectors.shape[1]:
            raise UserError(
                f"'{self.name}' gave an array of shape {vectors.shape} for {len(sentences)} texts; give one vector each"
            )
        return vectors

    def save(self, folder: Path) -> dict[str, Any]:
        raise UserError(f"'{self.name}' is a function, which cannot be saved")
