"""Load a transformer and its tokenizer from a folder.

Everything that would give silently wrong vectors is an error.
"""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from typing import Any

# Jobs share the machine's cores, and thread pools of tokenizers do not survive a fork.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from safetensors import SafetensorError, safe_open

from bench.models.packed_forward import Batch, forward, is_packed
from bench.registry.backbones import refuse_own_code
from bench.registry.encoders import no_folder
from bench.utils.errors import UserError
from bench.utils.files import read_json
from bench.utils.memory import is_memory_full

# A folder has one of these files of a tokenizer.
VOCABULARIES = ["tokenizer.json", "vocab.txt", "vocab.json"]
VOCABULARIES += ["sentencepiece.bpe.model", "spiece.model"]

# Rates of dropout by their names in the configurations of BERT and most encoders; DistilBERT,
# ModernBERT and decoders; T5; GPT-2.
DROPOUTS = ["hidden_dropout_prob", "attention_probs_dropout_prob"]
DROPOUTS += ["dropout", "attention_dropout", "hidden_dropout", "embedding_dropout", "mlp_dropout"]
DROPOUTS += ["dropout_rate", "resid_pdrop", "embd_pdrop", "attn_pdrop"]
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
LONGEST = 2**31 - 1  # tokens; of models and tokenizers without a limit


def _weights_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        content = read_json(index)
        names = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise UserError(f"{index} lists no weight files; save or download the model again")
        names = sorted(set(names.values()))
        if other := [name for name in names if "/" in name or not name.endswith(".safetensors")]:
            raise UserError(
                f"{index} names weights in '{other[0]}', which is not a safetensors file in the "
                "same folder; convert them, or download the model again"
            )
        return [folder / name for name in names]
    return [folder / "model.safetensors"]


def check_folder(folder: Path) -> None:
    """Raise `UserError` if a folder lacks a configuration, safetensors weights or a tokenizer."""
    if not folder.is_dir():
        raise no_folder(folder)
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} holds no config.json; give a folder in Hugging Face format")
    refuse_own_code(folder)
    missing = [path.name for path in _weights_files(folder) if not path.is_file()]
    if missing:
        suffixes = (".bin", ".pt", ".pth", ".ckpt")
        if pickled := sorted(path.name for path in folder.iterdir() if path.suffix in suffixes):
            what = f"{folder} holds only pickled weights ({pickled[0]}), which can run code"
            raise UserError(f"{what}; convert them to safetensors")
        raise UserError(f"{folder} holds no {missing[0]}; give a folder with safetensors weights")
    if not any((folder / name).is_file() for name in VOCABULARIES):
        what = f"{folder} holds no tokenizer.json and no vocabulary"
        raise UserError(f"{what}; put one beside the weights")


def load_backbone(
    folder: Path, *, dropout: float | None = None, pooling_layer: bool = False
) -> tuple[Any, Any]:
    """Load a transformer and its fast tokenizer from a local folder, in float32.

    Args:
        folder: in Hugging Face format, with safetensors weights.
        dropout: sets hidden and attention dropout; None keeps the model's own.
        pooling_layer: also load the model's own pooler (dense + tanh).

    Returns:
        The model and the tokenizer.

    Raises:
        UserError: files are missing, pickled or broken, or weights, configuration and tokenizer do
            not fit together.
    """
    check_folder(folder)
    if pooling_layer and not stored_pooler(folder):
        what = f"{folder} stores no pooler weights, and pooler 'cls' would be random"
        raise UserError(f"{what}; choose cls_before_pooler or avg")
    try:
        model, tokenizer, loading = _from_pretrained(folder, dropout, pooling_layer)
    except UserError:
        raise
    except SafetensorError as error:
        what = f"the weights in {folder} are truncated or broken ({error})"
        raise UserError(f"{what}; save or download them again") from error
    except Exception as error:  # transformers raises many kinds
        if is_memory_full(error):
            raise
        for path in (folder / name for name in ("config.json", *TOKENIZER)):
            if path.is_file() and not isinstance(read_json(path), dict):
                raise UserError(f"{path} is not a JSON object; download it again") from error
        what = f"cannot load the model in {folder}: {_summary(error)}"
        raise UserError(f"{what}; check its config.json, weights and tokenizer") from error
    _check_architecture(folder, model, pooling_layer)
    _check_weights(folder, model, loading)
    _check_tokenizer(folder, model, tokenizer)
    with torch.no_grad():
        _check_states(folder, model, tokenizer)
    for weights in (*model.parameters(), *model.buffers()):
        # A memory-mapped file's alignment would affect the last bits of products.
        weights.data = weights.data.clone()
    return model, tokenizer


