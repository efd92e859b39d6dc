"""What the suite knows by name: methods (the folder is the catalogue) and backbones."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import methods
from bench.errors import UserError, nearest
from bench.files import read_json, sha256_file
from methods.base import Method, Shape

# Raised when the embedded world or the pre-training of its backbones changes their numbers.
TOY_VERSION = 2


@cache
def method_classes() -> dict[str, type[Method]]:
    """Every method in `methods/`, by the name it gives itself."""
    found: dict[str, type[Method]] = {}
    for module_info in pkgutil.iter_modules(methods.__path__):
        module = importlib.import_module(f"methods.{module_info.name}")
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if issubclass(cls, Method) and cls.__module__ == module.__name__ and hasattr(cls, "name"):
                found[cls.name] = cls
    return found


def method_class(name: str) -> type[Method]:
    """The method called `name`.

    Raises:
        UserError: there is none; the nearest name is suggested.
    """
    known = method_classes()
    if name not in known:
        raise UserError(f"unknown method '{name}'{nearest(name, known)}")
    return known[name]


@dataclass(frozen=True)
class Backbone:
    """A pre-trained encoder.

    Attributes:
        name: as written in configurations.
        source: "hub", "toy" (pre-trained by a rule), "folder", or "none" for methods that need no backbone.
        location: hub repository, toy kind ("bert", "roberta"), or folder.
        shape: width and depth.
        fingerprint: what decides its weights, for a run's identity.
    """

    name: str
    source: str
    location: str
    shape: Shape
    fingerprint: str

    @property
    def reference(self) -> str:
        """What names this backbone again: its name, or its path where it was given by path."""
        return self.location if self.source == "folder" and self.name not in local_models() else self.name

    def folder(self, suite_folder: Path) -> Path:
        """Where its files are; a hub backbone is fetched into the cache if it is not there yet."""
        if self.source == "toy":
            return suite_folder / "backbones" / self.name
        if self.source == "hub":
            from bench.data import fetch_backbone

            return fetch_backbone(self.location)
        return Path(self.location)


_HUB = {
    "bert-base-uncased": ("google-bert/bert-base-uncased", Shape(768, 12)),
    "bert-large-uncased": ("google-bert/bert-large-uncased", Shape(1024, 24)),
    "roberta-base": ("FacebookAI/roberta-base", Shape(768, 12)),
    "roberta-large": ("FacebookAI/roberta-large", Shape(1024, 24)),
}
TOY_SHAPE = Shape(64, 4)
_TOY = {"toy-bert": "bert", "toy-roberta": "roberta"}
NO_BACKBONE = Backbone("none", "none", "", Shape(0, 0), "none")


def local_models() -> dict[str, Path]:
    """Backbones by name in the folder that `BENCH_MODELS` names."""
    root = os.environ.get("BENCH_MODELS")
    if not root:
        return {}
    if not Path(root).is_dir():
        raise UserError(
            f"BENCH_MODELS names '{root}', which is not a folder; set it to a folder of Hugging Face models or unset it"
        )
    return {path.name: path for path in sorted(Path(root).iterdir()) if (path / "config.json").is_file()}


def backbone(name: str) -> Backbone:
    """The backbone called `name`: published, toy, in `BENCH_MODELS`, or a folder in Hugging Face format.

    Raises:
        UserError: there is none; the nearest name is suggested.
    """
    if name == NO_BACKBONE.name:
        return NO_BACKBONE
    if name in _HUB:
        repository, shape = _HUB[name]
        return Backbone(name, "hub", repository, shape, repository)
    if name in _TOY:
        return Backbone(name, "toy", _TOY[name], TOY_SHAPE, f"{name}-v{TOY_VERSION}")
    local = local_models()
    if name in local or Path(name).is_dir():
        return _folder_backbone(local.get(name, Path(name)))
    hint = "" if local else "; a local one is found where BENCH_MODELS names its parent folder, or by its path"
    raise UserError(f"unknown backbone '{name}'{nearest(name, [*_HUB, *_TOY, *local])}{hint}")


@cache
def _folder_backbone(folder: Path) -> Backbone:
    config: dict[str, Any] = read_json(folder / "config.json")
    try:
        shape = Shape(int(config["hidden_size"]), int(config["num_hidden_layers"]))
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"{folder / 'config.json'} names no hidden_size and num_hidden_layers; a backbone is a transformer encoder"
        ) from None
    if folder.resolve().name in (*_HUB, *_TOY):
        raise UserError(f"{folder} has the name of another backbone, whose results its own would pass for; rename it")
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise UserError(f"{folder} holds no .safetensors weights; pickled weights are refused, convert them first")
    fingerprint = "-".join(sha256_file(path)[:16] for path in weights)
    return Backbone(folder.resolve().name, "folder", str(folder), shape, fingerprint)
