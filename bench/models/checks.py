"""What no library checks of a model that was not trained here, each a source of wrong scores.

A vector is a function of its text alone. Token ids are what the files of the tokenizer ask for:
transformers builds some tokenizers anew from a class and settings, and leaves out of others the
settings that its version 4 carried out.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

from bench.datasets.sts import cosine
from bench.models.options import FLOAT32
from bench.models.pooling import BY_NAME
from bench.utils.errors import UserError, library_errors, warn
from bench.utils.files import read_settings

# Letters of both cases, an accent, digits, punctuation, a tab, Chinese; and one that is longer.
PROBES = ("A Café's 2 CATS\t(了)", "The 1,000 cats of the café aren't re-read by XÆ-12, 不了。")
# Two ends of one word, short since a folder may cut texts; a tokenizer knows one of their words.
ENDS = "It a dog 7 了", "It the house 24 不"
# Settings of a tokenizer, each with two texts. They have the same ids where the setting is true,
# and different ids where it is false.
EQUAL_TEXTS = {
    "do_lower_case": ("CATS", "cats"),
    "strip_accents": ("café", "cafe"),
    "tokenize_chinese_chars": ("了不", "了 不"),
    "add_prefix_space": ("cats", " cats"),
}
# Why a vector does not depend on the end of a text, and what to do.
KNOWS_NO_WORD = "its tokenizer knows no word; correct the tokenizer"
SEES_NO_OTHER = (
    "its first token sees no other token, as of a decoder, or its tokenizer knows no word; choose "
    "pooler avg, last or weighted_mean, or correct the tokenizer"
)
# Distances of cosines from 1. Above the first, a text has two vectors, and the encoder is refused.
# Above the second, there is a warning: rounding alone stays below it. Rounding of bfloat16 is at
# most 7.3e-5 (400 texts of 3 to 40 words, wiki-minilm, toy-bert and toy-roberta, four poolers).
APART, ROUNDED = 1e-3, {"float32": 1e-9, "bfloat16": 2e-4}

Encode = Callable[[Sequence[str]], np.ndarray]


def check_model(folder: Path, tokenizer: Any, encoder: Any, dtype: str = FLOAT32) -> None:
    """Check the tokenizer of a folder and the encoder that was made of it; `encoder.pooler` is the
    name of its pooler, and `dtype` the type of its states."""
    fault = next(_faults(folder, tokenizer), None)
    if fault:
        raise UserError(f"the tokenizer in {folder} {fault}, or else score a Python function")
    _check_sizes(folder, tokenizer, encoder)
    cause = KNOWS_NO_WORD
    if encoder.pooler in BY_NAME and BY_NAME[encoder.pooler].first:
        cause = SEES_NO_OTHER
        if tokenizer(ENDS[0])["input_ids"][0] != tokenizer.cls_token_id:
            raise UserError(
                f"the first token of {folder} is not [CLS]; choose pooler avg, last or "
                "weighted_mean"
            )
    check_text(folder, encoder.encode, _ends_of(tokenizer), cause, ROUNDED[dtype])


def _check_sizes(folder: Path, tokenizer: Any, encoder: Any) -> None:
    """Check that there is a place for each token of a text."""
    longest = encoder.loaded["max_length"]
    if longest < 3:  # [CLS], a word and [SEP]
        raise UserError(
            f"{folder} takes {longest} tokens of a text, which has no room for a word; correct "
            "model_max_length in tokenizer_config.json, or the maximum length of its modules"
        )
    rows = len(encoder.model.get_input_embeddings().weight)
    largest = max(tokenizer.get_vocab().values())
    if largest >= rows:
        raise UserError(
            f"the tokenizer in {folder} gives token ids up to {largest}, but the weights embed "
            f"only {rows}; save or download both again"
        )


def _ends_of(tokenizer: Any) -> Sequence[str]:
    """Two texts that a tokenizer tells apart by their ends alone."""
    first_ids, second_ids = tokenizer(list(ENDS))["input_ids"]
    if first_ids != second_ids:
        return ENDS
    # A small vocabulary of another script has none of these words, so take two of its own.
    vocabulary = tokenizer.get_vocab()
    words = sorted(filter(str.isalpha, vocabulary), key=vocabulary.__getitem__)
    return [f"{words[0]} {word}" for word in (words[0], words[-1])] if words else ENDS


def check_text(
    folder: Path,
    encode: Encode,
    ends: Sequence[str] = ENDS,
    cause: str = KNOWS_NO_WORD,
    rounded: float = ROUNDED[FLOAT32],
) -> None:
    """Check that vectors depend on the whole text, and on nothing else. `cause` says why a vector
    would not depend on one of the `ends`; `rounded` is as `compare` takes it."""
    # It may not support these lengths, or be no encoder of text.
    with library_errors(f"the model in {folder} cannot be run", "choose another model"):
        texts = [*PROBES, "", PROBES[0]]
        together = encode(texts)
        alone = np.concatenate([encode([text]) for text in texts])
        end_vectors = encode(ends)
    compare(together, alone, f"the model in {folder}", "choose another model", rounded)
    if np.ptp(end_vectors, axis=0).max() <= 1e-6 * np.abs(end_vectors).max():
        raise UserError(f"the vector of {folder} does not depend on the end of a text: {cause}")


def compare(
    vectors: np.ndarray,
    repeated: np.ndarray,
    subject: str,
    remedy: str,
    rounded: float = ROUNDED[FLOAT32],
) -> None:
    """Compare vectors of the same texts, encoded in other batches; refuse a large difference, and
    warn of one above `rounded`."""
    # Zero vectors have no direction.
    distance = 1 - cosine(vectors, repeated)[cosine(vectors, vectors) > 0].min(initial=1)
    message = f"{subject} gives a text different vectors (a cosine of 1 - {distance:.1g})"
    if distance > APART:
        raise UserError(f"{message}, by the order, the padding or the size of a batch; {remedy}")
    if distance > rounded:
        warn(message)


def _faults(folder: Path, tokenizer: Any) -> Iterator[str]:
    """Yield what is wrong with a tokenizer, and how to correct it."""
    ids = tokenizer(list(PROBES))["input_ids"]
    file = folder / "tokenizer.json"
    # transformers may build the tokenizer anew by its class, and then leaves out steps of the file.
    if file.is_file():
        plain = Tokenizer.from_file(str(file))
        plain.no_truncation()
        plain.no_padding()
        if [plain.encode(text).ids for text in PROBES] != ids:
            yield (
                "gives other token ids than tokenizer.json, by the class that "
                "tokenizer_config.json names; to take the file as it is, name tokenizer_class "
                "PreTrainedTokenizerFast there"
            )
    settings = read_settings(folder / "tokenizer_config.json")
    for key, actual in _settings(tokenizer).items():
        if settings.get(key, actual) not in (actual, None):
            yield (
                f"does not carry out '{key}': {str(settings[key]).lower()} of "
                "tokenizer_config.json; correct that, or save tokenizer.json with it"
            )
    for word, normal in _changed_words(tokenizer):
        yield (
            f"changes words of its vocabulary, as '{word}' to '{normal}'; write do_lower_case and "
            "strip_accents as in its training into tokenizer_config.json"
        )


def _settings(tokenizer: Any) -> dict[str, bool]:
    """Settings of a tokenizer, with the values that its token ids show."""
    ids, actual = tokenizer(PROBES[0])["input_ids"], dict[str, bool]()
    # [CLS] and [SEP] are added whatever the setting of a token that is the same.
    if tokenizer.bos_token_id != tokenizer.cls_token_id:
        actual["add_bos_token"] = ids[0] == tokenizer.bos_token_id
    if tokenizer.eos_token_id != tokenizer.sep_token_id:
        actual["add_eos_token"] = ids[-1] == tokenizer.eos_token_id
    for key, texts in EQUAL_TEXTS.items():
        ids_of_both = tokenizer(list(texts))["input_ids"]
        # An unknown token says nothing of the text behind it.
        if tokenizer.unk_token_id not in chain.from_iterable(ids_of_both):
            actual[key] = ids_of_both[0] == ids_of_both[1]
    # Other tokenizers have a mark of words for the space.
    if not isinstance(tokenizer.backend_tokenizer.pre_tokenizer, pre_tokenizers.ByteLevel):
        actual.pop("add_prefix_space", None)
    return actual


def _changed_words(tokenizer: Any) -> Iterator[tuple[str, str]]:
    """Words of a vocabulary that no text can have, since the tokenizer changes them first."""
    backend = tokenizer.backend_tokenizer
    if backend.normalizer is None or not isinstance(backend.model, models.WordPiece):
        return
    for word in tokenizer.get_vocab():
        plain = word.removeprefix("##")  # the mark of a piece inside a word
        # Special tokens begin with a bracket. A single letter may come from text that a trainer of
        # vocabularies did not normalise.
        if len(plain) > 1 and plain[0] not in "[<":
            normal = backend.normalizer.normalize_str(plain)
            # Case and accents. Marks of writing and spaces around Chinese change the length.
            if normal != plain and len(normal) == len(plain):
                yield word, normal


def check_types(folder: Path, tokenizer: Any) -> None:
    """Refuse types of tokens other than 0, which our forward pass leaves out."""
    if any(tokenizer(PROBES[0]).get("token_type_ids", [])):
        raise UserError(
            f"the tokenizer in {folder} gives tokens of a text a type other than 0, which is not "
            "passed on; save the model with sentence-transformers, or score a Python function"
        )
