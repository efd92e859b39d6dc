"""Load a transformer and its tokenizer from a folder."""

import inspect
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Jobs share the machine's cores, and thread pools of tokenizers do not survive a fork.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
import transformers
from safetensors import safe_open

from bench.models.folders import check_folder, weight_files
from bench.registry.backbones import DROPOUTS
from bench.utils.errors import UserError, library_errors
from bench.utils.files import read_json, write_json

LONGEST = 2**31 - 1  # tokens; of models and tokenizers without a limit
# Options of every loader: nothing is downloaded, and no code of a folder is run.
LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def load_backbone(
    folder: Path, *, dropout: float | None = None, pooling_layer: bool = False
) -> tuple[Any, Any]:
    """Load a transformer in float32 and its fast tokenizer from a local folder.

    `dropout` sets hidden and attention dropout; None keeps the rates of the model. With
    `pooling_layer`, the dense layer with tanh behind [CLS] is loaded, too. Missing weights are an
    error. A folder that was not saved here needs further checks (`bench.models.checks`).
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    check_folder(folder)
    remedy = "check its config.json, weights and tokenizer"
    with library_errors(f"cannot load the model in {folder}", remedy):
        config = _read_config(folder)
        if dropout is not None:
            _set_dropout(config, dropout, folder)
        # Of T5 and its relatives only the encoder is loaded.
        encoder = transformers.MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(config), None)
        loader: Any = transformers.AutoModelForTextEncoding if encoder else transformers.AutoModel
        model_class = encoder or transformers.MODEL_MAPPING.get(type(config), None)
        options = {} if pooling_layer else without_pooler(model_class)
        model, loading = _pretrained(loader, folder, config, **options)
        tokenizer = load_tokenizer(folder)
    if pooling_layer and not (stored_pooler(folder) and getattr(model, "pooler", None)):
        raise UserError(
            f"{folder} stores no pooler weights, and pooler 'cls' would be random; "
            "choose cls_before_pooler or avg"
        )
    check_loading(folder, model, loading)
    copy_weights(model)
    return model, tokenizer


def check_loading(folder: Path, model: Any, loading: Mapping[str, Any]) -> None:
    """Refuse weights that do not fit config.json. transformers only remarks on them: it draws at
    random those that are missing or of another shape, and leaves out those of further layers."""
    problems = []
    for name, stored, expected in sorted(loading["mismatched_keys"]):
        shapes = f"{list(stored)} in the weights and {list(expected)} by config.json"
        problems.append(f"{name} has shape {shapes}")
    # Heads and poolers may be unused. Layers of GPT-2 (h) have further tensors, which are no
    # weights.
    depth = getattr(model.config, "num_hidden_layers", LONGEST)
    for name in sorted(loading["unexpected_keys"]):
        layer = re.search(r"\b(layers?|h)\.(\d+)", name)
        if layer and (layer[1] != "h" or int(layer[2]) >= depth):
            problems.append(f"config.json has no place for the weights {name}")
    for name in sorted(loading["missing_keys"]):
        problems.append(f"the weights lack {name}, which would be random")
    if problems:
        raise UserError(
            f"the files in {folder} do not fit together: {problems[0]}; correct that, or save or "
            "download them again"
        )


def check_loaded(folder: Path, model: Any) -> None:
    """Check a model that a library has loaded from a folder, as `check_loading` does."""
    # transformers lists what does not fit only where it loads. It loads again, without memory or
    # time: all elements of a weight are one number.
    weights: dict[str, torch.Tensor] = {}
    for file in weight_files(folder):
        with safe_open(folder / file, framework="pt") as stored:
            for name in stored.keys():  # noqa: SIM118 (not a dict)
                weights[name] = torch.zeros(()).expand(stored.get_slice(name).get_shape())
    options = {"state_dict": weights, **without_pooler(type(model))}
    _, loading = _pretrained(type(model), None, model.config, **options)
    check_loading(folder, model, loading)


def copy_weights(model: Any) -> None:
    """Copy weights into memory. A memory-mapped file's alignment would affect the last bits of
    products."""
    for weights in (*model.parameters(), *model.buffers()):
        weights.data = weights.data.clone()


def _set_dropout(config: Any, rate: float, folder: Path) -> None:
    names = [name for name in DROPOUTS if hasattr(config, name)]
    if not names:
        raise UserError(
            f"the {config.model_type} in {folder} has no dropout that could be set; "
            "leave out 'dropout'"
        )
    for name in names:
        setattr(config, name, rate)


def _pretrained(loader: Any, folder: Path | None, config: Any, **options: Any) -> tuple[Any, Any]:
    """A model in float32, and the lists of weights that its files lack, have too many, or have in
    another shape."""
    return loader.from_pretrained(
        folder,
        config=config,
        output_loading_info=True,
        dtype=torch.float32,
        use_safetensors=True,
        ignore_mismatched_sizes=True,  # they are listed
        **LOCAL,
        **options,
    )


def load_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of a local folder."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **LOCAL)
    set_padding(folder, tokenizer)
    return tokenizer


def set_padding(folder: Path, tokenizer: Any) -> None:
    """Let a tokenizer without a token for padding, as of many decoders, pad with the end of text.
    No vector depends on which one it is."""
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token is None:
        raise UserError(
            f"tokenizer_config.json in {folder} names no pad_token and no eos_token, one of which "
            "pads; name one"
        )


def readable_by_both(folder: Path) -> None:
    """Let transformers 4 read a folder that 5 has saved, with the same token ids and vectors; 5
    reads what it read before."""
    settings, config = folder / "tokenizer_config.json", folder / "config.json"
    tokenizer, model = read_json(settings), read_json(config)
    if tokenizer["tokenizer_class"] == "TokenizersBackend":
        tokenizer["tokenizer_class"] = "PreTrainedTokenizerFast"  # its name in 4
    if "extra_special_tokens" in tokenizer:  # in 4 not a list
        tokenizer["additional_special_tokens"] = tokenizer.pop("extra_special_tokens")
    rotary = model.get("rope_parameters") or {}
    if "rope_theta" in rotary:
        model |= {"rope_theta": rotary["rope_theta"], "rope_scaling": rotary}
    write_json(settings, tokenizer)
    write_json(config, model)


def _read_config(folder: Path) -> Any:
    config = transformers.AutoConfig.from_pretrained(folder, **LOCAL)
    config._attn_implementation = None  # a configuration may name code on the hub
    return config


def without_pooler(model_class: Any) -> dict[str, bool]:
    """The option by which a class of models leaves out its pooler; empty if it has none."""
    option = "add_pooling_layer"
    if callable(model_class) and option in inspect.signature(model_class).parameters:
        return {option: False}
    return {}


def stored_pooler(folder: Path) -> dict[str, torch.Tensor]:
    """Return `weight` (d, d) and `bias` (d) of the dense layer that a checkpoint stores behind
    [CLS]; empty if it stores none."""
    tensors: dict[str, torch.Tensor] = {}
    for file in weight_files(folder):
        with safe_open(folder / file, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118 (not a dict)
                # ALBERT's has no module in between.
                match = re.search(r"\bpooler(?:\.dense)?\.(weight|bias)$", name)
                if match:
                    tensors[match[1]] = weights.get_tensor(name)
    return tensors


def blank_token(tokenizer: Any) -> Any:
    """The token that stands for a blank sentence, if the tokenizer adds no special tokens, as those
    of decoders."""
    return tokenizer.eos_token or tokenizer.pad_token


def token_ids(tokenizer: Any, sentences: Sequence[str], longest: int) -> list[list[int]]:
    """Token ids of sentences, cut on the right to `longest`, special tokens included. Truncation
    and padding set in the tokenizer's file are ignored."""
    with library_errors("the tokenizer cannot read a sentence", "choose another model"):
        encoded = tokenizer(list(sentences), truncation=True, max_length=longest, padding=False)
    blank = [tokenizer.convert_tokens_to_ids(blank_token(tokenizer))]
    return [row or blank for row in encoded["input_ids"]]


