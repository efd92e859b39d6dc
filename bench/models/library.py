"""Models that sentence-transformers loads and runs: all that were not trained here, except plain
transformers of the BERT and RoBERTa families.

A folder of modules is taken as it is, without a last module Normalize. A transformer with one of
our poolers becomes the modules Transformer and Pooling.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from bench.models.checks import check_model, check_text
from bench.models.defaults import torch_defaults
from bench.models.folders import POOLING_MODES, prompt_text
from bench.models.options import Options
from bench.models.transformer import (
    LOCAL,
    blank_token,
    check_loaded,
    copy_weights,
    load_tokenizer,
    longest_input,
    set_padding,
)
from bench.registry.backbones import MODULES, encoder_sum
from bench.utils.errors import UserError
from bench.utils.files import read_json, sha256_text
from methods.base import text_list

# What the library does with text. By default it would put the text into the template of chats, if
# the model has one.
PLAIN_TEXT = {
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}


def load_library(folder: Path, kind: str, options: Options, device: str) -> LibraryEncoder:
    """Load a folder of modules, or a transformer with the pooler of the options."""
    # Here, because importing it takes seconds.
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    # A folder may name code of the hub for its attention, and a shorter type.
    loading = {"dtype": getattr(torch, options.dtype), "use_safetensors": True}
    # `check_loaded` names weights of another shape.
    loading |= {"attn_implementation": None, "ignore_mismatched_sizes": True}
    if kind == MODULES:
        library = SentenceTransformer(str(folder), device="cpu", model_kwargs=loading, **LOCAL)
    else:
        module = Transformer(
            str(folder),
            model_kwargs=loading | LOCAL,
            processor_kwargs=dict(LOCAL),
            config_kwargs=dict(LOCAL),
            **PLAIN_TEXT,
        )
        # Some models count positions from the left, padding included.
        module.tokenizer.padding_side = "right"
        module.register_forward_hook(_in_float32)
        pooling = Pooling(module.get_embedding_dimension(), POOLING_MODES[str(options.pooler)])
        library = SentenceTransformer(modules=[module, pooling], device="cpu")
    # Normalising changes no cosine, and SentEval's classifiers get vectors that are not normalised.
    while isinstance(library[-1], Normalize):
        library.pop(-1)
    copy_weights(library)
    model = library[0].model if isinstance(library[0], Transformer) else None
    encoder = LibraryEncoder(folder, library.to(device), model, options)
    if model is None:
        check_text(folder, encoder.encode)
        return encoder
    if hasattr(model, "encoder") and hasattr(model, "decoder"):  # as BART; of T5 the encoder is run
        raise UserError(f"the states of {folder} would be its decoder's; choose an encoder")
    place = folder / read_json(folder / MODULES)[0]["path"] if kind == MODULES else folder
    check_loaded(place, model)
    # The tokenizer of the files, since the library may add a step that makes letters small.
    check_model(place, load_tokenizer(place), encoder, options.dtype)
    return encoder


def _in_float32(module: Any, inputs: Any, features: dict[str, Any]) -> dict[str, Any]:
    """States of a transformer in float32, as our poolers take them."""
    return features | {"token_embeddings": features["token_embeddings"].float()}


class LibraryEncoder:
    """The modules of sentence-transformers, with a prompt and a template around each sentence."""

    kind = "sentence-transformers"

    def __init__(self, folder: Path, library: Any, model: Any, options: Options) -> None:
        """Take the modules of a folder; `model` is their transformer, if they have one."""
        self._library, self._options = library, options
        self._prompt, self._blank = prompt_text(folder, options), ""
        self.pooler = options.pooler or self.kind
        self.model, self.tokenizer = model, library.tokenizer
        if model is not None:
            set_padding(folder, self.tokenizer)
            if not self.tokenizer("")["input_ids"]:
                self._blank = blank_token(self.tokenizer)
            # The library does not know that RoBERTa's first positions are those of padding.
            longest = longest_input(model, self.tokenizer)
            library.max_seq_length = min(longest, library.max_seq_length or longest)
        modes = [str(module.pooling_mode) for module in library if hasattr(module, "pooling_mode")]
        self.loaded = {
            "pooler": ", ".join(modes),
            "max_length": library.max_seq_length,
            "library": f"{self.kind} {version(self.kind)}",
        }
        parts = [options.pooler, self._prompt, options.template, options.dtype]
        # An interrupted scoring is not continued with vectors of another version.
        parts += [version(self.kind), version("transformers")]
        text = json.dumps([encoder_sum(folder), *parts])
        self.identity = f"{self.kind}-{sha256_text(text)[:16]}"

    @torch_defaults()
    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        texts = [self._options.around(text) or self._blank for text in text_list(sentences)]
        if self._options.template and self.model is not None:
            self._refuse_cut(texts)
        options = {"prompt": self._prompt, "show_progress_bar": False}
        return np.asarray(self._library.encode(texts, **options), dtype=np.float32)

    def _refuse_cut(self, texts: Sequence[str]) -> None:
        """Refuse a text whose template would lose its end, which `last` takes for the vector."""
        prompted = [self._prompt + text for text in texts]
        count = max(map(len, self.tokenizer(prompted, verbose=False)["input_ids"]), default=0)
        longest = self._library.max_seq_length
        if count > longest:
            raise UserError(
                f"a sentence in the template has {count} tokens, and the model takes {longest}: "
                "the end of the template would be cut; omit the template, or choose a model for "
                "longer texts"
            )
