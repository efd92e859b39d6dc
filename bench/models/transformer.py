"""Load a transformer and its tokenizer from a folder.

What would give silently wrong vectors is an error.
"""

import inspect
import os
import re
from pathlib import Path
from typing import Any

# Jobs share the machine's cores, and thread pools of tokenizers do not survive a fork.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from safetensors import safe_open

from bench.models.packed_forward import Batch, forward, is_packed
from bench.registry.backbones import refuse_own_code
from bench.utils.errors import UserError
from bench.utils.files import read_json
from bench.utils.memory import is_memory_full

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")  # ends of the names of weights that can run code
# A folder has one of these files of a tokenizer.
VOCABULARIES = (
    "tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model",
)  # fmt: skip

# Names of rates of dropout in configurations: BERT and most encoders; DistilBERT, ModernBERT and
# decoders; T5; GPT-2.
DROPOUTS = (
    "hidden_dropout_prob", "attention_probs_dropout_prob",
    "dropout", "attention_dropout", "hidden_dropout", "embedding_dropout", "mlp_dropout",
    "dropout_rate",
    "resid_pdrop", "embd_pdrop", "attn_pdrop",
)  # fmt: skip
LONGEST = 2**31 - 1  # tokens; of models and tokenizers without a limit


def _weights_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return [folder / "model.safetensors"]
    names = sorted(set(read_json(index)["weight_map"].values()))
    for name in names:
        if "/" in name or not name.endswith(".safetensors"):
            what = f"{index} names weights in '{name}', which is not a safetensors file in the"
            raise UserError(f"{what} same folder; convert them, or download the model again")
    return [folder / name for name in names]


def check_folder(folder: Path) -> None:
    """Raise `UserError` if a folder lacks a configuration, safetensors weights or a tokenizer."""
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} holds no config.json; give a folder in Hugging Face format")
    refuse_own_code(folder)
    refuse_pickled(folder)
    for path in _weights_files(folder):
        if not path.is_file():
            what = f"{folder} holds no {path.name}"
            raise UserError(f"{what}; give a folder with safetensors weights")
    if not any((folder / name).is_file() for name in VOCABULARIES):
        what = f"{folder} holds no tokenizer.json and no vocabulary"
        raise UserError(f"{what}; put one beside the weights")


def refuse_pickled(folder: Path) -> None:
    """Raise `UserError` if the only weights in a folder are pickled."""
    pickled = [path.name for path in sorted(folder.glob("*")) if path.suffix in PICKLED]
    if pickled and not any(folder.glob("*.safetensors")):
        what = f"{folder} holds only pickled weights ({pickled[0]}), which can run code"
        raise UserError(f"{what}; convert them to safetensors")


def load_backbone(
    folder: Path, *, dropout: float | None = None, pooling_layer: bool = False
) -> tuple[Any, Any]:
    """Load a transformer and its fast tokenizer from a local folder, in float32.

    `dropout` sets hidden and attention dropout; None keeps the model's own. With `pooling_layer`,
    the model's own pooler (dense + tanh) is loaded, too. `UserError` if files are missing, pickled
    or broken, or weights, configuration and tokenizer do not fit together.
    """
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    check_folder(folder)
    try:
        config = _read_config(folder)
        if dropout is not None:
            names = [name for name in DROPOUTS if hasattr(config, name)]
            if not names:
                what = f"the {config.model_type} in {folder} has no dropout that could be set"
                raise UserError(f"{what}; leave out 'dropout'")
            for name in names:
                setattr(config, name, dropout)
        loader, model_class = _loader(config)
        options = {} if pooling_layer else without_pooler(model_class)
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
        tokenizer = load_tokenizer(folder)
    except UserError:
        raise
    except Exception as error:  # transformers raises many kinds
        if is_memory_full(error):
            raise
        what = f"cannot load the model in {folder}: {summary(error)}"
        raise UserError(f"{what}; check its config.json, weights and tokenizer") from error
    if model.main_input_name != "input_ids":
        what = f"{folder} holds a {config.model_type}, which is no encoder of text"
        raise UserError(f"{what}; choose another")
    if pooling_layer and not (stored_pooler(folder) and getattr(model, "pooler", None)):
        what = f"{folder} stores no pooler weights, and pooler 'cls' would be random"
        raise UserError(f"{what}; choose cls_before_pooler or avg")
    _check_weights(folder, model, loading)
    _check_tokenizer(folder, model, tokenizer)
    if not is_packed(model):  # whose layers see no padding
        _check_padding(folder, model, tokenizer)
    for weights in (*model.parameters(), *model.buffers()):
        # A memory-mapped file's alignment would affect the last bits of products.
        weights.data = weights.data.clone()
    return model, tokenizer


def load_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of a local folder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _read_config(folder: Path) -> Any:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    config._attn_implementation = None  # a configuration may name code on the hub
    return config


def _loader(config: Any) -> tuple[Any, Any]:
    """The automatic class that loads a model, and the model's own class. Of T5 and its relatives
    only the encoder is loaded."""
    from transformers import AutoModel, AutoModelForTextEncoding
    from transformers.models.auto import modeling_auto

    encoder = modeling_auto.MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(config), None)
    if encoder:
        return AutoModelForTextEncoding, encoder
    return AutoModel, modeling_auto.MODEL_MAPPING.get(type(config), None)


