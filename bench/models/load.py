"""Save encoders to folders and load them, by name and with options.

A folder that `save_encoder` writes holds `encoder.json` (the kind, a checksum of the other files,
and what the encoder's `save` returned), the encoder's own files, and, where the encoder has them,
`base/` (the encoder that it wraps) and `arrays.safetensors` (its tensors). Where
sentence-transformers can give the vectors, it holds what that library reads, too.

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
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from bench.datasets.manifest import check_vectors
from bench.datasets.sts import cosine
from bench.download.hub import fetch_backbone, retrying
from bench.models.defaults import torch_defaults
from bench.models.encoder import Encoder, TransformerEncoder
from bench.models.modules import write_modules
from bench.models.packed_forward import POSITIONS, SYNONYMS, check_pooler
from bench.models.transformer import (
    DTYPES,
    FLOAT32,
    PROBES,
    blank_token,
    check_folder,
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
from bench.registry.templates import SENTENCE, templates_of
from bench.utils.brackets import read_keys
from bench.utils.errors import UserError, did_you_mean, library_errors, warn
from bench.utils.files import (
    atomic_folder,
    inside,
    read_json,
    read_settings,
    sha256_folder,
    sha256_text,
    slug,
    write_json,
)
from methods.base import POOLERS, Mapped, in_chunks, text_list

ARRAYS = "arrays.safetensors"
PROMPTS = "config_sentence_transformers.json"
SENTENCES = "SentenceTransformer"  # what a folder of sentence-transformers is, if it does not say
LONG = 50  # repetitions of two sentences that more than fill most models
DAMAGED = "save or download it again"
USE_POOLER = "name a pooler to use only the transformer"


def save_encoder(encoder: Any, folder: Path) -> str:
    """Write an encoder to a folder atomically; return the checksum of its files."""
    with atomic_folder(folder) as temporary:
        stored = encoder.save(temporary)
        base, arrays = getattr(encoder, "base", None), getattr(encoder, "arrays", None)
        if base:
            save_encoder(base, temporary / "base")
        if arrays:
            arrays = {name: array.contiguous() for name, array in arrays.items()}
            save_file(arrays, temporary / ARRAYS)
        write_modules(encoder, temporary)
        checksum = sha256_folder(temporary)
        write_json(temporary / SAVED, {"kind": encoder.kind, "sha256": checksum, **stored})
    return checksum


@torch_defaults()
def load_encoder(
    model: str | Path,
    *,
    pooler: str | None = None,
    prompt: str | None = None,
    normalize: bool = False,
    template: str | None = None,
    dims: int | None = None,
    dtype: str = FLOAT32,
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
        template: text around `<sentence>`, of a transformer with a pooler.
        dims: how many first dimensions of the vectors are kept, before `normalize`; None: all.
        dtype: of weights and states, of `DTYPES`. The vectors are float32.
    """
    folder, kind = readable(model, pooler, prompt, template, dtype)
    with library_errors(f"the parts of the encoder in {folder} are damaged or do not fit", DAMAGED):
        if kind == TRANSFORMER:
            stored = {"pooler": pooler, "template": template, "dtype": dtype}
            encoder: Encoder = TransformerEncoder.load(folder, stored, device=device)
        else:
            if kind == MODULES:
                encoder = load_modular(folder, prompt, device, dtype)
            else:
                encoder = _load_saved(folder, device)
            encoder.encode(["a"])  # whether its parts fit together
    return shaped(encoder, dims, normalize)


def readable(
    model: str | Path, pooler: str | None, prompt: str | None, template: str | None, dtype: str
) -> tuple[Path, str]:
    """The folder of a model, which is fetched from the hub if need be, and how it is read; refuse
    what shows without its weights."""
    check_options(pooler, template, dtype)
    folder = find_model(model)
    with library_errors(f"a JSON file in {folder} is damaged", DAMAGED):
        return folder, check_files(folder, pooler, prompt, template, dtype)


