"""Load a transformer and its tokenizer from a folder."""

import inspect
import os
import re
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

# Jobs share the machine's cores, and thread pools of tokenizers do not survive a fork.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
import transformers
from safetensors import safe_open
from tokenizers import Tokenizer

from bench.models.packed_forward import Batch, forward
from bench.registry.backbones import DROPOUTS, refuse_unread, shards
from bench.registry.templates import SENTENCE
from bench.utils.errors import UserError, library_errors
from bench.utils.files import read_json, read_settings, write_json

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")  # ends of the names of weights that can run code
# A folder has one of these files of a tokenizer.
VOCABULARIES = (
    "tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model",
)  # fmt: skip

# Types of weights and states, by name.
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
FLOAT32 = "float32"
# Letters of both cases, an accent, digits, punctuation, a tab, Chinese; and one that is longer.
PROBES = ("A Café's 2 CATS\t(了)", "The 1,000 cats of the café aren't re-read by XÆ-12, 不了。")
LONGEST = 2**31 - 1  # tokens; of models and tokenizers without a limit


def _weights(folder: Path) -> list[str]:
    """The files of weights, of which transformers prefers the single one."""
    single, index = "model.safetensors", folder / "model.safetensors.index.json"
    if (folder / single).is_file() or not index.is_file():
        return [single]
    return shards(index)


def check_folder(folder: Path) -> None:
    """Refuse a folder without a configuration, safetensors weights or a tokenizer."""
    refuse_unread(folder)
    refuse_pickled(folder)
    for names in (["config.json"], *([name] for name in _weights(folder)), VOCABULARIES):
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


