"""Training time of published shapes on this device: random weights, generated words, the real loop.

Time depends only on shapes and lengths, so nothing is downloaded. Sentences have the lengths of the
papers' corpus, and the dev set has the size of STS-B's. Checkpoints and the log are left out.
"""

from __future__ import annotations

import gc
import random
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from bench.models.float32 import ELSEWHERE, float32_products
from bench.models.fused_graphs import VARIABLE
from bench.runs.run import Run
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import write_json, write_text

if TYPE_CHECKING:
    from bench.training.loop import Training


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
    goal: float | None = None  # seconds on an H200 (docs/performance.md#on-a-gpu)
    precision: str = "mixed"


# Sizes of the published models. The seconds are from the released logs of GS-InfoNCE, which trains
# like SimCSE with a few more negatives, on a million sentences at batch size 64
# (docs/methods.md#gs-infonce).
SHAPES = {
    "bert-base": PublishedShape("bert", 768, 12, 12, 30_522, 64, 3835, 105),
    "bert-base-float32": PublishedShape("bert", 768, 12, 12, 30_522, 64, precision="float32"),
    "bert-large": PublishedShape("bert", 1024, 24, 16, 30_522, 64, 9226, 360),
    "roberta-base": PublishedShape("roberta", 768, 12, 12, 50_265, 512, goal=66),
    "roberta-large": PublishedShape("roberta", 1024, 24, 16, 50_265, 512),
    "toy": PublishedShape("bert", 64, 4, 4, 1500, 64),
}
SENTENCES = 1_000_000  # size of wiki1m, the papers' training corpus
# Words per sentence: 23 tokens on average, with special tokens and a cut at 32, as in wiki1m.
DRAWN = (11, 31)
PAIRS = 1500  # size of STS-B's dev set, whose sentences have 13 tokens on average
DRAWN_DEV = (5, 17)
EVERY = 125  # steps between two selections (the released script)
ENCODED = 20_000  # sentences of the corpus that are encoded as for scores, at most


class Clock:
    """Seconds of the parts of a job, one after the other, on a device that computes on its own."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.seconds: defaultdict[str, float] = defaultdict(float)
        if device != "cpu":
            gc.collect()  # memory that only cycles hold
            torch.cuda.reset_peak_memory_stats(device)
        self._last = time.perf_counter()

    def end(self, part: str) -> float:
        """Wait for the device; the seconds since the last call are those of `part`."""
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)
        now = time.perf_counter()
        taken, self._last = now - self._last, now
        self.seconds[part] += taken
        return taken

    @property
    def memory(self) -> int | None:
        """Most bytes of a GPU that tensors held at once, since the start."""
        return None if self.device == "cpu" else torch.cuda.max_memory_allocated(self.device)


def find_shape(name: str) -> PublishedShape:
    """A shape of `SHAPES`; `UserError` if there is none of this name."""
    if name not in SHAPES:
        raise UserError(f"unknown shape '{name}'{did_you_mean(name, SHAPES)}")
    return SHAPES[name]


def time_shape(
    name: str,
    shape: PublishedShape,
    steps: int,
    device: str,
    *,
    every: int = EVERY,
    pairs: int = PAIRS,
) -> dict[str, Any]:
    """Train for some steps, after a warm-up, and extrapolate to a million sentences.

    Args:
        name: of the shape.
        shape: of the model, with its batch size.
        steps: a multiple of `every`. The warm-up has `every` more, which are not timed.
        device: torch device.
        every: steps between two selections.
        pairs: of the dev set.

    Returns:
        What was trained ("shape", "width", "depth", "batch", "precision", "steps"); "seconds" of
        the "start", of a "step", of a "selection" and of the "end", which saves the encoder;
        "host", seconds in which the host launches a step; "million", seconds of a million
        sentences, with "official" and "goal"; "encoding", as for scores, in sentences and FLOP a
        second; "memory" of the GPU in bytes; "work".

    Raises:
        UserError: `steps` is not a multiple of `every`, or the training ended early.
    """
    if steps < every or steps % every:
        told = f"write a multiple of {every}, the steps between two selections"
        raise UserError(f"--steps is {steps}; {told}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _write_inputs(shape, steps, pairs, folder)
        # At first, CUDA loads its kernels, torch reserves memory, and the corpus is tokenized.
        for part, count in (("warm-up", every), ("run", steps)):
            run = _run_on(shape, folder, select_every=every, sentences=count * shape.batch)
            timed = _train(run, folder / "suite", folder / part, device)
    counts = {"start": 1, "step": steps, "selection": steps // every, "end": 1}
    seconds = {part: timed["seconds"][part] / count for part, count in counts.items()}
    of_million = -(-SENTENCES // shape.batch)
    counts |= {"step": of_million, "selection": of_million // every}
    names = ("width", "depth", "batch", "precision", "official", "goal")
    return {
        "shape": name,
        **{key: getattr(shape, key) for key in names},
        "steps": steps,
        "seconds": seconds,
        "million": sum(seconds[part] * count for part, count in counts.items()),
        **{key: timed[key] for key in ("host", "encoding", "memory", "work")},
    }


def compare_graphs(
    name: str, shape: PublishedShape, steps: int, device: str, *, pairs: int = PAIRS
) -> dict[str, Any]:
    """Train for some steps without CUDA graphs and with them, and time the latter half.

    Returns:
        What was trained ("shape", "batch", "precision", "steps"); "replays", steps that graphs
        computed; "seconds" of a step "without" and "with" graphs.

    Raises:
        UserError: the losses differ in any bit, no step was computed by a graph, or the training
            ended early.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _write_inputs(shape, steps + 1, pairs, folder)
        run = _run_on(shape, folder, select_every=2 * steps)  # none is due in these steps
        plain, plain_losses, _ = _half_timed(run, folder, steps, device, graphs=False)
        seconds, losses, replays = _half_timed(run, folder, steps, device, graphs=True)
    for step, (own, expected) in enumerate(zip(losses, plain_losses, strict=True), 1):
        if own != expected:
            told = f"the loss of step {step} is {own} with CUDA graphs and {expected} without"
            raise UserError(f"{told}; train with {VARIABLE}=0")
    if not replays:
        raise UserError(f"no step of {steps} was computed by a CUDA graph")
    described = {"shape": name, "batch": shape.batch, "precision": shape.precision}
    described |= {"steps": steps, "replays": replays}
    return described | {"seconds": {"without": plain, "with": seconds}}


