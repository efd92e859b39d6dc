"""Toy backbones: small BERT- and RoBERTa-like encoders, pre-trained on the embedded world by masked-language modelling.

The recipe is BERT's (Devlin et al., 2019) scaled down: 15 % of the pieces are predicted, of which 80 % are masked, 10 % replaced by a
random piece and 10 % kept; no next-sentence prediction, so no pooler exists, as in RoBERTa (Liu et al., 2019).
"""

from __future__ import annotations

import gzip
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tqdm import tqdm

from bench.errors import UserError, nearest
from bench.files import atomic_folder

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Size:
    """Shape and schedule of a toy backbone, tuned for about a minute on one core."""

    layers: int = 4
    width: int = 64
    heads: int = 4
    vocabulary: int = 1500
    positions: int = 128
    steps: int = 1400
    batch: int = 64
    learning_rate: float = 2e-3
    initial: float = 0.07  # BERT's 0.02 is for a width of 768; it scales with the root of the width
    warmup: int = 100


SIZE = Size()
MASKED = 0.15
LONGEST = 48  # pieces of a training sentence; longer ones are cut


def pretrain(world: Path, kind: str, out: Path, seed: int = 0, threads: int = 1, steps: int | None = None) -> None:
    """Train a tokenizer and an encoder on the corpus of the embedded world and write them as a Hugging Face folder.

    Args:
        world: folder written by `bench.tasks.world.build`.
        kind: "bert" (lower-casing WordPiece, BertForMaskedLM) or "roberta" (cased byte-level BPE, RobertaForMaskedLM).
        out: folder to write, whole or not at all; `AutoModel` and `AutoTokenizer` load it.
        seed: of weights, order, masks and dropout. The result is a function of the corpus, `seed` and `threads`.
        threads: of torch.
        steps: optimiser steps; default `SIZE.steps`.

    Raises:
        UserError: unknown kind, or `world` holds no corpus.
    """
    if kind not in ("bert", "roberta"):
        raise UserError(f"there is no toy backbone of kind {kind!r}{nearest(kind, ('bert', 'roberta'))}")
    corpus = Path(world) / "world.txt.gz"
    if not corpus.is_file():
        raise UserError(f"{corpus} does not exist; build the embedded world first")
    lines = gzip.decompress(corpus.read_bytes()).decode().splitlines()
    tokenizer = _train_wordpiece(lines) if kind == "bert" else _train_byte_bpe(lines)
    rows = [encoding.ids[: LONGEST - 1] + encoding.ids[-1:] for encoding in tokenizer.encode_batch(lines)]

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = _new_model(kind, tokenizer)
            words = model.get_input_embeddings().weight
            words.data.copy_(_cooccurrence_vectors(rows, *words.shape) * SIZE.initial)
            _train(model, rows, tokenizer, seed, SIZE.steps if steps is None else steps)
    finally:
        torch.set_num_threads(before)
    with atomic_folder(out) as folder:
        model.save_pretrained(folder)
        _wrap(kind, tokenizer).save_pretrained(folder)


def _train_wordpiece(lines: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=SIZE.vocabulary, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def _train_byte_bpe(lines: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE.vocabulary,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        sep=("</s>", tokenizer.token_to_id("</s>")),
        cls=("<s>", tokenizer.token_to_id("<s>")),
        add_prefix_space=False,
    )
    return tokenizer


def _wrap(kind: str, tokenizer: Tokenizer) -> Any:
    from transformers import PreTrainedTokenizerFast

    names = (
        {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
        if kind == "bert"
        else {
            "pad": "<pad>",
            "unk": "<unk>",
            "cls": "<s>",
            "sep": "</s>",
            "mask": "<mask>",
            "bos": "<s>",
            "eos": "</s>",
        }
    )
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if kind == "bert" else ["input_ids", "attention_mask"]
    tokens = {f"{name}_token": token for name, token in names.items()}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=SIZE.positions, model_input_names=inputs, **tokens
    )


def _new_model(kind: str, tokenizer: Tokenizer) -> Any:
    from transformers import BertConfig, BertForMaskedLM, RobertaConfig, RobertaForMaskedLM

    common = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": SIZE.width,
        "num_hidden_layers": SIZE.layers,
        "num_attention_heads": SIZE.heads,
        "intermediate_size": 4 * SIZE.width,
        "initializer_range": SIZE.initial,
    }
    if kind == "bert":
        return BertForMaskedLM(BertConfig(**common, max_position_embeddings=SIZE.positions, pad_token_id=0))
    config = RobertaConfig(
        **common,
        max_position_embeddings=SIZE.positions + 2,  # positions start after the padding id, as in RoBERTa
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
    )
    return RobertaForMaskedLM(config)