def load_backbone(
    folder: Path,
    *,
    dropout: float | None = None,
    pooling_layer: bool = False,
    first_token: bool = False,
    dtype: str = FLOAT32,
) -> tuple[Any, Any]:
    """Load a transformer and its fast tokenizer from a local folder.

    `dropout` sets hidden and attention dropout; None keeps the model's own. With `pooling_layer`,
    the model's own pooler (dense + tanh) is loaded, too. `first_token` says that its state will be
    a sentence's vector. `dtype`, of `DTYPES`, is that of the weights. What would give silently
    wrong vectors is an error.
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
        options: dict[str, Any] = {}
        if not pooling_layer:
            options |= without_pooler(model_class)
        # `_check_fit` rejects other sizes by name.
        model, loading = _pretrained(
            loader, folder, config, ignore_mismatched_sizes=True, **options
        )
        tokenizer = load_tokenizer(folder)
    if pooling_layer and not (stored_pooler(folder) and getattr(model, "pooler", None)):
        raise UserError(
            f"{folder} stores no pooler weights, and pooler 'cls' would be random; "
            "choose cls_before_pooler or avg"
        )
    _check_fit(folder, model, tokenizer, loading)
    _probe(folder, model, tokenizer, first_token)
    for weights in (*model.parameters(), *model.buffers()):
        # A memory-mapped file's alignment would affect the last bits of products.
        weights.data = weights.data.clone()
    # As transformers loads them: buffers, such as the frequencies of rotations, stay in float32.
    exact = model._keep_in_fp32_modules_strict or ()
    for name, weight in model.named_parameters():
        if not any(part in name for part in exact):
            weight.data = weight.data.to(DTYPES[dtype])
    return model, tokenizer


def _set_dropout(config: Any, rate: float, folder: Path) -> None:
    names = [name for name in DROPOUTS if hasattr(config, name)]
    if not names:
        raise UserError(
            f"the {config.model_type} in {folder} has no dropout that could be set; "
            "leave out 'dropout'"
        )
    for name in names:
        setattr(config, name, rate)


def _pretrained(loader: Any, folder: Path, config: Any, **options: Any) -> tuple[Any, Any]:
    """A model in float32, and what its weights lack or have too many."""
    return loader.from_pretrained(
        folder,
        config=config,
        output_loading_info=True,
        dtype=torch.float32,
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
        **options,
    )


def load_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of a local folder."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    if tokenizer.pad_token is None:  # as of many decoders; nothing sees which one it is
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


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
    config = transformers.AutoConfig.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    config._attn_implementation = None  # a configuration may name code on the hub
    return config


def without_pooler(model_class: Any) -> dict[str, bool]:
    """The option by which a class of models leaves out its pooler; empty if it has none."""
    option = "add_pooling_layer"
    if callable(model_class) and option in inspect.signature(model_class).parameters:
        return {option: False}
    return {}


def _check_fit(folder: Path, model: Any, tokenizer: Any, loading: dict[str, Any]) -> None:
    """Reject weights, configuration and tokenizer that do not fit together."""
    problems = [
        f"{name} has shape {list(stored)} in the weights and {list(expected)} by config.json"
        for name, stored, expected in sorted(loading["mismatched_keys"])
    ]
    # Weights of layers that the model does not have. Heads and poolers may be unused. Layers of
    # GPT-2 (h) have further tensors, which are not weights.
    depth = getattr(model.config, "num_hidden_layers", float("inf"))
    for name in sorted(loading["unexpected_keys"]):
        layer = re.search(r"\b(layers?|h)\.(\d+)", name)
        if layer and (layer[1] != "h" or int(layer[2]) >= depth):
            problems.append(f"config.json has no place for the weights {name}")
    missing = sorted(loading["missing_keys"])
    problems += [f"the weights lack {name}, which would be random" for name in missing]
    if tokenizer.model_max_length < 3:
        problems.append("model_max_length in tokenizer_config.json has no room for a token")
    if tokenizer.pad_token is None:
        problems.append(
            "tokenizer_config.json names no pad_token and no eos_token, one of which pads"
        )
    rows, largest = len(model.get_input_embeddings().weight), max(tokenizer.get_vocab().values())
    if largest >= rows:
        problems.append(
            f"the tokenizer gives token ids up to {largest}, but the weights embed only {rows}"
        )
    if 2 * largest < rows:  # transformers makes such a tokenizer where it finds no vocabulary
        problems.append(f"the tokenizer has {largest + 1} tokens, and the weights embed {rows}")
    if problems:
        raise UserError(
            f"the files in {folder} do not fit together: {problems[0]}; correct that, or save or "
            "download them again"
        )


@torch.no_grad()
def _probe(folder: Path, model: Any, tokenizer: Any, first_token: bool) -> None:
    """Refuse a model whose token ids are not tokenizer.json's, whose states depend on the rest of a
    batch, or whose first token, where it is the vector, is not [CLS] or sees no other token."""
    subject = f"the {model.config.model_type} in {folder}"
    short, long = tokenizer(list(PROBES))["input_ids"]
    file = folder / "tokenizer.json"
    if file.is_file():
        plain = Tokenizer.from_file(str(file))
        plain.no_truncation()
        plain.no_padding()
        if [plain.encode(text).ids for text in PROBES] != [short, long]:
            raise UserError(
                f"{folder} has a tokenizer.json with other token ids than those of the class that "
                "tokenizer_config.json names; to take the file as it is, name tokenizer_class "
                "PreTrainedTokenizerFast there, or else score a Python function"
            )
    elif _is_guessed(folder, tokenizer):
        raise UserError(
            f"{folder} has words with capitals, which its tokenizer makes small by default; write "
            '"do_lower_case": false, or true, in its tokenizer_config.json'
        )
    other_end = [*short[:-1], short[0]]
    # It may not support these lengths, or be no encoder of text.
    with library_errors(f"{subject} cannot be run", "choose another model"):
        alone, padded, changed = (
            forward(model, Batch.of(rows, tokenizer.pad_token_id))[-1][0, : len(short)]
            for rows in ([short], [short, long], [other_end])
        )
    moved = [(alone - states).abs().amax(1) / alone.abs().max() for states in (padded, changed)]
    if moved[0].max() > 1e-3:  # rounding moves them by 1e-6
        raise UserError(
            f"{subject} has vectors that depend on padding, and so on the other sentences of a "
            "batch; choose another model"
        )
    if first_token and (short[0] != tokenizer.cls_token_id or moved[1][0] < 1e-5):
        raise UserError(
            f"the first token of {subject} sees no other token, or is not [CLS]; choose pooler "
            "avg, last or weighted_mean"
        )


def _is_guessed(folder: Path, tokenizer: Any) -> bool:
    """Whether a vocabulary has capitals, and its tokenizer lower-cases though no file says so."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    is_said = "do_lower_case" in read_settings(folder / "tokenizer_config.json")
    if is_said or normalizer is None or normalizer.normalize_str("A") == "A":
        return False
    special = "|".join([r"\[unused\d+\]", *map(re.escape, tokenizer.all_special_tokens)])
    words = (word for word in tokenizer.get_vocab() if not re.fullmatch(special, word))
    return any(word != word.lower() for word in words)


