"""Save encoders to folders and load them, by name and with options.

A folder that `save_encoder` writes holds `encoder.json` (the kind, and what the encoder's `save`
returned), the encoder's own files, and, where the encoder has them, `base/` (the encoder that it
wraps) and `arrays.safetensors` (its tensors).

Folders of sentence-transformers are read by that library. Where they are a transformer and one of
our poolers, our own forward pass runs it. Otherwise the library encodes. Normalize as the last
module is left out: it changes no cosine, and SentEval's classifiers get unnormalised vectors.

A model to score is a hub id, a folder, a backbone, or a Python function. A function is imported
only where the user names or passes it, never by a name in a file.
"""

from __future__ import annotations

import importlib
import logging
import operator
import os
import re
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from bench.download.hub import fetch_backbone, retrying
from bench.models.encoder import Encoder, TransformerEncoder
from bench.models.float32 import ELSEWHERE, float32_products
from bench.models.packed_forward import POOLER_NAMES, SYNONYMS, check_pooler
from bench.models.transformer import (
    QUESTIONS,
    blank_token,
    check_folder,
    library_errors,
    load_backbone,
    refuse_pickled,
)
from bench.registry.backbones import (
    MODULES,
    SAVED,
    TRANSFORMER,
    backbone,
    encoder_folder,
    encoder_sum,
    folder_kind,
    refuse_unread,
)
from bench.registry.methods import FAILURES, describe_error, method_classes
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import atomic_folder, read_json, sha256_text, slug, write_json
from methods.base import Mapped, in_chunks

ARRAYS = "arrays.safetensors"
PROMPTS = "config_sentence_transformers.json"
LONG = 50  # repetitions of two sentences that more than fill most models
USE_POOLER = "choose a pooler with --pooler to use only the transformer"


def save_encoder(encoder: Any, folder: Path) -> None:
    """Write an encoder to a folder atomically."""
    with atomic_folder(folder) as temporary:
        stored = encoder.save(temporary)
        base, arrays = getattr(encoder, "base", None), getattr(encoder, "arrays", None)
        if base:
            save_encoder(base, temporary / "base")
        if arrays:
            arrays = {name: array.contiguous() for name, array in arrays.items()}
            save_file(arrays, temporary / ARRAYS)
        write_json(temporary / SAVED, {"kind": encoder.kind, **stored})


def load_encoder(
    model: str | Path,
    *,
    pooler: str | None = None,
    prompt: str | None = None,
    normalize: bool = False,
    device: str = "cpu",
) -> Encoder:
    """Load an encoder to a device.

    Args:
        model: a folder written by `save_encoder`, sentence-transformers or Hugging Face
            transformers, the name of a backbone, or a hub id.
        pooler: required if the folder stores none. With a folder of sentence-transformers, only its
            transformer is used, without its other modules and prompts.
        prompt: name of a prompt of a sentence-transformers folder, or "" for no prompt; None uses
            the folder's default.
        normalize: whether vectors are scaled to length 1.
    """
    if pooler is not None:
        check_pooler(pooler)
    folder = find_model(model)
    kind = check_files(folder, pooler, prompt)
    if kind == TRANSFORMER and pooler is None:
        raise UserError(
            f"{model} stores no pooler; choose one with --pooler ({', '.join(POOLER_NAMES)})"
        )
    if kind == TRANSFORMER:
        encoder: Encoder = TransformerEncoder.load(folder, {"pooler": pooler}, device=device)
    else:
        subject = f"the parts of the encoder in {folder} are damaged or do not fit"
        with library_errors(subject, "save or download it again"), float32_products(ELSEWHERE):
            modular = kind == MODULES
            encoder = (
                load_modular(folder, prompt, device) if modular else _load_saved(folder, device)
            )
            encoder.encode(["a"])  # whether its parts fit together
    return Normalised(encoder) if normalize else encoder


def check_files(folder: Path, pooler: str | None, prompt: str | None) -> str:
    """Return how `load_encoder` reads a folder with these options, of `KINDS`; refuse what shows
    without its weights."""
    kind = folder_kind(folder)
    if kind == MODULES and pooler is None:
        read_modules(folder)
        read_prompt(folder, prompt)
        return kind
    if kind == SAVED:
        stored = read_json(folder / SAVED)
        if pooler not in (None, stored.get("pooler")):
            has = f"pooler '{stored['pooler']}'" if "pooler" in stored else f"'{stored['kind']}'"
            raise UserError(
                f"{folder} was saved with {has}, not with pooler '{pooler}'; "
                "omit --pooler, or write pooler=none"
            )
    else:
        check_folder(folder)
        kind = TRANSFORMER
    if prompt:
        raise UserError(f"{folder} has no prompts, or --pooler leaves them out; omit --prompt")
    return kind


def find_model(model: str | Path) -> Path:
    """The folder of a model: a run's encoder, a folder, a backbone by name, or a download."""
    name = str(model)
    folder = encoder_folder(name)
    if folder is not None:
        return folder
    # A model of the hub has an owner.
    return fetch_backbone(name) if "/" in name else backbone(name).folder()


def _load_saved(folder: Path, device: str) -> Encoder:
    """Load a folder that `save_encoder` wrote; its encoder is one of ours, or of a method's."""
    stored = read_json(folder / SAVED)
    parts: dict[str, Any] = {}
    if (folder / "base").is_dir():
        parts["base"] = load_encoder(folder / "base", device=device)
    if (folder / ARRAYS).is_file():
        parts["arrays"] = load_file(folder / ARRAYS)
    for name in (__name__, *(cls.__module__ for cls in method_classes().values())):
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and getattr(value, "kind", None) == stored["kind"]:
                encoder_class: Any = value
                encoder: Encoder = encoder_class.load(folder, stored, device=device, **parts)
                return encoder
    raise UserError(
        f"{folder / SAVED} names an encoder of kind '{stored['kind']}', which no installed method "
        "defines; load it with the version that saved it"
    )


