"""Training time of published shapes on this device: random weights, generated words, the real loop.

Time depends only on shapes and lengths, so nothing is downloaded. Sentences have the lengths of the
papers' corpus, and the dev set has the size of STS-B's.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import write_json, write_text


@dataclass(frozen=True)
class PublishedShape:
    """The shape of a transformer, and how SimCSE trains it (docs/methods.md#optimisation)."""

    kind: str  # model type
    width: int
    depth: int
    heads: int
    words: int  # size of the vocabulary
    batch: int
    official: float | None = None  # seconds of the released code on its authors' GPU, if known


# Sizes of the published models. The seconds are from the released logs of GS-InfoNCE, which trains
# like SimCSE with a few more negatives, on a million sentences at batch size 64
# (docs/methods.md#gs-infonce).
SHAPES = {
    "bert-base": PublishedShape("bert", 768, 12, 12, 30_522, 64, 3835),
    "bert-large": PublishedShape("bert", 1024, 24, 16, 30_522, 64, 9226),
    "roberta-base": PublishedShape("roberta", 768, 12, 12, 50_265, 512),
    "roberta-large": PublishedShape("roberta", 1024, 24, 16, 50_265, 512),
    "toy": PublishedShape("bert", 64, 4, 4, 1500, 64),
}
SENTENCES = 1_000_000  # size of wiki1m, the papers' training corpus
# Words per sentence: 23 tokens on average, with special tokens and a cut at 32, as in wiki1m.
DRAWN = (11, 31)
PAIRS = 1500  # size of STS-B's dev set, whose sentences have 13 tokens on average
DRAWN_DEV = (5, 17)
EVERY = 125  # steps between two selections (the released script)


def time_shape(name: str, steps: int, device: str) -> dict[str, Any]:
    """Train for some steps and extrapolate to a million sentences.

    Args:
        name: a key of `SHAPES`.
        steps: a multiple of 125, so that selection has its share of the time.
        device: torch device.

    Returns:
        Shape, steps, batch, seconds of these steps and of a million sentences, official, and work.

    Raises:
        UserError: the shape is unknown, or `steps` is not a multiple of 125.
    """
    from bench.runs.resolve import resolve
    from bench.training.loop import train

    if name not in SHAPES:
        raise UserError(f"unknown shape '{name}'{did_you_mean(name, SHAPES)}")
    if steps < EVERY or steps % EVERY:
        told = f"write a multiple of {EVERY}, the steps between two selections"
        raise UserError(f"--steps is {steps}; {told}")
    shape = SHAPES[name]
    with tempfile.TemporaryDirectory() as temporary:
        folder, data = Path(temporary), Path(temporary) / "data"
        words = [f"w{number}" for number in range(shape.words - 5)]
        draw = random.Random(0)  # noqa: S311 (nothing secret)

        def sentence(low: int, high: int) -> str:
            return " ".join(draw.choices(words, k=draw.randint(low, high)))

        _backbone(shape, words, folder / "backbone")
        corpus = "".join(f"{sentence(*DRAWN)}\n" for _ in range(steps * shape.batch))
        write_text(folder / "made-up.txt", corpus)
        dev = [
            f"a\tb\tdev\t{row}\t{row % 6}\t{sentence(*DRAWN_DEV)}\t{sentence(*DRAWN_DEV)}\n"
            for row in range(PAIRS)
        ]
        write_text(data / "downstream" / "STS" / "STSBenchmark" / "sts-dev.csv", "".join(dev))
        write_json(data / "manifest.json", {"name": "made-up", "sts": {"STS-B": {"dev": PAIRS}}})
        run = resolve(
            "simcse",
            backbone_name=str(folder / "backbone"),
            corpus=str(folder / "made-up.txt"),
            data=str(data),
            seed=1,
            recipe={"batch_size": shape.batch, "select_every": EVERY},
        )
        outcome = train(run, folder / "suite", folder / "run", device)["outcome"]
    if outcome["status"] != "finished":
        raise UserError(f"the training of '{name}' ended early: {outcome['reason']}; report this")
    return {
        "shape": name,
        "steps": steps,
        "batch": shape.batch,
        "seconds": outcome["seconds"],
        "million": outcome["seconds"] * -(-SENTENCES // shape.batch) / steps,
        "official": shape.official,
        "work": outcome["work"],
    }


def _backbone(shape: PublishedShape, words: list[str], folder: Path) -> None:
    """Write a transformer with random weights and a tokenizer with one token per word."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 (a word)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    named = {f"{token.strip('[]').lower()}_token": token for token in special}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **named)
    config = AutoConfig.for_model(
        shape.kind,
        vocab_size=shape.words,
        hidden_size=shape.width,
        num_hidden_layers=shape.depth,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.width,
        max_position_embeddings=514,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    AutoModel.from_config(config, add_pooling_layer=False).save_pretrained(folder)
    fast.save_pretrained(folder)


def report(result: dict[str, Any]) -> str:
    """Return the result of `time_shape` in one line."""
    rate = 1000 * result["seconds"] / result["steps"]
    line = (
        f"{result['shape']}, batch {result['batch']}: {rate:.1f} ms a step with selection every "
        f"{EVERY} steps, {result['work']['ratio']:.2f} times the floor; "
        f"a million sentences: {result['million']:.0f} s"
    )
    if result["official"] is not None:
        line += f" (released code, its authors' GPU: {result['official']:.0f} s)"
    return line
