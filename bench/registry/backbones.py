"""Backbones by name: transformers in Hugging Face format, and tables of word vectors in GloVe's text format."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import read_json, sha256_file
from methods.base import Shape

# Raised when the embedded world or its backbones change the numbers of what is measured with them.
TOY_VERSION = 3
# The toy backbones as they are shipped; `make toy-backbones` makes them and their sums anew.
TOY_FOLDER = Path(__file__).parents[1] / "world" / "backbones"


@dataclass(frozen=True)
class Backbone:
    """A pre-trained encoder, or vectors of words.

    Attributes:
        name: as written in configurations.
        source: "hub", "toy" (shipped), "folder" (of word vectors a file), or "none" for methods that need none.
        location: hub repository, toy kind ("bert", "roberta", "chinese", "glove"), folder or file.
        shape: width and depth.
        fingerprint: what decides its weights, for a run's identity.
        kind: one of `KINDS`.
    """

    name: str
    source: str
    location: str
    shape: Shape
    fingerprint: str
    kind: str = "transformer"

    @property
    def reference(self) -> str:
        """What names this backbone again: its name, or its path where it was given by path."""
        return self.location if self.source == "folder" and self.name not in local_models() else self.name

    def folder(self) -> Path:
        """Where its files are; a hub backbone is fetched into the cache if it is not there yet.

        Raises:
            UserError: it is a table of word vectors, or cannot be fetched.
        """
        if self.kind == "words":
            raise UserError(f"'{self.name}' is {KINDS['words']}, so it is no folder with a model")
        if self.source == "toy":
            return TOY_FOLDER / self.name
        if self.source == "hub":
            from bench.download import fetch_backbone

            return fetch_backbone(self.location)
        return Path(self.location)

    def table(self) -> Path:
        """The file of its word vectors; one of the hub is fetched unless the folder `BENCH_MODELS` holds it.

        Raises:
            UserError: it cannot be fetched, or `BENCH_MODELS` names no folder.
        """
        if self.source == "toy":
            return TOY_FOLDER / self.name / "vectors.txt"
        if self.source == "hub":
            from bench.download import fetch_words

            return local_models().get(self.name) or fetch_words(*_TABLES[self.name][1])
        return Path(self.location)


KINDS = {"transformer": "a transformer", "words": "a table of word vectors", "none": "no backbone"}
_HUB = {
    "bert-base-uncased": ("google-bert/bert-base-uncased", Shape(768, 12, cased=False)),
    "bert-large-uncased": ("google-bert/bert-large-uncased", Shape(1024, 24, cased=False)),
    "roberta-base": ("FacebookAI/roberta-base", Shape(768, 12)),
    "roberta-large": ("FacebookAI/roberta-large", Shape(1024, 24)),
    "bert-base-chinese": ("google-bert/bert-base-chinese", Shape(768, 12)),
}
# Published in a zip archive with others: shape; archive, repository and name within.
_TABLES = {"glove.6B.300d": (Shape(300, 0), ("glove.6B.zip", "stanfordnlp/glove", "glove.6B.300d.txt"))}
_TOY = {
    "toy-bert": ("bert", Shape(64, 4, cased=False), "transformer"),
    "toy-roberta": ("roberta", Shape(64, 4), "transformer"),
    "toy-chinese": ("chinese", Shape(64, 4, cased=False), "transformer"),
    "toy-glove": ("glove", Shape(24, 0, cased=False), "words"),
}


def check_toy(name: str) -> None:
    """Compare the files of a toy backbone with the sums shipped beside them.

    Raises:
        UserError: a file is missing or altered.
    """
    for line in (TOY_FOLDER / "SHA256SUMS").read_text().splitlines():
        known, _, file = line.partition("  ")
        path = TOY_FOLDER / file
        if Path(file).parent.name == name and not (path.is_file() and sha256_file(path) == known):
            raise UserError(f"{path} is not the file that sentbench ships; install sentbench again")


NO_BACKBONE = Backbone("none", "none", "", Shape(0, 0), "none", "none")


def local_models() -> dict[str, Path]:
    """Backbones by name in the folder that `BENCH_MODELS` names: folders with a model, and tables of word vectors.

    Raises:
        UserError: `BENCH_MODELS` names no folder.
    """
    root = os.environ.get("BENCH_MODELS")
    if not root:
        return {}
    if not Path(root).is_dir():
        raise UserError(
            f"BENCH_MODELS names '{root}', which is not a folder; set it to a folder of Hugging Face models or unset it"
        )
    tables = {path.stem: path for path in sorted(Path(root).glob("*.txt"))}
    return tables | {path.name: path for path in sorted(Path(root).iterdir()) if (path / "config.json").is_file()}


def backbone(name: str) -> Backbone:
    """The backbone called `name`: published, toy, in `BENCH_MODELS`, a folder of a transformer, or a table's file.

    Raises:
        UserError: there is none; the nearest name is suggested.
    """
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
        raise UserError(
            f"backbone '{name}' is no folder here; give one in Hugging Face format. A model of the hub has to be "
            "downloaded to a folder first"
        )
    hint = "" if local else "; a local one is found where BENCH_MODELS names its parent folder, or by its path"
    raise UserError(f"unknown backbone '{name}'{did_you_mean(name, [*_HUB, *_TABLES, *_TOY, *local])}{hint}")


@cache
def _folder_backbone(folder: Path) -> Backbone:
    if not (folder / "config.json").is_file():
        raise UserError(f"backbone '{folder}' holds no config.json; give a folder in Hugging Face format")
    config: dict[str, Any] = read_json(folder / "config.json")
    try:
        shape = Shape(int(config["hidden_size"]), int(config["num_hidden_layers"]), _is_cased(folder))
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"{folder / 'config.json'} names no hidden_size and num_hidden_layers; a backbone is a transformer encoder"
        ) from None
    _refuse_taken(folder, folder.resolve().name)
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise UserError(f"{folder} holds no .safetensors weights; pickled weights are refused, convert them first")
    fingerprint = "-".join(sha256_file(path)[:16] for path in weights)
    return Backbone(folder.resolve().name, "folder", str(folder), shape, fingerprint)


def _is_cased(folder: Path) -> bool:
    """Whether a folder's tokenizer keeps capitals: by its own word, else by its normaliser."""
    told = folder / "tokenizer_config.json"
    lower = read_json(told).get("do_lower_case") if told.is_file() else None
    if lower is None and (folder / "tokenizer.json").is_file():
        first = read_json(folder / "tokenizer.json").get("normalizer") or {}
        steps = first.get("normalizers", [first])
        lower = any(step.get("type") == "Lowercase" or step.get("lowercase") for step in steps)
    return not lower


@cache
def _table_backbone(path: Path) -> Backbone:
    from bench.datasets.word_vectors import width

    name = path.resolve().stem
    _refuse_taken(path, name)
    return Backbone(name, "folder", str(path), Shape(width(path), 0), sha256_file(path)[:16], "words")


def _refuse_taken(path: Path, name: str) -> None:
    if name in (*_HUB, *_TABLES, *_TOY):
        raise UserError(f"{path} has the name of another backbone, whose results its own would pass for; rename it")
