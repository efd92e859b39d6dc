"""Folders of models, before their weights are read: what they hold, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.models.options import Options
from bench.models.packed_forward import PACKED
from bench.registry.backbones import (
    MODULES,
    SAVED,
    TRANSFORMER,
    folder_kind,
    refuse_unread,
    shards,
)
from bench.utils.errors import UserError, did_you_mean, listed
from bench.utils.files import inside, read_json, read_settings
from methods.base import POOLERS, PROMPT_NAME

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")  # ends of the names of weights that can run code
# A folder has one of these files of a tokenizer.
VOCABULARIES = (
    "tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model",
)  # fmt: skip
SETTINGS = "config_sentence_transformers.json"  # prompts, and what kind of model it is
# The kind of a folder of sentence-transformers that names none.
SENTENCES = "SentenceTransformer"
# Our poolers that sentence-transformers has, and their names there.
POOLING_MODES = {
    "avg": "mean",
    "cls_before_pooler": "cls",
    "last": "lasttoken",
    "weighted_mean": "weightedmean",
}
USE_POOLER = "name a pooler to use only the transformer"


def weight_files(folder: Path) -> list[str]:
    """The files of weights, of which transformers prefers the single one."""
    single, index = "model.safetensors", folder / "model.safetensors.index.json"
    if (folder / single).is_file() or not index.is_file():
        return [single]
    return shards(index)


def check_folder(folder: Path) -> None:
    """Refuse a folder without a configuration, safetensors weights or a tokenizer."""
    refuse_unread(folder)
    refuse_pickled(folder)
    for names in (["config.json"], *([name] for name in weight_files(folder)), VOCABULARIES):
        if not any((folder / name).is_file() for name in names):
            raise UserError(
                f"{folder} holds no {names[0]}; give a folder in Hugging Face format, with "
                "safetensors weights and a tokenizer"
            )


def refuse_pickled(folder: Path) -> None:
    """Refuse a folder whose only weights are pickled."""
    pickled = [path.name for path in sorted(folder.glob("*")) if path.suffix in PICKLED]
    if pickled and not any(folder.glob("*.safetensors")):
        raise UserError(
            f"{folder} holds only pickled weights ({pickled[0]}), which can run code; "
            "convert them to safetensors"
        )


def runs_here(folder: Path, options: Options) -> bool:
    """Whether our forward pass runs a folder of transformers. It runs BERT and RoBERTa in float32,
    on the sentences as they are."""
    config = read_settings(folder / TRANSFORMER)
    is_family = config.get("model_type") in PACKED and not config.get("is_decoder")
    return is_family and not options.for_library


def read_kind(folder: Path, options: Options) -> str:
    """Return how a folder is read with these options, one of `KINDS`: as what `save_encoder` wrote,
    as modules, or as a transformer with a pooler. `UserError` for faults that are visible without
    the weights."""
    kind = folder_kind(folder)
    if kind == SAVED:
        _check_saved(folder, options)
        return kind
    prompt_text(folder, options)  # refuses the name of a prompt that the folder lacks
    if kind == MODULES and options.pooler is None:
        _check_modules(folder)
        return kind
    check_folder(folder)
    if options.pooler is None:
        raise UserError(f"{folder} stores no pooler; name one of {', '.join(POOLERS)}")
    if options.pooler not in POOLING_MODES and not runs_here(folder, options):
        raise UserError(
            f"pooler '{options.pooler}' is there for BERT and RoBERTa in float32, without prompt "
            f"and template; {folder} is encoded by sentence-transformers, which has "
            f"{listed(POOLING_MODES)}: name one of them, or score a Python function"
        )
    return TRANSFORMER


def _check_saved(folder: Path, options: Options) -> None:
    stored = read_json(folder / SAVED)
    if options.for_library:
        raise UserError(f"{folder} holds a saved encoder; omit prompt, template and dtype")
    if options.pooler not in (None, stored.get("pooler")):
        has = f"pooler '{stored['pooler']}'" if "pooler" in stored else f"'{stored['kind']}'"
        raise UserError(
            f"{folder} was saved with {has}, not with pooler '{options.pooler}'; "
            "omit the pooler, or write pooler=none"
        )


def _check_modules(folder: Path) -> None:
    """Refuse modules that are pickled or need code of their own, and other kinds of model."""
    model_type = read_settings(folder / SETTINGS).get("model_type", SENTENCES)
    if model_type != SENTENCES:
        raise UserError(f"{folder} is a {model_type}, not an encoder of sentences; {USE_POOLER}")
    entries: list[dict[str, Any]] = read_json(folder / MODULES)
    for entry in entries:
        module = inside(folder, entry["path"])
        names = {"sentence_transformers.": entry["type"]}
        if entry["type"].endswith(".Transformer"):
            check_folder(module)
        else:
            refuse_unread(module)
            refuse_pickled(module)
            # The library would take tanh for a Dense layer's activation that is not torch's.
            names["torch."] = read_settings(module / "config.json").get("activation_function", "")
        for package, name in names.items():
            if name and not name.startswith(package):
                raise UserError(
                    f"{folder} needs '{name}', code of the model's own, which is not run; "
                    f"{USE_POOLER}"
                )


def prompt_text(folder: Path, options: Options) -> str:
    """The text before each sentence."""
    settings, prompt = read_settings(folder / SETTINGS), options.prompt
    prompts = settings.get("prompts") or {}
    if prompt is None:
        prompt = "" if options.pooler else settings.get("default_prompt_name") or ""
    # Spaces belong to a text, and not to a name, as in [prompt = query].
    name = prompt.strip()
    if not name:
        return ""
    if name in prompts:
        if options.pooler:
            raise UserError(
                f"a pooler uses only the transformer of {folder}, without its prompt '{name}'; "
                "write the text of the prompt, or omit the pooler"
            )
        return prompts[name] or ""
    if PROMPT_NAME.fullmatch(name):
        raise UserError(
            f"{folder} has no prompt '{name}'{did_you_mean(name, prompts)}; write its text, "
            "such as 'query: ', or an empty one for none"
        )
    return prompt