def read_modules(folder: Path) -> list[dict[str, Any]]:
    """The entries of modules.json; none needs code of its own or is pickled."""
    entries: list[dict[str, Any]] = read_json(folder / MODULES)
    for entry in entries:
        module = folder / entry["path"]
        refuse_unread(module)
        refuse_pickled(module)
        config = module / "config.json"
        # The library would take tanh for a Dense layer's activation that is not torch's.
        has_activation = config.is_file() and not entry["type"].endswith(".Transformer")
        activation = read_json(config).get("activation_function") if has_activation else None
        for name, package in ((entry["type"], "sentence_transformers."), (activation, "torch.")):
            if name and not name.startswith(package):
                raise UserError(
                    f"{folder} needs '{name}', code of the model's own, which is not run; "
                    f"{USE_POOLER}"
                )
    return entries


def read_prompt(folder: Path, name: str | None) -> str:
    """The text of a prompt, None for the folder's default one and "" for none."""
    path = folder / PROMPTS
    described = read_json(path) if path.is_file() else {}
    prompts = described.get("prompts") or {}
    name = described.get("default_prompt_name") if name is None else name
    if not name:
        return ""
    if name not in prompts:
        hint = did_you_mean(name, prompts)
        raise UserError(f"{folder} has no prompt '{name}'{hint}; an empty --prompt uses none")
    return prompts[name] or ""


def load_modular(folder: Path, prompt: str | None, device: str) -> Any:
    """Load the encoder of a folder, with a prompt as `read_prompt` takes it."""
    entries, text = read_modules(folder), read_prompt(folder, prompt)
    model: Any = None
    if entries[0]["type"].endswith(".Transformer"):
        # Before the library, which would draw missing weights at random.
        model, _ = load_backbone(folder / entries[0]["path"])

    # Here, because importing it takes seconds.
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize

    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    # A folder may name code of the hub for its attention, and a shorter type.
    options = {"dtype": torch.float32, "use_safetensors": True, "attn_implementation": None}
    library = SentenceTransformer(
        str(folder),
        device="cpu",
        local_files_only=True,
        trust_remote_code=False,
        model_kwargs=options,
    )
    while isinstance(library[-1], Normalize):
        library.pop(-1)
    library.eval()

    is_blank_empty = model is not None and not library.tokenizer("")["input_ids"]
    blank = blank_token(library.tokenizer) if is_blank_empty else ""
    modular = ModularEncoder(folder, text, library.to(device), blank)
    pooler = SYNONYMS.get(getattr(library[-1], "pooling_mode", ""))
    if model is not None and pooler:
        # Our forward pass is faster. Whether it is what the folder describes, vectors tell.
        ours = TransformerEncoder(model.to(device), library.tokenizer, pooler)
        texts = [*QUESTIONS, " ".join(QUESTIONS) * LONG]
        expected, found = modular.encode(texts), ours.encode(texts)
        if expected.shape == found.shape and np.allclose(
            found, expected, rtol=0, atol=1e-4 * np.abs(expected).max()
        ):
            return ours
    return modular


class ModularEncoder:
    """The modules of a folder, run by sentence-transformers; `blank` replaces blank sentences."""

    kind = "sentence-transformers"

    def __init__(self, folder: Path, prompt: str, library: Any, blank: str) -> None:
        self._prompt, self._library, self._blank = prompt, library, blank
        modes = [str(module.pooling_mode) for module in library if hasattr(module, "pooling_mode")]
        self.loaded = {"pooler": ", ".join(modes), "max_length": library.max_seq_length}
        described = f"{encoder_sum(folder)}\n{prompt}"
        self.identity = f"{self.kind}-{sha256_text(described)[:16]}"

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        options = {"prompt": self._prompt, "show_progress_bar": False}
        texts = [sentence or self._blank for sentence in sentences]
        return np.asarray(self._library.encode(texts, **options), dtype=np.float32)


class Normalised(Mapped):
    """Normalises vectors to length 1. Zero vectors stay zero."""

    kind = "normalised"
    fixed = True

    def __init__(self, base: Any, *_: Any) -> None:
        super().__init__(base, {})
        self.lasting = getattr(base, "lasting", True)  # see `FunctionEncoder`
        self.loaded = getattr(base, "loaded", {})

    def through(self, vectors: np.ndarray) -> np.ndarray:
        return in_chunks(vectors, lambda chunk: F.normalize(chunk.double(), dim=-1))


# Models by name, with options


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
        if not self.is_function:
            options = {key: getattr(self, key) for key in KEYS}
            return load_encoder(str(self.source), **options, device=device)
        if self.pooler is not None or self.prompt is not None:
            raise UserError(
                f"'{self.name}' is a function, which has no pooler and no prompts; omit both"
            )
        encoder = FunctionEncoder(self._function(), self.name)
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
            output = retrying(self.function)(list(sentences))
            if hasattr(output, "detach"):
                output = output.detach().float().cpu()
            vectors = np.asarray(output, dtype=np.float32)
        except FAILURES as error:
            reason = describe_error(error)
            blank = ", some of them blank, as in SentEval's files" if "" in sentences else ""
            raise UserError(
                f"'{self.name}' failed on {len(sentences)} texts{blank} ({reason}); mend it"
            ) from error
        return vectors
