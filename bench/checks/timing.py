"""How long a published shape trains on this device: random weights, made-up words, the real loop.

Time depends on shapes and lengths alone, so nothing has to be fetched. Sentences have the length of the papers' corpus,
the dev set the size of STS-B's.
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
class Shape:
    """A transformer's shape, and how SimCSE trains it (methods.md a.3).

    Attributes:
        kind: model type.
        official: seconds that the released code took, by its log, on the GPU of its authors; None where none is public.
    """

    kind: str
    width: int
    depth: int
    heads: int
    words: int
    batch: int
    official: float | None = None


# Sizes of the published models. The seconds stand in the released logs of GS-InfoNCE, which trains as SimCSE does with
# a few more negatives, on a million sentences at batch size 64 (methods.md b.15).
SHAPES = {
    "bert-base": Shape("bert", 768, 12, 12, 30_522, 64, 3835),
    "bert-large": Shape("bert", 1024, 24, 16, 30_522, 64, 9226),
    "roberta-base": Shape("roberta", 768, 12, 12, 50_265, 512),
    "roberta-large": Shape("roberta", 1024, 24, 16, 50_265, 512),
    "toy": Shape("bert", 64, 4, 4, 1500, 64),
}
SENTENCES = 1_000_000  # of wiki1m, which the papers train on
DRAWN = (11, 31)  # words of a sentence: 23 tokens in the mean, with the special ones and a cut at 32, as in wiki1m
PAIRS = 1500  # of STS-B's dev set; sentences of these have 13 tokens in the mean
DRAWN_DEV = (5, 17)
EVERY = 125  # steps between two selections (the released script)


def time_shape(name: str, steps: int, device: str) -> dict[str, Any]:
    """Train some steps and say how long a million sentences would take.

    Args:
        name: one of `SHAPES`.
        steps: how many are done: a multiple of 125, so that selection has its share.

    Returns:
        `{"shape", "steps", "batch", "seconds", "million", "official", "work"}`: seconds of these steps, those of a
        million sentences at their rate, and what the training recorded of its work.

    Raises:
        UserError: no such shape, or a number of steps that holds no whole selections.
    """
    from bench.runs.run import resolve
    from bench.training.loop import train

    if name not in SHAPES:
        raise UserError(f"unknown shape '{name}'{did_you_mean(name, SHAPES)}")
    if steps < EVERY or steps % EVERY:
        raise UserError(f"--steps is {steps}; write a multiple of {EVERY}, after which the model is selected")
    shape = SHAPES[name]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        words = [f"w{number}" for number in range(shape.words - 5)]
        draw = random.Random(0)  # noqa: S311 (nothing secret)

        def sentence(low: int, high: int) -> str:
            return " ".join(draw.choices(words, k=draw.randint(low, high)))

        _backbone(shape, words, folder / "backbone")
        write_text(folder / "made-up.txt", "".join(f"{sentence(*DRAWN)}\n" for _ in range(steps * shape.batch)))
        dev = [f"a\tb\tdev\t{row}\t{row % 6}\t{sentence(*DRAWN_DEV)}\t{sentence(*DRAWN_DEV)}\n" for row in range(PAIRS)]
        write_text(folder / "data" / "downstream" / "STS" / "STSBenchmark" / "sts-dev.csv", "".join(dev))
        write_json(folder / "data" / "manifest.json", {"name": "made-up", "sts": {"STS-B": {"dev": PAIRS}}})
        run = resolve(
            "simcse",
            backbone_name=str(folder / "backbone"),
            corpus=str(folder / "made-up.txt"),
            data=str(folder / "data"),
            seed=1,
            recipe={"batch_size": shape.batch, "select_every": EVERY},
        )
        outcome = train(run, folder / "suite", folder / "run", device)["outcome"]
    if outcome["status"] != "finished":
        raise UserError(f"the training of '{name}' ended early: {outcome['reason']}; report this")
    million = outcome["seconds"] * -(-SENTENCES // shape.batch) / steps
    found = {"shape": name, "steps": steps, "batch": shape.batch, "seconds": outcome["seconds"], "million": million}
    return found | {"official": shape.official, "work": outcome["work"]}


def _backbone(shape: Shape, words: list[str], folder: Path) -> None:
    """A transformer with random weights and a tokenizer for which each word is a piece."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 (a word)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
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


def report(found: dict[str, Any]) -> str:
    """One line for the terminal."""
    work = found["work"]
    rate = found["seconds"] / found["steps"]
    line = (
        f"{found['shape']}, batch {found['batch']}: {1000 * rate:.1f} ms a step with selection every {EVERY} steps, "
        f"{work['ratio']:.2f} times the floor; a million sentences: {found['million']:.0f} s"
    )
    return line if found["official"] is None else f"{line} (released code, its authors' GPU: {found['official']:.0f} s)"