def find_model(model: str | Path) -> Path:
    """The folder of a model: a run's encoder, a folder, a backbone by name, or a download."""
    name = str(model)
    folder = encoder_folder(name)
    if folder is not None:
        return folder
    # A model of the hub has an owner.
    return fetch_backbone(name) if "/" in name else backbone(name).folder()


def shaped(encoder: Encoder, dims: int | None, normalize: bool) -> Encoder:
    """An encoder of the first dimensions of another's vectors, scaled to length 1 if so asked;
    `UserError` if it has fewer."""
    if dims is not None:
        encoder = FirstDimensions(encoder, {}, dims=dims)
        encoder.encode(["a"])
    return Normalised(encoder) if normalize else encoder


def check_model(
    model: str,
    pooler: str | None,
    prompt: str | None,
    template: str | None,
    dtype: str,
) -> None:
    """Refuse mistakes that are visible before anything is downloaded, or weights are read."""
    check_options(pooler, template, dtype)
    if encoder_folder(model):
        readable(model, pooler, prompt, template, dtype)
    elif "/" not in model:  # a model of the hub has an owner
        backbone(model)


def check_options(pooler: str | None, template: str | None, dtype: str) -> None:
    """Refuse options that no model has."""
    if pooler is not None:
        check_pooler(pooler)
    if dtype not in DTYPES:
        raise UserError(f"unknown dtype '{dtype}'{did_you_mean(dtype, DTYPES)}")
    if template is not None and (SENTENCE not in template or pooler in POSITIONS):
        raise UserError(
            f"the template '{template}' lacks {SENTENCE}, or the pooler averages padding: "
            f"{', '.join(POSITIONS)} takes no template; correct it, or leave it out"
        )


def check_files(
    folder: Path,
    pooler: str | None,
    prompt: str | None,
    template: str | None,
    dtype: str,
) -> str:
    """Return how `load_encoder` reads a folder with these options, of `KINDS`; refuse what shows
    without its weights."""
    kind = folder_kind(folder)
    # First the options that the kind of the folder excludes: for these nothing in it is read.
    if template is not None and pooler is None:
        raise UserError(
            f"a template needs a pooler, and {folder} a transformer; name a pooler, too"
        )
    if kind == SAVED and (template is not None or dtype != FLOAT32):
        raise UserError(f"{folder} holds a saved encoder; omit template and dtype")
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
                "omit the pooler, or write pooler=none"
            )
    else:
        check_folder(folder)
        kind = TRANSFORMER
        if pooler is None:
            raise UserError(f"{folder} stores no pooler; name one of {', '.join(POOLERS)}")
    if prompt:
        raise UserError(f"{folder} has no prompts, or the pooler leaves them out; omit the prompt")
    return kind


def _load_saved(folder: Path, device: str) -> Encoder:
    """Load a folder that `save_encoder` wrote; its encoder is one of ours, or of a method's."""
    stored = read_json(folder / SAVED)
    kind, checksum = stored.pop("kind"), stored.pop("sha256", None)  # older ones have none
    if checksum not in (None, sha256_folder(folder, SAVED)):
        raise UserError(
            f"the files in {folder} are not those that were saved; restore them, or, in a suite, "
            "delete the folder and the run's file in trained/, and run the suite again"
        )
    parts = dict[str, Any]()
    if (folder / "base").is_dir():
        parts["base"] = load_encoder(folder / "base", device=device)
    if (folder / ARRAYS).is_file():
        parts["arrays"] = load_file(folder / ARRAYS)
    for name in (__name__, *(cls.__module__ for cls in method_classes().values())):
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and getattr(value, "kind", None) == kind:
                encoder_class: Any = value
                encoder: Encoder = encoder_class.load(folder, stored, device=device, **parts)
                return encoder
    raise UserError(
        f"{folder / SAVED} names an encoder of kind '{kind}', which no installed method "
        "defines; load it with the version that saved it"
    )


