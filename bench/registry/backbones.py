"""Backbones by name: Hugging Face transformers and word vectors in GloVe's text format."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench import world
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import read_json, sha256_file
from methods.base import Shape

# Increment when a change of the embedded world or the toy backbones changes measured numbers.
TOY_VERSION = 3
# The shipped toy backbones; `make toy-backbones` rebuilds them and their checksums.
TOY_FOLDER = world.BACKBONES


@dataclass(frozen=True)
class Backbone:
    """A pre-trained encoder or a table of word vectors."""

    name: str  # in configurations
    source: str  # "hub", "toy" (shipped), "folder" (local; a file for word vectors) or "none"
    location: str  # hub repository, toy kind ("bert", "roberta", "chinese", "glove"), or path
    shape: Shape
    fingerprint: str  # identifies the weights; part of a run's identity
    kind: str = "transformer"  # one of `BACKBONE_KINDS`

    @property
    def reference(self) -> str:
        """The name to load this backbone with: its path if it was given by path, else its name."""
        by_path = self.source == "folder" and self.name not in local_models()
        return self.location if by_path else self.name

    def folder(self) -> Path:
        """Return the folder of the model; a hub backbone is downloaded to the cache if needed."""
        if self.kind == "words":
            raise UserError(
                f"'{self.name}' is {BACKBONE_KINDS['words']}, not a transformer; "
                "choose a transformer backbone"
            )
        if self.source == "toy":
            return TOY_FOLDER / self.name
        if self.source == "hub":
            from bench.download import fetch_backbone

            return fetch_backbone(self.location)
        return Path(self.location)

    def table(self) -> Path:
        """Return the file of word vectors, downloaded unless `BENCH_MODELS` has it."""
        if self.source == "toy":
            return TOY_FOLDER / self.name / "vectors.txt"
        if self.source == "hub":
            from bench.download import fetch_words

            return local_models().get(self.name) or fetch_words(*_TABLES[self.name][1])
        return Path(self.location)


class UnknownBackbone(UserError):
    """A name that is neither a known backbone nor a local one."""


BACKBONE_KINDS = {
    "transformer": "a transformer",
    "words": "a table of word vectors",
    "none": "no backbone",
}
_HUB = {
    "bert-base-uncased": ("google-bert/bert-base-uncased", Shape(768, 12, cased=False)),
    "bert-large-uncased": ("google-bert/bert-large-uncased", Shape(1024, 24, cased=False)),
    "roberta-base": ("FacebookAI/roberta-base", Shape(768, 12)),
    "roberta-large": ("FacebookAI/roberta-large", Shape(1024, 24)),
    "bert-base-chinese": ("google-bert/bert-base-chinese", Shape(768, 12)),
}
# Tables in a zip archive: shape; archive, repository and file name in the archive.
_TABLES = {
    "glove.6B.300d": (Shape(300, 0), ("glove.6B.zip", "stanfordnlp/glove", "glove.6B.300d.txt"))
}
_TOY = {
    "toy-bert": ("bert", Shape(64, 4, cased=False), "transformer"),
    "toy-roberta": ("roberta", Shape(64, 4), "transformer"),
    "toy-chinese": ("chinese", Shape(64, 4, cased=False), "transformer"),
    "toy-glove": ("glove", Shape(24, 0, cased=False), "words"),
}

NO_BACKBONE = Backbone("none", "none", "", Shape(0, 0), "none", "none")


def local_models() -> dict[str, Path]:
    """Return the models and word vectors in the folder `BENCH_MODELS`, by name."""
    name = os.environ.get("BENCH_MODELS")
    if not name:
        return {}
    root = Path(name)
    if not root.is_dir():
        raise UserError(
            f"BENCH_MODELS names '{name}', which is not a folder; "
            "set it to a folder of Hugging Face models or unset it"
        )
    tables = {path.stem: path for path in sorted(root.glob("*.txt"))}
    return tables | {path.parent.name: path.parent for path in sorted(root.glob("*/config.json"))}


def backbone(name: str) -> Backbone:
    """Return the backbone `name`: a known name, a name in `BENCH_MODELS`, or a path; raises
    `UnknownBackbone` with the closest match."""
    if name == NO_BACKBONE.name:
        return NO_BACKBONE
    if name in _HUB:
        repository, shape = _HUB[name]
        return Backbone(name, "hub", repository, shape, repository)
    if name in _TABLES:
        shape, (_, repository, _) = _TABLES[name]
        return Backbone(name, "hub", repository, shape, name, "words")
    if name in _TOY:
        location, shape, kind = _TOY[name]
        return Backbone(name, "toy", location, shape, f"{name}-v{TOY_VERSION}", kind)
    local = local_models()
    path = local.get(name, Path(name))
    if path.is_dir():
        return _folder_backbone(path)
    if path.is_file():
        return _table_backbone(path)
    if "/" in name:
        raise UnknownBackbone(
            f"backbone '{name}' is not a local folder; give a folder in Hugging Face format. "
            "Download a model of the hub to a folder first"
        )
    hint = did_you_mean(name, [*_HUB, *_TABLES, *_TOY, *local])
    if not local:
        hint += "; for a local backbone, set BENCH_MODELS to its parent folder or give its path"
    raise UnknownBackbone(f"unknown backbone '{name}'{hint}")


# Names of the hidden size and of the number of layers in config.json: of most models, DistilBERT,
# GPT-2 and T5.
_WIDTHS = ("hidden_size", "dim", "n_embd", "d_model")
_DEPTHS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")


def refuse_own_code(folder: Path) -> None:
    """Raise `UserError` if a folder names code for its model or tokenizer: it is never run, and the
    library's own model of that type may give other vectors."""
    for path in (folder / "config.json", folder / "tokenizer_config.json"):
        content = read_json(path) if path.is_file() else None
        if isinstance(content, dict) and content.get("auto_map"):
            raise UserError(
                f"{path} names code of the model's own (auto_map), which is not run; "
                "choose a model without code"
            )


