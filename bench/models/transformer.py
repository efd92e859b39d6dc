"""Backbones from a folder: a transformer with its tokenizer and its heads, looked over before anything is computed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "TOKENIZERS_PARALLELISM", "false"
)  # jobs share the machine's cores; forked tokenizer pools do not

import torch
from safetensors import SafetensorError, safe_open

from bench.utils.errors import UserError
from bench.utils.files import read_json


def _weights_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        listed = read_json(index)
        names = listed.get("weight_map") if isinstance(listed, dict) else None
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise UserError(f"{index} lists no files of weights; save or fetch the model again")
        if other := sorted(name for name in names.values() if "/" in name or not name.endswith(".safetensors")):
            raise UserError(
                f"{index} names weights in '{other[0]}', which is no safetensors file beside it; convert them, or "
                "fetch the model again"
            )
        return [folder / name for name in sorted(set(names.values()))]
    return [folder / "model.safetensors"]


def no_folder(folder: Any) -> UserError:
    """What to say of the folder of a model that is not there."""
    return UserError(f"model folder {folder} does not exist; give a Hugging Face folder or a hub id")


def check_folder(folder: Path) -> None:
    """Check that a folder holds a transformer in Hugging Face format.

    Raises:
        UserError: the folder, its configuration, weights or tokenizer are missing, or its weights are pickled.
    """
    if not folder.is_dir():
        raise no_folder(folder)
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} holds no config.json; give a folder in Hugging Face format")
    missing = [path.name for path in _weights_files(folder) if not path.is_file()]
    if missing:
        pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
        if pickled:
            raise UserError(
                f"{folder} holds only pickled weights ({pickled[0]}), which are refused; convert them to safetensors"
            )
        raise UserError(f"{folder} holds no {missing[0]}; give a folder with safetensors weights")
    if not any(
        (folder / name).is_file()
        for name in ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model")
    ):
        raise UserError(
            f"{folder} holds no tokenizer (tokenizer.json or a vocabulary); put its files beside the weights"
        )


def load_backbone(folder: Path, *, dropout: float | None = None, pooling_layer: bool = False) -> tuple[Any, Any]:
    """A transformer and its fast tokenizer from a local folder, in float32.

    Args:
        dropout: both the hidden and the attention dropout; None keeps the model's own.
        pooling_layer: load the model's own pooler (dense + tanh).

    Raises:
        UserError: files are missing, pickled or broken, or the tokenizer cannot pad or is another model's.
    """
    from transformers import AutoConfig, AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    check_folder(folder)
    if pooling_layer and not _stores_pooler(folder):
        raise UserError(
            f"{folder} stores no pooler weights, and pooler 'cls' would be random; choose cls_before_pooler or avg"
        )
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        config._attn_implementation = None  # a configuration may name code on the hub
        if dropout is not None:
            config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
        options = (
            {"add_pooling_layer": pooling_layer} if config.model_type in ("bert", "roberta", "xlm-roberta") else {}
        )
        model, loading = AutoModel.from_pretrained(
            folder,
            output_loading_info=True,
            config=config,
            dtype=torch.float32,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,  # they are refused below, by name
            **options,
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except SafetensorError as error:
        raise UserError(
            f"the weights in {folder} are truncated or broken ({error}); save or fetch them again"
        ) from error
    except Exception as error:  # transformers' own validation raises many kinds
        raise UserError(
            f"cannot load the model in {folder}: {_told(error)}; check its config.json, weights and tokenizer"
        ) from error
    for name, stored, wanted in sorted(loading["mismatched_keys"]):
        raise UserError(
            f"{folder / 'config.json'} and the weights are not of one model: {name} is of shape {list(stored)} in the "
            f"weights and {list(wanted)} by config.json; save or fetch both again"
        )
    unused = {
        name: int(layer[1]) for name in loading["unexpected_keys"] if (layer := re.search(r"\blayers?\.(\d+)", name))
    }
    if unused:
        beyond = min(unused.values()) >= getattr(config, "num_hidden_layers", float("inf"))
        remedy = "mend its number of layers" if beyond else "they are of another kind of model, so fetch both again"
        raise UserError(f"{folder / 'config.json'} has no place for the weights {min(unused)}; {remedy}")
    missing = sorted(loading["missing_keys"])
    if missing:
        raise UserError(f"the weights in {folder} lack {missing[0]}, which would be random; save or fetch them again")
    if tokenizer.pad_token is None:
        raise UserError(f"the tokenizer in {folder} has no padding token; name one in its tokenizer_config.json")
    rows, largest = len(model.get_input_embeddings().weight), max(tokenizer.get_vocab().values())
    if largest >= rows:
        raise UserError(
            f"the tokenizer in {folder} gives token ids up to {largest}, but the weights embed only {rows} tokens; "
            f"put the model's own tokenizer beside the weights"
        )
    for weights in (*model.parameters(), *model.buffers()):
        # Tensors of a file lie as the file has them, and the last bits of products depend on how they are aligned.
        weights.data = weights.data.clone()
    return model, tokenizer


def _told(error: Exception) -> str:
    """What an error of the libraries says, in short: its first sentence that is no heading."""
    lines = [line.strip() for line in str(error).splitlines()]
    line = next((line for line in lines if line and not line.endswith(":")), "")
    sentence = re.split(r"\. |\.$", line.removeprefix("TypeError: "))[0].replace("Padding_idx", "pad_token_id")
    return sentence[:200] if " " in sentence else f"{type(error).__name__} {sentence}".strip()


def _stores_pooler(folder: Path) -> bool:
    for path in _weights_files(folder):
        try:
            with safe_open(path, framework="pt") as weights:
                if any(name.endswith("pooler.dense.weight") for name in weights.keys()):  # noqa: SIM118 (not a dict)
                    return True
        except SafetensorError as error:
            raise UserError(f"the weights in {folder} are truncated or broken ({error}); fetch them again") from None
    return False


def longest_input(model: Any, tokenizer: Any) -> int:
    """Word pieces that fit, special tokens included; RoBERTa's positions start after the padding index.

    Raises:
        UserError: the tokenizer's `model_max_length` is no number, or too small for a word between special tokens.
    """
    longest = tokenizer.model_max_length
    positions = getattr(model.config, "max_position_embeddings", None) or longest
    if model.config.model_type in ("roberta", "xlm-roberta"):
        positions -= (model.config.pad_token_id or 0) + 1
    if not isinstance(longest, int | float) or min(positions, longest) < 3:
        raise UserError(
            f"{tokenizer.name_or_path} says that {longest!r} word pieces fit; mend model_max_length in its "
            "tokenizer_config.json"
        )
    return int(min(positions, longest))


def load_language_head(folder: Path, backbone: Any) -> Any:
    """The masked-language head of a checkpoint, from last states to logits; its decoder is the backbone's embeddings.

    Raises:
        UserError: the checkpoint stores no such head, or one that is not a single module.
    """
    from transformers import AutoConfig, AutoModelForMaskedLM

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        config._attn_implementation = None  # as in `load_backbone`
        model, loading = AutoModelForMaskedLM.from_pretrained(
            folder,
            config=config,
            output_loading_info=True,
            dtype=torch.float32,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise UserError(
            f"{folder} gives no masked-language head ({type(error).__name__}); take one with BERT's head"
        ) from error
    heads = [module for module in model.children() if module is not model.base_model]
    if loading["missing_keys"] or len(heads) != 1:
        raise UserError(f"{folder} stores no masked-language head, and a new one would be random; take one that does")
    if getattr(model.config, "tie_word_embeddings", True):
        model.get_output_embeddings().weight = backbone.get_input_embeddings().weight
    return heads[0]
