"""ConSERT: two views of a sentence by what is cut from or shuffled in its embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from methods.base import Context, HyperParameters, Method, Refusal, Step, nt_xent, overlay

# "dropout" is of single elements of the embeddings, without rescaling; the backbone's own is a field of the recipe.
AUGMENTATIONS = ("plain", "shuffle", "feature_cutoff", "token_cutoff", "dropout")


@dataclass(frozen=True)
class ConSERTHyper(HyperParameters):
    temperature: float = 0.1  # methods.md b.8
    first: str = "feature_cutoff"  # what makes the first view, one of AUGMENTATIONS
    second: str = "shuffle"  # what makes the second
    rate: float = 0.2  # share that a cutoff or dropout sets to zero, rounded down
    scale: float = 1.0  # of the mean loss; the released code sums two means and takes 0.15 of them


class ConSERT(Method):
    """NT-Xent between two augmented views of the embedding layer's output (methods.md b.8).

    It learns on the unlabelled sentences of the seven STS sets, **the test sets' included** (corpus "sts"), so its
    scores on them compare with no method that has not seen these sentences.

    Token shuffling permutes the position embeddings of a sentence's tokens, the special ones included as in the code.
    A cutoff drops whole features of a sentence or whole tokens, special ones included, and rescales nothing. The
    backbone's own dropout is off on base models; the released large run has it on, and its first view is the plain
    sentence. `paper` takes the mean loss over both directions and has the base augmentations on large models too.
    `official` trains and is clipped at the code's scale of the loss, and trains the mean of the last layer, as the
    code's pooling has it; both are scored, on dev too, by the mean of the last two layers, which is what is printed
    (the code selects by the last layer). Departures: no selection at the end of an epoch, weight decay on all weights.
    """

    name = "consert"
    title = "ConSERT"
    own_corpus_note = "has seen the STS test sentences"
    reference = "Yan et al. 2021, arXiv 2105.11741; code yym6472/ConSERT@03c9e8f"
    Hyper = ConSERTHyper
    _recipe = {
        "corpus": "sts",
        "batch_size": 96,
        "learning_rate": 5e-7,
        "epsilon": 1e-6,
        "bias_correction": False,
        "weight_decay": 0.01,
        "warmup": 0.1,
        "max_length": 64,
        "pooler": "avg_top2",
        "patience": 10,
    }
    _base = {"epochs": 10, "select_every": 200, "dropout": 0.0}
    _large = {"epochs": 25, "select_every": 100}
    paper = {
        "*": {**_recipe, **_base},
        "bert-large-uncased": _large,
        "roberta-large": _large,
    }
    _released = {"first": "plain", "dropout": None}  # of the large runs
    official = overlay(
        paper, {"*": {"pooler": "avg", "scale": 0.3}, "bert-large-uncased": _released, "roberta-large": _released}
    )

    @classmethod
    def check(cls, hyper: ConSERTHyper) -> None:
        if hyper.temperature <= 0:
            raise Refusal(f"'consert' needs temperature > 0, not {hyper.temperature}")
        if not 0 <= hyper.rate < 1:
            raise Refusal(f"'consert' cuts a share of at least 0 and below 1, not {hyper.rate}")
        if hyper.scale <= 0:
            raise Refusal(f"'consert' needs scale > 0, not {hyper.scale}")
        for name in ("first", "second"):
            if getattr(hyper, name) not in AUGMENTATIONS:
                raise Refusal(
                    f"'{name}' of 'consert' is one of {', '.join(AUGMENTATIONS)}, not '{getattr(hyper, name)}'"
                )

    def prepare(self, context: Context) -> None:
        if not hasattr(getattr(context.backbone, "embeddings", None), "position_embeddings"):
            raise Refusal("'consert' augments embeddings as BERT and RoBERTa have them, and this backbone has others")

    def step_loss(self, context: Context, step: Step) -> Tensor:
        corpus = context.tokens()
        tokens = [corpus[row] for row in step.rows]
        names = (self.hyper.first, self.hyper.second)
        generators = [step.generator(f"consert-{place}") for place in range(2)]
        with augmented(context.backbone, [len(row) for row in tokens], names, self.hyper.rate, generators):
            first, second = context.embed([tokens, tokens]).vectors
        return self.loss(first, second)

    def loss(self, first: Tensor, second: Tensor) -> Tensor:
        """Of the vectors (n, d) of both views: each of the 2n finds its other view among 2n - 1 candidates."""
        return self.hyper.scale * nt_xent(first, second, self.hyper.temperature)

    def encoder(self, context: Context) -> Any:
        return context.encoder("avg_top2")


def shuffled(lengths: Sequence[int], padded: int, generator: torch.Generator) -> Tensor:
    """For each sentence an order of its places in which its tokens change theirs: (n, padded)."""
    orders = torch.arange(padded).repeat(len(lengths), 1)
    for row, length in enumerate(lengths):
        orders[row, :length] = torch.randperm(length, generator=generator)
    return orders


def kept(
    name: str, lengths: Sequence[int], padded: int, width: int, rate: float, generator: torch.Generator
) -> Tensor | None:
    """Ones and zeros that cut each sentence's embeddings (n, padded, width) as factors; None where nothing is cut."""
    cuts = {"feature_cutoff": (1, width), "token_cutoff": (padded, 1), "dropout": (padded, width)}
    if name not in cuts:
        return None
    left = torch.ones(len(lengths), *cuts[name])
    for row, length in zip(left, lengths, strict=True):
        elements = row[:length].view(-1)  # padding is not counted, and a feature is one element
        elements[torch.randperm(len(elements), generator=generator)[: int(rate * len(elements))]] = 0
    return left


@contextmanager
def augmented(
    backbone: Any, lengths: Sequence[int], names: Sequence[str], rate: float, generators: Sequence[torch.Generator]
) -> Iterator[None]:
    """Let the backbone's embeddings augment a batch of sentences, each in its views one after the other."""
    count, views = len(lengths), list(zip(names, generators, strict=True))

    def shuffle(module: Any, inputs: Any, positions: Tensor) -> Tensor:
        padded = positions.shape[1]
        orders = torch.arange(padded).repeat(count, len(views), 1)
        for place, (name, generator) in enumerate(views):
            if name == "shuffle":
                orders[:, place] = shuffled(lengths, padded, generator)
        positions = positions.expand(count * len(views), -1, -1)  # BERT gives one row for all sentences
        rows = torch.arange(len(positions), device=positions.device).unsqueeze(1)
        return positions[rows, orders.flatten(0, 1).to(positions.device)]

    def cut(module: Any, inputs: Any, output: Tensor) -> Tensor:
        _, padded, width = output.shape
        augmented = []
        for view, (name, generator) in zip(output.unflatten(0, (count, -1)).unbind(1), views, strict=True):
            left = kept(name, lengths, padded, width, rate, generator)
            augmented.append(view if left is None else view * left.to(view))
        return torch.stack(augmented, dim=1).flatten(0, 1)

    embeddings = backbone.embeddings
    hooks = [embeddings.position_embeddings.register_forward_hook(shuffle), embeddings.register_forward_hook(cut)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