@cache
def _folder_backbone(folder: Path) -> Backbone:
    if not (folder / "config.json").is_file():
        raise UserError(
            f"backbone '{folder}' has no config.json; give a folder in Hugging Face format"
        )
    refuse_own_code(folder)
    config: dict[str, Any] = read_json(folder / "config.json")
    try:
        width, depth = (
            int(next((config[name] for name in names if name in config), ""))
            for names in (_WIDTHS, _DEPTHS)
        )
    except (TypeError, ValueError):
        raise UserError(
            f"{folder / 'config.json'} lacks hidden_size or num_hidden_layers; "
            "give a transformer encoder"
        ) from None
    shape = Shape(width, depth, _is_cased(folder))
    _check_name_is_free(folder, folder.resolve().name)
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise UserError(
            f"{folder} has no .safetensors weights; convert pickled weights to safetensors first"
        )
    fingerprint = "-".join(sha256_file(path)[:16] for path in weights)
    return Backbone(folder.resolve().name, "folder", str(folder), shape, fingerprint)


def _is_cased(folder: Path) -> bool:
    """Return whether the tokenizer keeps case: by `do_lower_case`, else by its normalizer."""
    config = folder / "tokenizer_config.json"
    lower = read_json(config).get("do_lower_case") if config.is_file() else None
    if lower is None and (folder / "tokenizer.json").is_file():
        first = read_json(folder / "tokenizer.json").get("normalizer") or {}
        steps = first.get("normalizers", [first])
        lower = any(step.get("type") == "Lowercase" or step.get("lowercase") for step in steps)
    return not lower


@cache
def _table_backbone(path: Path) -> Backbone:
    from bench.datasets.word_vectors import width

    name = path.resolve().stem
    _check_name_is_free(path, name)
    shape, fingerprint = Shape(width(path), 0), sha256_file(path)[:16]
    return Backbone(name, "folder", str(path), shape, fingerprint, "words")


def _check_name_is_free(path: Path, name: str) -> None:
    if name in (*_HUB, *_TABLES, *_TOY):
        raise UserError(f"'{name}' is the name of a built-in backbone; rename {path}")