def read_modules(folder: Path) -> list[dict[str, Any]]:
    """The entries of modules.json; none needs code of its own or is pickled, and they are those of
    an encoder of sentences."""
    model_type = read_settings(folder / PROMPTS).get("model_type", SENTENCES)
    if model_type != SENTENCES:
        raise UserError(f"{folder} is a {model_type}, not an encoder of sentences; {USE_POOLER}")
    entries: list[dict[str, Any]] = read_json(folder / MODULES)
    for entry in entries:
        module = inside(folder, entry["path"])
        refuse_unread(module)
        refuse_pickled(module)
        # The library would take tanh for a Dense layer's activation that is not torch's.
        settings = read_settings(module / "config.json")
        is_transformer = entry["type"].endswith(".Transformer")
        activation = None if is_transformer else settings.get("activation_function")
        for name, package in ((entry["type"], "sentence_transformers."), (activation, "torch.")):
            if name and not name.startswith(package):
                raise UserError(
                    f"{folder} needs '{name}', code of the model's own, which is not run; "
                    f"{USE_POOLER}"
                )
    return entries


def read_prompt(folder: Path, name: str | None) -> str:
    """The text of a prompt, None for the folder's default one and "" for none."""
    described = read_settings(folder / PROMPTS)
    prompts = described.get("prompts") or {}
    name = described.get("default_prompt_name") if name is None else name
    if not name:
        return ""
    if name not in prompts:
        hint = did_you_mean(name, prompts)
        raise UserError(f"{folder} has no prompt '{name}'{hint}; an empty one uses none")
    return prompts[name] or ""


def load_modular(folder: Path, prompt: str | None, device: str, dtype: str) -> Any:
    """Load the encoder of a folder, with a prompt as `read_prompt` takes it."""
    entries, text = read_modules(folder), read_prompt(folder, prompt)
    model: Any = None
    if entries[0]["type"].endswith(".Transformer"):
        # Before the library, which would draw missing weights at random.
        model, _ = load_backbone(folder / entries[0]["path"], dtype=dtype)

    # Here, because importing it takes seconds.
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize

    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    # A folder may name code of the hub for its attention, and a shorter type.
    options = {"dtype": DTYPES[dtype], "use_safetensors": True, "attn_implementation": None}
    library = SentenceTransformer(
        str(folder),
        device="cpu",
        local_files_only=True,
        trust_remote_code=False,
        model_kwargs=options,
    )
    while isinstance(library[-1], Normalize):
        library.pop(-1)
    for module in list(library)[1:]:
        module.to(DTYPES[dtype])
    library.eval()

    is_blank_empty = model is not None and not library.tokenizer("")["input_ids"]
    blank = blank_token(library.tokenizer) if is_blank_empty else ""
    modular = ModularEncoder(folder, text, library.to(device), blank, dtype)
    pooler = SYNONYMS.get(getattr(library[-1], "pooling_mode", ""))
    if model is not None and pooler and dtype == FLOAT32:
        # Our forward pass is faster. Whether it is what the folder describes, vectors tell.
        ours = TransformerEncoder(model.to(device), library.tokenizer, pooler)
        texts = [*PROBES, " ".join(PROBES) * LONG]
        expected, found = modular.encode(texts), ours.encode(texts)
        if expected.shape == found.shape and np.allclose(
            found, expected, rtol=0, atol=1e-4 * np.abs(expected).max()
        ):
            return ours
    return modular


class ModularEncoder:
    """The modules of a folder, run by sentence-transformers; `blank` replaces blank sentences."""

    kind = "sentence-transformers"

    def __init__(self, folder: Path, prompt: str, library: Any, blank: str, dtype: str) -> None:
        self._prompt, self._library, self._blank = prompt, library, blank
        modes = [str(module.pooling_mode) for module in library if hasattr(module, "pooling_mode")]
        self.loaded = {"pooler": ", ".join(modes), "max_length": library.max_seq_length}
        described = f"{encoder_sum(folder)}\n{prompt}"
        if dtype != FLOAT32:
            described += f"\n{dtype}"
        self.identity = f"{self.kind}-{sha256_text(described)[:16]}"

    @torch_defaults()
    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        options = {"prompt": self._prompt, "show_progress_bar": False}
        texts = [sentence or self._blank for sentence in text_list(sentences)]
        return np.asarray(self._library.encode(texts, **options), dtype=np.float32)