def _from_pretrained(
    folder: Path, dropout: float | None, pooling_layer: bool
) -> tuple[Any, Any, dict[str, Any]]:
    """Model, tokenizer, and what transformers reports about weights that do not fit."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    config = _read_config(folder)
    if dropout is not None:
        _set_dropout(folder, config, dropout)
    loader, model_class = _loader(folder, config)
    options = {} if pooling_layer else without_pooler(model_class)
    _check_size(folder, config, loader, options)
    model, loading = loader.from_pretrained(
        folder,
        output_loading_info=True,
        config=config,
        dtype=torch.float32,
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
        ignore_mismatched_sizes=True,  # `_check_weights` rejects them by name
        **options,
    )
    return model, load_tokenizer(folder), loading


def _check_size(folder: Path, config: Any, loader: Any, options: dict[str, bool]) -> None:
    """Reject a configuration of a larger model than is stored, which could fill the memory."""
    stored = tensors = 0
    for path in _weights_files(folder):
        stored += path.stat().st_size
        with safe_open(path, framework="pt") as weights:
            tensors += len(weights.keys())
    what = f"{folder / 'config.json'} describes a model of"
    remedy = "correct its sizes, or save or download both again"
    layers = getattr(config, "num_hidden_layers", None)
    if isinstance(layers, int) and layers > 10 * tensors:  # ALBERT has fewer tensors than layers
        raise UserError(f"{what} {layers} layers, but {tensors} tensors are stored; {remedy}")
    with torch.device("meta"):  # takes no memory
        model = loader.from_config(config, **options)
    if (needed := sum(weights.numel() for weights in model.parameters())) > stored:
        raise UserError(f"{what} {needed} weights, but {stored} bytes are stored; {remedy}")


def load_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of a local folder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _loader(folder: Path, config: Any) -> tuple[Any, Any]:
    """The automatic class that loads a model, and the model's own class.

    Of T5 and its relatives only the encoder is loaded.
    """
    from transformers import AutoModel, AutoModelForTextEncoding
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_TEXT_ENCODING_MAPPING,
        MODEL_MAPPING,
    )

    if encoder := MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(config), None):
        return AutoModelForTextEncoding, encoder
    if config.is_encoder_decoder:
        raise UserError(
            f"{folder} holds a {config.model_type}, whose encoder cannot be loaded without its "
            "decoder; choose another model"
        )
    return AutoModel, MODEL_MAPPING.get(type(config), None)


def without_pooler(model_class: Any) -> dict[str, bool]:
    """The option by which a class of models leaves out its pooler; empty if it has none."""
    known = (
        callable(model_class) and "add_pooling_layer" in inspect.signature(model_class).parameters
    )
    return {"add_pooling_layer": False} if known else {}


def _set_dropout(folder: Path, config: Any, rate: float) -> None:
    names = [name for name in DROPOUTS if hasattr(config, name)]
    if not names:
        what = f"the {config.model_type} in {folder} has no dropout that could be set"
        raise UserError(f"{what}; leave out 'dropout'")
    for name in names:
        setattr(config, name, rate)


def _read_config(folder: Path) -> Any:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    config._attn_implementation = None  # a configuration may name code on the hub
    return config


def _check_architecture(folder: Path, model: Any, pooling_layer: bool) -> None:
    """Reject models that do not read tokens, and poolers that an architecture does not have."""
    kind, config = model.config.model_type, model.config
    reads_text = getattr(model, "main_input_name", None) == "input_ids"
    if not (reads_text and isinstance(getattr(config, "hidden_size", None), int)):
        raise UserError(f"{folder} holds a {kind}, which is no encoder of text; choose another")
    if pooling_layer and getattr(model, "pooler", None) is None:
        what = f"{folder} holds a {kind}, which has no pooler of its own"
        raise UserError(f"{what}; choose cls_before_pooler or avg")


def _check_weights(folder: Path, model: Any, loading: dict[str, Any]) -> None:
    """Reject weights of another shape than the configuration's, unused and missing weights."""
    config = folder / "config.json"
    for name, stored, expected in sorted(loading["mismatched_keys"]):
        raise UserError(
            f"{config} and the weights do not match: {name} has shape {list(stored)} in the "
            f"weights and {list(expected)} by config.json; save or download both again"
        )
    # Weights of layers that the model does not have. Heads and poolers may be unused. Layers of
    # GPT-2 (h) have further tensors, which are not weights.
    depth = getattr(model.config, "num_hidden_layers", float("inf"))
    layers = {name: re.search(r"\b(layers?|h)\.(\d+)", name) for name in loading["unexpected_keys"]}
    unused = {
        name: int(layer[2])
        for name, layer in layers.items()
        if layer and (layer[1] != "h" or int(layer[2]) >= depth)
    }
    if unused:
        beyond = min(unused.values()) >= depth
        different = "download both again, they are of different models"
        remedy = "correct its number of layers" if beyond else different
        raise UserError(f"{config} has no place for the weights {min(unused)}; {remedy}")
    if missing := sorted(loading["missing_keys"]):
        what = f"the weights in {folder} lack {missing[0]}, which would be random"
        raise UserError(f"{what}; save or download them again")