def without_pooler(model_class: Any) -> dict[str, bool]:
    """The option by which a class of models leaves out its pooler; empty if it has none."""
    has_option = (
        callable(model_class) and "add_pooling_layer" in inspect.signature(model_class).parameters
    )
    return {"add_pooling_layer": False} if has_option else {}


def _check_weights(folder: Path, model: Any, loading: dict[str, Any]) -> None:
    """Reject weights of another shape than the configuration's, unused and missing weights."""
    config = folder / "config.json"
    for name, stored, expected in sorted(loading["mismatched_keys"]):
        what = f"{name} has shape {list(stored)} in the weights and {list(expected)} by config.json"
        raise UserError(f"{config} and the weights do not match: {what}; download both again")
    # Weights of layers that the model does not have. Heads and poolers may be unused. Layers of
    # GPT-2 (h) have further tensors, which are not weights.
    depth = getattr(model.config, "num_hidden_layers", float("inf"))
    for name in sorted(loading["unexpected_keys"]):
        layer = re.search(r"\b(layers?|h)\.(\d+)", name)
        if layer and (layer[1] != "h" or int(layer[2]) >= depth):
            what = f"{config} has no place for the weights {name}"
            raise UserError(f"{what}; correct its number of layers, or download both again")
    if loading["missing_keys"]:
        what = f"the weights in {folder} lack {min(loading['missing_keys'])}, which would be random"
        raise UserError(f"{what}; save or download them again")


def _check_tokenizer(folder: Path, model: Any, tokenizer: Any) -> None:
    """Reject a tokenizer that cannot pad or that has more tokens than the model."""
    if tokenizer.pad_token is None:
        what = f"the tokenizer in {folder} has no padding token"
        raise UserError(f"{what}; set pad_token in its tokenizer_config.json")
    rows, largest = len(model.get_input_embeddings().weight), max(tokenizer.get_vocab().values())
    if largest >= rows:
        what = f"the tokenizer in {folder} gives token ids up to {largest}, but the weights embed"
        raise UserError(f"{what} only {rows} tokens; put the model's own tokenizer beside them")


@torch.no_grad()
def _check_padding(folder: Path, model: Any, tokenizer: Any) -> None:
    """Reject a model that cannot be run, or whose states depend on padding, and so on the other
    sentences of a batch."""
    short, long = tokenizer(["one two three", "one two three " * 4])["input_ids"]
    named = f"the {model.config.model_type} in {folder}"
    try:
        alone, padded = (
            forward(model, Batch.of(rows, tokenizer.pad_token_id))[-1][0, : len(short)]
            for rows in ([short], [short, long])
        )
    except Exception as error:  # lengths that it does not support, or no encoder of text
        if is_memory_full(error):
            raise
        what = f"{named} cannot be run ({summary(error)})"
        raise UserError(
            f"{what}; check its config.json and tokenizer, or choose another"
        ) from error
    # Rounding moves them by 1e-6.
    if (alone - padded).abs().max() > 1e-3 * alone.abs().max():
        what = f"the vectors of {named} depend on padding, and so on the other sentences of a batch"
        raise UserError(f"{what}; choose another model")


def summary(error: Exception) -> str:
    """The kind and the first line of a library's error."""
    message = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {message[:200]}"


def stored_pooler(folder: Path) -> dict[str, torch.Tensor]:
    """Return `weight` (d, d) and `bias` (d) of the dense layer of a checkpoint's own pooler, or an
    empty dictionary if it stores none."""
    tensors: dict[str, torch.Tensor] = {}
    for path in _weights_files(folder):
        with safe_open(path, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118 (not a dict)
                # ALBERT's has no module in between.
                match = re.search(r"\bpooler(?:\.dense)?\.(weight|bias)$", name)
                if match:
                    tensors[match[1]] = weights.get_tensor(name)
    return tensors


def longest_input(model: Any, tokenizer: Any) -> int:
    """Maximum number of tokens, special ones included."""
    positions = getattr(model.config, "max_position_embeddings", None)
    positions = positions if positions and positions > 0 else LONGEST  # XLNet says -1
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    if padding is not None:  # RoBERTa and MPNet: positions start behind that of padding
        positions -= padding + 1
    return int(min(positions, tokenizer.model_max_length, LONGEST))


def load_language_head(folder: Path, backbone: Any) -> Any:
    """Load the masked-language-model head of a checkpoint: last hidden states to logits.

    Where the checkpoint ties them, the head's decoder shares the input embeddings of `backbone`.
    `UserError` if the checkpoint stores no such head, or one that is not a single module.
    """
    model = load_masked_language_model(folder)
    heads = [module for module in model.children() if module is not model.base_model]
    if len(heads) != 1:
        raise _no_head(folder)
    if getattr(model.config, "tie_word_embeddings", True):
        model.get_output_embeddings().weight = backbone.get_input_embeddings().weight
    return heads[0]


def load_masked_language_model(folder: Path) -> Any:
    """Load a checkpoint with its masked-language-model head; `UserError` if it stores none."""
    from transformers import AutoModelForMaskedLM

    try:
        model, loading = AutoModelForMaskedLM.from_pretrained(
            folder,
            config=_read_config(folder),
            output_loading_info=True,
            dtype=torch.float32,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise _no_head(folder) from error
    if loading["missing_keys"]:
        raise _no_head(folder)
    return model


def _no_head(folder: Path) -> UserError:
    what = f"{folder} stores no masked-language head, which would be random"
    return UserError(f"{what}; choose a checkpoint with one")