def _half_timed(
    run: Run, folder: Path, steps: int, device: str, *, graphs: bool
) -> tuple[float, list[float], int]:
    """Seconds of a step in the latter half, all losses, and how many steps graphs computed."""
    from bench.training.context import RunContext
    from bench.training.loop import Training, training_settings

    with training_settings(run):
        context = RunContext(run, folder / "suite", device, graphs=graphs)
        training, clock, losses = Training(run, context, {}), Clock(device), list[float]()
        for step, batch in enumerate(islice(training.batches(), steps), 1):
            training.step(batch)
            if step in (steps // 2, steps):
                seconds = clock.end("half")
                losses += [row["loss"] for row in _read(training)]
                clock.end("losses")
    return seconds / (steps - steps // 2), losses, context.replays


def _run_on(shape: PublishedShape, folder: Path, **recipe: Any) -> Run:
    """SimCSE on the inputs that `_write_inputs` wrote."""
    from bench.runs.resolve import resolve

    recipe |= {"batch_size": shape.batch, "precision": shape.precision}
    backbone, corpus, data = (str(folder / name) for name in ("backbone", "made-up.txt", "data"))
    return resolve(
        "simcse", backbone_name=backbone, corpus=corpus, data=data, seed=1, recipe=recipe
    )


def _read(training: Training) -> list[dict[str, Any]]:
    """The log rows of a training since the last call; `UserError` if it diverged."""
    from bench.training.loop import Diverged

    try:
        return list(training.sync())
    except Diverged as diverged:
        raise UserError(f"the training ended early: {diverged}; report this") from None


def _train(run: Run, suite: Path, folder: Path, device: str) -> dict[str, Any]:
    """Train as `bench.training.loop.train` does, and encode; the seconds of each part."""
    from bench.training.context import RunContext
    from bench.training.loop import Training, training_settings

    RunContext(run, suite, "cpu").tokens()  # once a suite, and no part of the time
    clock = Clock(device)
    with training_settings(run):
        context = RunContext(run, suite, device)
        training = Training(run, context, {})
        clock.end("start")
        launched, alone = [], True
        for batch in training.batches():
            began = time.perf_counter()
            training.step(batch)
            if alone:  # later ones may wait until the device has room for more launches
                launched.append(time.perf_counter() - began)
            if not (alone := training.should_sync()):
                continue
            clock.end("step")
            rows = _read(training)
            clock.end("selection" if "dev" in rows[-1] else "step")
        work = training.finish(folder)["work"]
        clock.end("end")
    memory = clock.memory
    texts = list(context.sentences()[:ENCODED])
    context.remember(texts)  # a suite tokenizes them once
    before = context.work.selection
    clock.end("tokenize")
    with float32_products(ELSEWHERE):
        training.method.encoder(context).encode(texts)
    seconds = clock.end("encode")
    rates = {
        "sentences": len(texts) / seconds,
        "flops": (context.work.selection - before) / seconds,
    }
    host = sum(launched) / len(launched)
    measured = {"seconds": clock.seconds, "host": host, "memory": memory}
    return measured | {"encoding": rates, "work": work}


def _write_inputs(shape: PublishedShape, steps: int, pairs: int, folder: Path) -> None:
    """Write a backbone, a corpus of `steps` batches, and a data folder with a dev set."""
    words = [f"w{number}" for number in range(shape.words - 5)]
    draw, data = random.Random(0), folder / "data"  # noqa: S311 (nothing secret)

    def sentence(low: int, high: int) -> str:
        return " ".join(draw.choices(words, k=draw.randint(low, high)))

    _write_backbone(shape, words, folder / "backbone")
    corpus = "".join(f"{sentence(*DRAWN)}\n" for _ in range(steps * shape.batch))
    write_text(folder / "made-up.txt", corpus)
    dev = [
        f"a\tb\tdev\t{row}\t{row % 6}\t{sentence(*DRAWN_DEV)}\t{sentence(*DRAWN_DEV)}\n"
        for row in range(pairs)
    ]
    write_text(data / "downstream" / "STS" / "STSBenchmark" / "sts-dev.csv", "".join(dev))
    write_json(data / "manifest.json", {"name": "made-up", "sts": {"STS-B": {"dev": pairs}}})


def _write_backbone(shape: PublishedShape, words: list[str], folder: Path) -> None:
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
    parts = result["seconds"]
    line = (
        f"{result['shape']}, batch {result['batch']}: {1000 * parts['step']:.1f} ms a step, "
        f"{parts['selection']:.2f} s a selection, {result['work']['ratio']:.2f} times the floor; "
        f"a million sentences: {result['million']:.0f} s"
    )
    if result["official"] is not None:
        line += f" (released code, its authors' GPU: {result['official']:.0f} s)"
    return line