def _check_tokenizer(folder: Path, model: Any, tokenizer: Any) -> None:
    """Reject a tokenizer that cannot pad or that has more tokens than the model."""
    if tokenizer.pad_token is None:
        what = f"the tokenizer in {folder} has no padding token"
        raise UserError(f"{what}; set pad_token in its tokenizer_config.json")
    rows, largest = len(model.get_input_embeddings().weight), max(tokenizer.get_vocab().values())
    if largest >= rows:
        raise UserError(
            f"the tokenizer in {folder} gives token ids up to {largest}, but the weights embed "
            f"only {rows} tokens; "
            f"put the model's own tokenizer beside the weights"
        )


def _check_states(folder: Path, model: Any, tokenizer: Any) -> None:
    """Reject a model that cannot be run, or whose states depend on padding, and so on the other
    sentences of a batch."""
    longest_input(model, tokenizer)
    named = f"the {model.config.model_type} in {folder}"
    try:
        if is_packed(model):  # its layers see no padding
            forward(model, Batch.of([tokenizer("a")["input_ids"][:3]], tokenizer.pad_token_id))
            return
        short, long = tokenizer(["one two three", "one two three " * 4])["input_ids"]
        alone, padded = (
            forward(model, Batch.of(rows, tokenizer.pad_token_id))[-1][0, : len(short)]
            for rows in ([short], [short, long])
        )
    except Exception as error:  # lengths that it does not support, or files that do not fit
        if is_memory_full(error):
            raise
        remedy = "check its config.json and tokenizer, or choose another"
        raise UserError(f"{named} cannot be run ({_summary(error)}); {remedy}") from error
    # Rounding moves them by 1e-6.
    if (alone - padded).abs().max() > 1e-3 * alone.abs().max():
        what = f"the vectors of {named} depend on padding, and so on the other sentences of a batch"
        raise UserError(f"{what}; choose another model")


def _summary(error: Exception) -> str:
    """The first sentence of a library's error message, without headings."""
    lines = [line.strip() for line in str(error).splitlines()]
    line = next((line for line in lines if line and not line.endswith(":")), "")
    sentence = re.split(r"\. |\.$", line.removeprefix("TypeError: "))[0]
    sentence = sentence.replace("Padding_idx", "pad_token_id")
    return sentence[:200] if " " in sentence else f"{type(error).__name__} {sentence}".strip()


def stored_pooler(folder: Path) -> dict[str, torch.Tensor]:
    """Return `weight` (d, d) and `bias` (d) of the dense layer of a checkpoint's own pooler, or an
    empty dictionary if it stores none."""
    found: dict[str, torch.Tensor] = {}
    for path in _weights_files(folder):
        try:
            with safe_open(path, framework="pt") as weights:
                for name in weights.keys():  # noqa: SIM118 (not a dict)
                    # ALBERT's has no module in between.
                    if match := re.search(r"\bpooler(?:\.dense)?\.(weight|bias)$", name):
                        found[match[1]] = weights.get_tensor(name)
        except SafetensorError as error:
            what = f"the weights in {folder} are truncated or broken ({error})"
            raise UserError(f"{what}; download them again") from None
    return found


def longest_input(model: Any, tokenizer: Any) -> int:
    """Maximum number of tokens, special ones included; `UserError` if it is no number above 2."""
    longest = tokenizer.model_max_length
    positions = getattr(model.config, "max_position_embeddings", None)
    positions = positions if positions and positions > 0 else LONGEST  # XLNet says -1
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    if padding is not None:  # RoBERTa and MPNet: positions start behind that of padding
        positions -= padding + 1
    if not isinstance(longest, int | float) or min(positions, longest) < 3:
        where = tokenizer.name_or_path
        if positions < 3:
            what = f"the model in {where} has {positions} positions"
            raise UserError(f"{what}, and a sentence needs at least 3; choose another")
        what = f"the tokenizer in {where} has model_max_length {longest!r}"
        raise UserError(f"{what}; set it to at least 3 in its tokenizer_config.json")
    return int(min(positions, longest, LONGEST))


def load_language_head(folder: Path, backbone: Any) -> Any:
    """Load the masked-language-model head of a checkpoint: last hidden states to logits.

    Where the checkpoint ties them, the head's decoder shares the input embeddings of `backbone`.

    Raises:
        UserError: the checkpoint stores no such head, or one that is not a single module.
    """
    model = load_masked_language_model(folder)
    heads = [module for module in model.children() if module is not model.base_model]
    if len(heads) != 1:
        raise _no_head(folder)
    if getattr(model.config, "tie_word_embeddings", True):
        model.get_output_embeddings().weight = backbone.get_input_embeddings().weight
    return heads[0]


def load_masked_language_model(folder: Path) -> Any:
    """Load a checkpoint with its masked-language-model head.

    Raises:
        UserError: it stores no such head.
    """
    from transformers import AutoModelForMaskedLM

    try:
        config = _read_config(folder)
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
        what = f"cannot load a masked-language head from {folder} ({type(error).__name__})"
        raise UserError(f"{what}; choose a checkpoint with one") from error
    if loading["missing_keys"]:
        raise _no_head(folder)
    return model


def _no_head(folder: Path) -> UserError:
    what = f"{folder} stores no masked-language head, which would be random"
    return UserError(f"{what}; choose a checkpoint with one")