class Shaped(Mapped):
    """An Encoder of another shape: it knows of its base what does not change."""

    fixed = True

    def __init__(self, base: Any, *_: Any, **options: Any) -> None:
        super().__init__(base, {}, **options)
        self.lasting = getattr(base, "lasting", True)  # see `FunctionEncoder`
        self.loaded = getattr(base, "loaded", {})


class FirstDimensions(Shaped):
    """Keeps the first `dims` dimensions of vectors; `UserError` if there are fewer."""

    kind = "first-dimensions"

    def through(self, vectors: np.ndarray) -> np.ndarray:
        dims, width = self.options["dims"], vectors.shape[1]
        if not 0 < dims <= width:
            raise UserError(f"the vectors have {width} dimensions; choose dims from 1 to {width}")
        return np.ascontiguousarray(vectors[:, :dims])


class Normalised(Shaped):
    """Normalises vectors to length 1. Zero vectors stay zero."""

    kind = "normalised"

    def through(self, vectors: np.ndarray) -> np.ndarray:
        return in_chunks(vectors, lambda chunk: F.normalize(chunk.double(), dim=-1, eps=1e-37))


# Models by name, with options


Function = Callable[[list[str]], Any]

FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")  # module:function
KEYS = ("pooler", "prompt", "normalize", "template", "dims", "dtype")
# In brackets at the end, the first a word or `word=`.
OPTIONS = re.compile(r"(?P<source>.+?)\[(?P<options>\s*\w+\s*([=,].*)?)\]", re.DOTALL)
READERS: dict[str, Callable[[str], Any]] = {
    "dims": int,
    "normalize": lambda value: value.strip().lower() != "false",
    "template": str,  # spaces at its ends are part of it
}


@dataclass(frozen=True)
class Model:
    """A model to score; options as in `load_encoder`."""

    source: str | Path | Function  # hub id, folder, backbone, `module:function`, or a function
    pooler: str | None = None
    prompt: str | None = None
    normalize: bool = False
    template: str | None = None
    dims: int | None = None
    dtype: str = FLOAT32

    @classmethod
    def read(cls, word: str, common: Model | None = None) -> Model:
        """Parse `SOURCE` or `SOURCE[pooler=avg,prompt=query,normalize]` of the command line, with
        the options of `common` where it sets none."""
        model = replace(common or cls(word), source=word)
        match = OPTIONS.fullmatch(word)
        if not match:
            return model
        options: dict[str, Any] = {}
        for key, value in read_keys(match["options"], word, bare=["normalize"]).items():
            if key not in KEYS:
                raise UserError(
                    f"'{word}' has an unknown option '{key}'{did_you_mean(key, KEYS)}; "
                    "write pooler=avg, prompt=query or normalize, and a template with a comma "
                    "before word= outside brackets"
                )
            if key == "dims" and not value.strip().isdecimal():
                raise UserError(f"'{word}' has dims '{value}'; write a whole number")
            options[key] = READERS.get(key, str.strip)(value)
        return replace(model, source=match["source"], **options)

    @classmethod
    def stored(cls, described: Mapping[str, Any]) -> Model:
        """The model that a file of results describes (see `describe`). Code that a file names is
        never run."""
        # A file of an older version lacks later options.
        model = cls(described["model"], **{key: described[key] for key in KEYS if key in described})
        if described["function"] or model.is_function:
            raise UserError(
                f"'{model.name}' is a function, which is not run only because a file names it; "
                "evaluate it again"
            )
        return model

    @property
    def _given(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in KEYS}

    @property
    def of_set(self) -> list[Model]:
        """The model with each template of the set that its template names; else itself."""
        if self.template is None:
            return [self]
        return [replace(self, template=text) for text in templates_of(self.template)]

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
    def options(self) -> list[str]:
        usual = {"normalize": self.normalize, "dtype": FLOAT32}
        given = {key: value for key, value in self._given.items() if value != usual.get(key)}
        options = [f"{key}={value}" for key, value in given.items()]
        if self.normalize:
            options.append("normalize")
        return options

    @property
    def label(self) -> str:
        return f"{self.name}[{','.join(self.options)}]" if self.options else self.name

    def describe(self) -> dict[str, Any]:
        """The model for files of results, as JSON; `stored` reads it back."""
        return {"model": self.name, **self._given, "function": self.is_function}

    def check(self) -> None:
        """Refuse what shows before weights are loaded; a model of the hub is fetched."""
        if self.is_function:
            self._function()
        else:
            readable(str(self.source), self.pooler, self.prompt, self.template, self.dtype)

    def _function(self) -> Any:
        """The function, or the method `encode` of an object, as of a SentenceTransformer. What is
        named is imported from Python's path or the present folder."""
        unusable = replace(self, dims=None, normalize=False).options
        if unusable:
            raise UserError(
                f"'{self.name}' is a function; it takes only dims and normalize, omit {unusable[0]}"
            )
        found: Any = self.source
        if isinstance(found, str):
            module, _, path = found.partition(":")
            if os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())
            try:
                found = operator.attrgetter(path)(importlib.import_module(module))
            except FAILURES as error:
                raise UserError(
                    f"'{found}' cannot be imported ({describe_error(error)}); "
                    "run in its folder, or install what it needs"
                ) from error
        if isinstance(found, nn.Module) or not callable(found):
            found = getattr(found, "encode", None)
        if found is None:
            raise UserError(
                f"'{self.name}' is no function of texts and has no method encode; "
                "pass a function from a list of texts to their vectors"
            )
        return found

    def load(self, device: str) -> Encoder:
        if not self.is_function:
            return load_encoder(str(self.source), **self._given, device=device)
        return shaped(FunctionEncoder(self._function(), self.name), self.dims, self.normalize)