def stored_pooler(folder: Path) -> dict[str, torch.Tensor]:
    """Return `weight` (d, d) and `bias` (d) of the dense layer of a checkpoint's own pooler; empty
    if it stores none."""
    tensors: dict[str, torch.Tensor] = {}
    for file in _weights(folder):
        with safe_open(folder / file, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118 (not a dict)
                # ALBERT's has no module in between.
                match = re.search(r"\bpooler(?:\.dense)?\.(weight|bias)$", name)
                if match:
                    tensors[match[1]] = weights.get_tensor(name)
    return tensors


def blank_token(tokenizer: Any) -> Any:
    """The token of a blank sentence where the tokenizer adds no special ones, as of decoders."""
    return tokenizer.eos_token or tokenizer.pad_token


def token_ids(tokenizer: Any, sentences: Sequence[str], longest: int) -> list[list[int]]:
    """Token ids of sentences, cut on the right to `longest`, special tokens included. Truncation
    and padding set in the tokenizer's file are ignored."""
    with library_errors("the tokenizer cannot read a sentence", "choose another model"):
        encoded = tokenizer(list(sentences), truncation=True, max_length=longest, padding=False)
    blank = [tokenizer.convert_tokens_to_ids(blank_token(tokenizer))]
    return [row or blank for row in encoded["input_ids"]]


def templated_ids(
    tokenizer: Any, sentences: Sequence[str], template: str, longest: int
) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Token ids of sentences in a template, special tokens included, and where in them the last
    occurrence of each sentence begins and ends.

    A token with any letter of the sentence belongs to it. A sentence is cut on the right until
    there are at most `longest` tokens; the template stays whole. A blank sentence spans all tokens.

    Raises:
        UserError: the template alone is longer.
    """
    rows, spans = [], []
    before = template.rpartition(SENTENCE)[0]
    for sentence in sentences:
        while True:
            start = len(before.replace(SENTENCE, sentence))
            encoded = tokenizer(template.replace(SENTENCE, sentence), return_offsets_mapping=True)
            ids, letters = encoded["input_ids"], encoded["offset_mapping"]
            inside = [
                index
                for index, (first, last) in enumerate(letters)
                if max(first, start) < min(last, start + len(sentence))
            ]
            excess = len(ids) - longest
            if excess <= 0:
                break
            if not sentence:
                raise UserError(
                    f"the template '{template}' alone has {len(ids)} tokens, and the model takes "
                    f"{longest}; shorten it"
                )
            kept = inside[: -ceil(excess / template.count(SENTENCE))]
            cut = letters[kept[-1]][1] - start if kept else 0
            sentence = sentence[: min(cut, len(sentence) - 1)]
        rows.append(ids)
        spans.append((inside[0], inside[-1] + 1) if inside else (0, len(ids)))
    return rows, spans


def longest_input(model: Any, tokenizer: Any) -> int:
    """Maximum number of tokens, special ones included."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if not positions or positions < 0:  # XLNet says -1
        positions = LONGEST
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    if padding is not None:  # RoBERTa and MPNet: positions start behind that of padding
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
    return model
