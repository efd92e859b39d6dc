"""A model to score, by its name, and its options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bench.models.encoder import Encoder
from bench.models.functions import Function, FunctionEncoder, function_of
from bench.models.load import load_encoder, readable, shaped
from bench.models.options import USUAL, Options, read_options
from bench.registry.templates import templates_of
from bench.utils.brackets import split
from bench.utils.errors import UserError
from bench.utils.files import slug

FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")  # module:function
# FILE.py:function and module.function.
_SLIP = re.compile(r"(?:\./)?([^\W\d]\w*)(?:\.py:|\.)(?!py$)([^\W\d]\w*)")
# In brackets at the end, the first a word or `word=`.
_OPTIONS = re.compile(r"(?P<source>.+?)\[(?P<options>\s*\w+\s*([=,].*)?)\]", re.DOTALL)


@dataclass(frozen=True)
class Model:
    """A model to score. A function is imported only where the user names or passes it, never by a
    name in a file."""

    source: str | Path | Function  # hub id, folder, backbone, `module:function`, or a function
    options: Options = field(default_factory=Options)

    @classmethod
    def read(cls, text: str, common: Mapping[str, Any] = MappingProxyType({})) -> list[Model]:
        """Parse `SOURCE` or `SOURCE[pooler=avg,prompt=query,normalize]` of the command line, with
        `common` options where it sets none. An option that names a set of templates gives a model
        for each of them."""
        match, options, source = _OPTIONS.fullmatch(text), dict(common), text
        if match:
            source, options = match["source"], options | read_options(match["options"], text)
        elif not Path(text).exists():
            split(text, ",")  # refuses a bracket that is not closed
        slip = _SLIP.fullmatch(source)
        if slip and Path(f"{slip[1]}.py").is_file():
            raise UserError(f"'{source}' is no module:function; write {slip[1]}:{slip[2]}")
        templates: list[Any] = [options.pop("template", None)]
        if templates[0] is not None:
            templates = templates_of(templates[0])
        return [cls(source, Options(**options, template=template)) for template in templates]

    @classmethod
    def stored(cls, described: Mapping[str, Any]) -> Model:
        """The model that a file of results describes (see `describe`). Code that a file names is
        never run."""
        # A file of an older version lacks later options.
        options = {name: described[name] for name in USUAL if name in described}
        model = cls(described["model"], Options(**options))
        if described["function"] or model.is_function:
            raise UserError(
                f"'{model.name}' is a function, which is not run only because a file names it; "
                "evaluate it again"
            )
        return model

    @property
    def is_function(self) -> bool:
        is_name = isinstance(self.source, str | Path)
        return not is_name or bool(FUNCTION.fullmatch(str(self.source)))

    @property
    def name(self) -> str:
        source = self.source
        if isinstance(source, str | Path):
            return str(source)
        return (
            f"{getattr(source, '__module__', 'builtins')}:"
            f"{getattr(source, '__qualname__', type(source).__name__)}"
        )

    @property
    def label(self) -> str:
        words = self.options.words
        return f"{self.name}[{','.join(words)}]" if words else self.name

    @property
    def file(self) -> str:
        """The name of its file of records."""
        return slug(self.label).lstrip(".-") + ".json"

    def describe(self) -> dict[str, Any]:
        """The model for files of results, as JSON; `stored` reads it back."""
        return {"model": self.name, **asdict(self.options), "function": self.is_function}

    def check(self) -> None:
        """Refuse faults that are visible without the weights; a model of the hub is fetched."""
        if self.is_function:
            self._function()
        else:
            readable(str(self.source), self.options)

    def load(self, device: str) -> Encoder:
        if self.is_function:
            return shaped(FunctionEncoder(self._function(), self.name), self.options)
        return load_encoder(str(self.source), device=device, **asdict(self.options))

    def _function(self) -> Function:
        unusable = replace(self.options, dims=None, normalize=False).words
        if unusable:
            raise UserError(
                f"'{self.name}' is a function; it takes only dims and normalize, omit {unusable[0]}"
            )
        return function_of(self.source, self.name)


def check_files(models: Sequence[Model]) -> None:
    """Refuse models whose records would be written to one file."""
    names = [model.file for model in models]
    for model in models:
        if names.count(model.file) > 1:
            raise UserError(
                f"'{model.label}' and another model would both be written to {model.file}; omit "
                "one, or evaluate each into a folder of its own"
            )