def _cooccurrence_vectors(rows: list[list[int]], vocabulary: int, width: int) -> torch.Tensor:
    """Start vectors of the word pieces, [vocabulary, width], of unit variance: positive pointwise mutual information within and between
    neighbouring sentences, cut to its leading eigenvectors (Levy and Goldberg, 2014).

    A minute on one core is too short for a transformer to find the topics of the world from nothing.
    """
    counts = [len(row) - 2 for row in rows]
    indices = np.concatenate([np.asarray(row[1:-1]) for row in rows])
    present = csr_array((np.ones(len(indices)), indices, np.cumsum([0, *counts])), shape=(len(rows), vocabulary))
    together = (present.T @ present + present[:-1].T @ present[1:] + present[1:].T @ present[:-1]).toarray()
    total = together.sum(1, keepdims=True) + 1.0
    information = np.log(np.maximum(together * total.sum() / (total * total.T), 1.0))
    values, vectors = np.linalg.eigh(information)
    leading = np.argsort(-values)[:width]
    found = vectors[:, leading] * np.sqrt(np.maximum(values[leading], 0))
    found /= found.std(1, keepdims=True) + 1e-6
    return torch.tensor(found, dtype=torch.float32)


def _batches(rows: list[list[int]], size: int, generator: torch.Generator) -> Iterator[list[list[int]]]:
    """Batches without end. Neighbours in length share a batch, within pools of 16 batches, which spares padding."""
    while True:
        order = torch.randperm(len(rows), generator=generator).tolist()
        for start in range(0, len(order) - 16 * size + 1, 16 * size):
            pool = sorted(order[start : start + 16 * size], key=lambda index: len(rows[index]))
            for place in torch.randperm(16, generator=generator).tolist():
                yield [rows[index] for index in pool[place * size : (place + 1) * size]]


def _train(model: Any, rows: list[list[int]], tokenizer: Tokenizer, seed: int, steps: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    pad = model.config.pad_token_id
    mask = tokenizer.token_to_id("[MASK]") or tokenizer.token_to_id("<mask>")
    body, head = (model.bert, model.cls) if hasattr(model, "bert") else (model.roberta, model.lm_head)
    optimiser = torch.optim.AdamW(
        model.parameters(), SIZE.learning_rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / SIZE.warmup, (steps - step) / max(1, steps - SIZE.warmup))
    )
    batches = _batches(rows, min(SIZE.batch, len(rows) // 16), generator)
    model.train()
    mean = 0.0
    for step in (bar := tqdm(range(steps), desc="masked language", disable=not sys.stderr.isatty())):
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in next(batches)], True, pad)
        ordinary = ids > 4  # the five special pieces come first in both vocabularies
        chosen = ordinary & (torch.rand(ids.shape, generator=generator) < MASKED)
        fate = torch.rand(ids.shape, generator=generator)
        other = torch.randint(5, model.config.vocab_size, ids.shape, generator=generator)
        inputs = torch.where(chosen & (fate < 0.8), mask, torch.where(chosen & (fate >= 0.9), other, ids))
        with torch.autocast("cpu", torch.bfloat16):
            hidden = body(input_ids=inputs, attention_mask=(ids != pad).long()).last_hidden_state
            import os

            mode = os.environ.get("CLSMODE", "masked")
            where = {
                "masked": chosen,
                "all": ordinary & (torch.rand(ids.shape, generator=generator) < 0.3),
                "none": torch.zeros_like(chosen),
            }[mode]
            logits = head(torch.cat((hidden[chosen], hidden[where.nonzero()[:, 0], 0])))
        loss = torch.nn.functional.cross_entropy(logits.float(), torch.cat((ids[chosen], ids[where])))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        schedule.step()
        mean += (loss.item() - mean) / min(step + 1, 50)
        bar.set_postfix(loss=f"{mean:.2f}")
        if bar.disable and (step + 1) % 200 == 0:
            log.info("step %d of %d, loss %.2f", step + 1, steps, mean)
    model.eval()