def longest_input(model: Any, tokenizer: Any) -> int:
    """Maximum number of tokens, special ones included."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if not positions or positions < 0:  # XLNet says -1
        positions = LONGEST
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    if padding is not None:  # RoBERTa and MPNet: the position of padding comes first
        positions -= padding + 1
    return int(min(positions, tokenizer.model_max_length, LONGEST))


def load_language_head(folder: Path, backbone: Any) -> Any:
    """Load the masked-language-model head of a checkpoint: last hidden states to logits. Where the
    checkpoint ties them, its decoder shares the input embeddings of `backbone`."""
    model = load_masked_language_model(folder)
    (head,) = [module for module in model.children() if module is not model.base_model]
    if getattr(model.config, "tie_word_embeddings", True):
        model.get_output_embeddings().weight = backbone.get_input_embeddings().weight
    return head


def load_masked_language_model(folder: Path) -> Any:
    """Load a checkpoint with its masked-language-model head."""
    problem = f"{folder} stores no masked-language head, which would be random"
    remedy = "choose a checkpoint with one"
    with library_errors(problem, remedy):
        loader = transformers.AutoModelForMaskedLM
        model, loading = _pretrained(loader, folder, _read_config(folder))
    if loading["missing_keys"]:
        raise UserError(f"{problem}; {remedy}")
    check_loading(folder, model, loading)
    return model
