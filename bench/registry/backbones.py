"""Models by name that were not trained here: backbones, which are transformers of Hugging Face or
word vectors in GloVe's text format, and encoders."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from bench import world
from bench.download import fetch_words
from bench.download.hub import ADAPTER, fetch_backbone, fetch_description, local_folder, local_model
from bench.download.sums import file_sum
from bench.registry.methods import method_classes
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import read_json, read_settings, read_toml, refuse_pointer, sha256_listed
from bench.utils.validation import Document, FileName, read_document
from methods.base import Shape

# Increment when a change of the toy data or the toy backbones changes measured numbers.
TOY_VERSION = 3
# The shipped toy backbones; `make toy-backbones` rebuilds them and their checksums.
TOY_FOLDER = world.BACKBONES
# The sum of the files of wiki-minilm, and its name in the identities of results/wiki-mini: the
# start of the sum of its weights.
RECORDED = {
    "5948e3d2ab33285faf50be622d0d98cd5aef685833ae629bd52e5d753d15bba9": "6789cc6984be0ddd",
}


@dataclass(frozen=True)
class Backbone:
    """A pre-trained encoder or a table of word vectors."""

    name: str  # in configurations
    source: str  # "hub", "toy" (shipped), "folder" (local; a file for word vectors) or "none"
    location: str  # hub repository and perhaps `@` and revision, or path
    shape: Shape
    fingerprint: str  # identifies the weights; part of a run's identity
    kind: str = "transformer"  # one of `BACKBONE_KINDS`
    # Of a table in a zip archive of the hub: archive, and name of the file in it.
    packed: Sequence[str] = ()
    # The different rates of dropout in its configuration, in rising order; empty if it has none.
    dropout: tuple[float, ...] = (0.1,)
    vocabulary_size: int = 0  # of its config.json

    @property
    def reference(self) -> str:
        """The name to load this backbone with: its path if it was given by path, else its name."""
        if self.source != "folder" or "/" in self.name or self.name in local_models():
            return self.name
        return self.location

    @property
    def local(self) -> Path | None:
        """The folder of a transformer that needs no download."""
        if self.kind != "transformer" or self.source == "hub":
            return None
        return self.folder()

    def folder(self) -> Path:
        """Return the folder of the model; a hub backbone is downloaded to the cache if needed."""
        if self.kind == "words":
            raise UserError(
                f"'{self.name}' is {BACKBONE_KINDS['words']}, not a transformer; "
                "choose a transformer backbone"
            )
        if self.source == "hub":
            return fetch_backbone(self.location)
        return Path(self.location)

    def table(self) -> Path:
        """Return the file of word vectors, downloaded unless `BENCH_MODELS` has it."""
        if self.source == "hub":
            archive, member = self.packed
            return local_models().get(self.name) or fetch_words(archive, self.location, member)
        return Path(self.location)


BACKBONE_KINDS = {
    "transformer": "a transformer",
    "words": "a table of word vectors",
    "none": "no backbone",
}
NO_BACKBONE = Backbone("none", "none", "", Shape(0, 0), "none", "none")


def _built_in() -> dict[str, Backbone]:
    """The backbones of backbones.toml by name."""
    backbones = {}
    for name, entry in read_toml(Path(__file__).with_suffix(".toml")).items():
        shape, table = Shape(**entry.pop("shape")), entry.pop("table", "")
        origin = {"source": "hub", "fingerprint": entry.get("location")}
        if "location" not in entry:
            path = str(TOY_FOLDER / name / table)
            origin = {"source": "toy", "location": path, "fingerprint": f"{name}-v{TOY_VERSION}"}
        backbones[name] = Backbone(name=name, shape=shape, **(origin | entry))
    return backbones


BUILT_IN = _built_in()
# By the name on the hub, too, so that both names are one identity.
_KNOWN = BUILT_IN | {entry.location: entry for entry in BUILT_IN.values() if entry.source == "hub"}


def local_models() -> dict[str, Path]:
    """Return the models and word vectors in the folder `BENCH_MODELS`, by name."""
    root = local_folder("BENCH_MODELS")
    if root is None:
        return {}
    tables = {path.stem: path for path in sorted(root.glob("*.txt"))}
    return tables | {path.parent.name: path.parent for path in sorted(root.glob("*/config.json"))}


def backbone(name: str) -> Backbone:
    """Return the backbone `name`: a known name, a name in `BENCH_MODELS`, a path, or a model of the
    hub, OWNER/NAME or OWNER/NAME@REVISION, whose configuration is downloaded if needed."""
    local_backbone = _known_or_local(name)
    if local_backbone:
        return local_backbone
    if _is_path(name):
        raise UserError(
            f"backbone '{name}' is not a local folder; give a folder in Hugging Face format, or a "
            "model of the hub as OWNER/NAME"
        )
    if "/" in name and HUB_ID.fullmatch(name):
        copy = local_model(name)
        if copy:
            return replace(_folder_backbone(copy), name=name)
        return _hub_backbone(name)
    hint = did_you_mean(name, [*BUILT_IN, *local_models()])
    raise UserError(
        f"unknown backbone '{name}'{hint}; name a model of the hub as OWNER/NAME, a local one by "
        "its path, or set BENCH_MODELS to its parent folder"
    )


def _known_or_local(name: str) -> Backbone | None:
    """Return a backbone that needs no download to be described; None for another name."""
    if name == NO_BACKBONE.name:
        return NO_BACKBONE
    path = local_models().get(name, Path(name))
    if name in _KNOWN or not path.exists():
        return _KNOWN.get(name)
    local_backbone = _folder_backbone(path) if path.is_dir() else _table_backbone(path)
    if local_backbone.name in BUILT_IN:
        raise UserError(
            f"'{local_backbone.name}' is the name of a built-in backbone; rename {path}, or "
            "set BENCH_MODELS to the folder above it and give only the name"
        )
    return local_backbone


def _is_path(name: str) -> bool:
    """Tell a path from an id of the hub, which has at most one "/", and an owner that is no folder
    here."""
    owner, slash, model = name.partition("/")
    is_here = Path(name).is_file() or (bool(slash) and Path(owner).is_dir())
    return is_here or name.startswith((".", "/", "~")) or "/" in model.partition("@")[0]


# Names of rates of dropout in configurations: BERT and most encoders; DistilBERT, ModernBERT and
# decoders; T5; GPT-2.
DROPOUTS = (
    "hidden_dropout_prob", "attention_probs_dropout_prob",
    "dropout", "attention_dropout", "hidden_dropout", "embedding_dropout", "mlp_dropout",
    "dropout_rate",
    "resid_pdrop", "embd_pdrop", "attn_pdrop",
)  # fmt: skip
# Names of the hidden size and of the number of layers in config.json: of most models, DistilBERT,
# GPT-2 and T5.
_WIDTHS = ("hidden_size", "dim", "n_embd", "d_model")
_DEPTHS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")


class _Index(Document):
    weight_map: dict[str, FileName]  # from tensors to the files in this folder that hold them


def shards(index: Path) -> list[str]:
    """The files of weights that an index lists; `UserError` if one is not in its folder."""
    content = read_document(index, _Index, "an index of weights in its folder", "download it again")
    return sorted(set(content.weight_map.values()))


def refuse_unread(folder: Path) -> None:
    """Raise `UserError` for a folder whose vectors would silently be wrong. Its sum would lack
    weights elsewhere and files of which it holds pointers. An adapter is not merged, and code for
    its model or tokenizer is never run."""
    for path in filter(Path.is_file, folder.glob("*.[jst]*")):  # of the suffixes in `READ`
        refuse_pointer(path)
    for index in folder.glob("*.safetensors.index.json"):
        shards(index)
    if (folder / ADAPTER).is_file():
        raise UserError(
            f"{folder} holds an adapter ({ADAPTER}), which is not merged here; merge it into the "
            "weights with peft's merge_and_unload, and save the model"
        )
    for path in (folder / "config.json", folder / "tokenizer_config.json"):
        if read_settings(path).get("auto_map"):
            raise UserError(
                f"{path} names code of the model's own (auto_map), which is not run; "
                "choose a model without code"
            )


def _folder_backbone(folder: Path) -> Backbone:
    digest = encoder_sum(folder)
    fingerprint = RECORDED.get(digest, digest)
    return _transformer(folder, folder.resolve().name, "folder", str(folder), fingerprint)


@cache
def _hub_backbone(name: str) -> Backbone:
    """Return a model of the hub, identified by its commit, by its configuration and tokenizer."""
    folder = fetch_description(name)
    return _transformer(folder, name, "hub", name, f"{name.partition('@')[0]}@{folder.name}")


def _transformer(folder: Path, name: str, source: str, location: str, fingerprint: str) -> Backbone:
    """Return a backbone described by the configuration and the tokenizer in a folder."""
    refuse_unread(folder)
    config: dict[str, Any] = read_json(folder / "config.json")

    def numbers(names: Iterable[str], kind: Any = int) -> list[Any]:
        return [config[name] for name in names if isinstance(config.get(name), kind)]

    widths, depths = numbers(_WIDTHS), numbers(_DEPTHS)
    has_weights = source == "hub" or any(folder.glob("*.safetensors"))
    if not (widths and depths and has_weights):
        raise UserError(
            f"{location} is not a transformer encoder with .safetensors weights; convert pickled "
            "weights to safetensors first"
        )
    return Backbone(
        name,
        source,
        location,
        Shape(widths[0], depths[0], _is_cased(folder, fingerprint)),
        fingerprint,
        dropout=tuple(sorted({*map(float, numbers(DROPOUTS, int | float))})),
        vocabulary_size=max(numbers(["vocab_size"]), default=0),
    )


@cache
def _is_cased(folder: Path, fingerprint: str) -> bool:
    """Return whether the tokenizer keeps case: by `do_lower_case`, else by its normalizer, else by
    the default of the classes that read vocab.txt, which lower-case."""
    # A key of the cache: a large file is read again only where the sum of its folder has changed.
    lower = read_settings(folder / "tokenizer_config.json").get("do_lower_case")
    if lower is not None:
        return not lower
    if not (folder / "tokenizer.json").is_file():
        return not (folder / "vocab.txt").is_file()
    steps = json.dumps(read_settings(folder / "tokenizer.json").get("normalizer"))
    return not re.search('"type": "Lowercase"|"lowercase": true', steps)


def _table_backbone(path: Path) -> Backbone:
    from bench.datasets.word_vectors import width

    name, fingerprint = path.resolve().stem, file_sum(path)[:16]
    return Backbone(name, "folder", str(path), Shape(width(path), 0), fingerprint, "words")


# Ends of the names of files that decide the vectors of a model.
READ = (".json", ".safetensors", ".txt", ".model")

# The kinds of folders, each with a file that only it has: an encoder that
# `bench.models.load.save_encoder` wrote, modules of sentence-transformers, or a transformer. The
# first kinds have a config.json, too.
KINDS = SAVED, MODULES, TRANSFORMER = "encoder.json", "modules.json", "config.json"
HUB_ID = re.compile(r"\w[\w.-]*(/[\w.-]+)?(@[^\s\[\]@]+)?")  # name or owner/name, and revision
BACKBONE = "backbone"  # in place of a name: the initial weights of a run's own backbone


def folder_kind(folder: Path) -> str:
    """Return the kind of a folder, of `KINDS`; `UserError` if it is none of them."""
    refuse_unread(folder)
    for kind in KINDS:
        if (folder / kind).is_file():
            return kind
    raise UserError(f"{folder} holds no {TRANSFORMER}; give a folder in Hugging Face format")


def encoder_folder(name: str) -> Path | None:
    """Return the local folder of an encoder, None for one of the hub; `UserError` if the name is
    neither."""
    folder = Path(name)
    if folder.is_dir():
        if (folder / "encoder" / SAVED).is_file():
            return folder / "encoder"
        folder_kind(folder)
        return folder
    if _is_path(name):
        raise UserError(
            f"model folder {name} does not exist; give a Hugging Face folder or a hub id"
        )
    # Other names are of backbones or of the hub. A method's name was meant as a run.
    local_backbone = _known_or_local(name)
    if not local_backbone and (not HUB_ID.fullmatch(name) or name in method_classes()):
        raise UserError(
            f"'{name}' is neither a folder, a model of the hub nor run:METHOD; name one of them"
        )
    if local_backbone and local_backbone.source != "hub":
        return local_backbone.folder()  # which refuses word vectors
    return None


def vocabulary(folder: Path | None) -> Any:
    """Return the tokens of a folder's tokenizer.json with their ids; None without that file."""
    if folder is None or not (folder / "tokenizer.json").is_file():
        return None
    model = read_settings(folder / "tokenizer.json").get("model")
    return model.get("vocab") if isinstance(model, dict) else None


def backbone_fingerprint(name: str) -> str:
    """Return the identity of an encoder: the sum of its folder's files, else its name."""
    folder = encoder_folder(name)
    return name if folder is None else f"sha256-{encoder_sum(folder)}"


def encoder_sum(folder: Path) -> str:
    """Return a SHA-256 over the names and checksums of `encoder_files`."""
    return sha256_listed(encoder_files(folder))


def encoder_files(folder: Path) -> dict[str, str]:
    """Return the checksums of the files that decide a model's vectors, by name: weights,
    configuration, tokenizer, modules, prompts."""
    sums = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_hidden = name.startswith(".") or "/." in name
        if path.is_file() and not is_hidden and path.suffix in READ:
            sums[name] = file_sum(path)
    return sums