def files(models: Sequence[Model]) -> dict[str, Model]:
    """Models by the names of their files of results."""
    by_file: dict[str, Model] = {}
    for model in models:
        file = slug(model.label).lstrip(".-") + ".json"
        if file in by_file:
            raise UserError(
                f"'{by_file[file].label}' and '{model.label}' would both be written to {file}; "
                "omit one, or evaluate each into a folder of its own"
            )
        by_file[file] = model
    return by_file


class FunctionEncoder:
    """Encodes with a function from a list of texts to an array (n, d) of numpy or torch, of
    floating-point numbers.

    Without an attribute `identity` of the function, its vectors are not known in another process
    (`lasting` is False), and evaluations are not resumed.
    """

    kind = "function"
    asked = False  # whether it was asked twice for some texts

    def __init__(self, function: Function, name: str) -> None:
        self.function, self.name = function, name
        identity = getattr(function, "identity", None)
        self.lasting = identity is not None
        text = f"{name}\n{identity if self.lasting else uuid.uuid4()}"
        self.identity = f"{self.kind}-{sha256_text(text)[:16]}"

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        texts = text_list(sentences)
        try:
            output = retrying(self.function)(list(texts))  # a function may change it
            if hasattr(output, "detach"):
                output = output.detach().cpu()
                if output.is_floating_point():  # numpy has no bfloat16
                    output = output.float()
            output = np.asarray(output)
        except FAILURES as error:
            reason = describe_error(error)
            blank = ", some of them blank, as in SentEval's files" if "" in texts else ""
            raise UserError(
                f"'{self.name}' failed on {len(texts)} texts{blank} ({reason}); mend it"
            ) from error
        vectors = check_vectors(texts, output)
        if self.asked or len(texts) < 2:
            return vectors
        self.asked = True
        # Up to eight of the texts, in another order and batch. Zero vectors have no direction.
        step = -len(texts) // 8
        first, again = vectors[::step], self.encode(texts[::step])
        apart = 1 - cosine(first, again)[cosine(first, first) > 0].min(initial=1)
        told = f"the function gives a text different vectors (a cosine of 1 - {apart:.1g})"
        if apart > 1e-3:
            raise UserError(
                f"{told}; call model.eval(), fix the random state, and let no vector depend "
                "on the order, the padding or the size of a batch"
            )
        if apart > 1e-9:  # more than float32 rounds
            warn(told)
        return vectors
