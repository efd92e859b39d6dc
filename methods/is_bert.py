"""IS-BERT: local features of tokens that tell their own sentence from others."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.base import Context, HyperParameters, Method, Refusal, Shape, Step, stream

WINDOWS = (1, 3, 5)  # widths of the convolutions (methods.md b.6)


@dataclass(frozen=True)
class ISBERTHyper(HyperParameters):
    channels: int | None = None  # of each convolution; None: a third of the backbone's width, the code's 256 of 768
    relu: bool = True  # the paper's f is ReLU; the convolutions of the code's library have no activation


class LocalFeatures(nn.Module):
    """The parallel convolutions over token states, concatenated: (n, length, width) -> (n, length, 3 x channels)."""

    def __init__(self, width: int, channels: int, relu: bool) -> None:
        super().__init__()
        self.relu, self.inputs, self.width = relu, width, len(WINDOWS) * channels
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, channels, window, padding=(window - 1) // 2) for window in WINDOWS
        )

    def draw(self, seed: int) -> None:
        """First weights: torch's usual range of a convolution, from a stream of their own."""
        for convolution, window in zip(self.convolutions, WINDOWS, strict=True):
            generator, limit = stream(seed, "is-bert", window), (self.inputs * window) ** -0.5
            for weights in convolution.parameters():
                nn.init.uniform_(weights, -limit, limit, generator=generator)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Padding counts as zero, so a sentence's features owe nothing to the length of its neighbours."""
        states = states.to(torch.promote_types(states.dtype, torch.float32))  # up from half precision, never down
        inputs = (states * mask.unsqueeze(-1)).transpose(1, 2)
        features = torch.cat([convolution(inputs) for convolution in self.convolutions], dim=1).transpose(1, 2)
        return features.relu() if self.relu else features


def sentence_mean(features: Tensor, mask: Tensor) -> Tensor:
    """Mean over a sentence's tokens, the special ones included."""
    weights = mask.unsqueeze(-1).to(features)
    return (features * weights).sum(1) / weights.sum(1)


def jensen_shannon(features: Tensor, sentences: Tensor, mask: Tensor) -> Tensor:
    """-MI up to a constant: mean softplus(-s) over tokens with their own sentence + mean softplus(s) with the others.

    Args:
        features: (n, length, d); sentences: (n, d); s is their dot product.
        mask: (n, length), 1 at tokens.
    """
    count = len(sentences)
    scores = torch.einsum("ild,jd->ilj", features, sentences)
    tokens = mask.unsqueeze(-1).to(scores)
    own = tokens * torch.eye(count, dtype=scores.dtype, device=scores.device).unsqueeze(1)
    loss = (F.softplus(-scores) * own).sum() / tokens.sum()
    if count > 1:  # a sentence alone has nothing to be told from
        loss = loss + (F.softplus(scores) * (tokens - own)).sum() / (tokens.sum() * (count - 1))
    return loss


class LocalMean:
    """An Encoder: the mean of the local features over the token states of another one, its `base`."""

    kind = "is-bert"

    def __init__(self, base: Any, local: LocalFeatures) -> None:
        self.base, self.local = base, local

    @property
    def arrays(self) -> dict[str, Tensor]:
        """The convolutions' weights, which are stored with it."""
        return {name: weights.cpu() for name, weights in sorted(self.local.state_dict().items())}

    @property
    def identity(self) -> str:
        digest = hashlib.sha256(f"{self.base.identity} {self.local.relu}".encode())
        for name, weights in self.arrays.items():
            digest.update(name.encode() + weights.numpy().tobytes())
        return f"{self.kind}-{digest.hexdigest()[:16]}"

    def encode(self, sentences: Sequence[str], **_: Any) -> np.ndarray:
        def pool(states: Sequence[Tensor], mask: Tensor) -> Tensor:
            return sentence_mean(self.local(states[-1], mask), mask)

        return self.base.encode_tokens(self.base.tokenize(sentences), pool=pool, width=self.local.width)

    def save(self, folder: Path) -> dict[str, Any]:
        return {"relu": self.local.relu}

    @classmethod
    def load(
        cls, folder: Path, stored: dict[str, Any], *, base: Any, arrays: dict[str, Tensor], device: str = "cpu"
    ) -> LocalMean:
        channels, width, _ = arrays["convolutions.0.weight"].shape
        local = LocalFeatures(width, channels, stored["relu"])
        local.load_state_dict(arrays)
        return cls(base, local.to(device))


class ISBERT(Method):
    """Convolutions on the backbone's last layer; their mean is the sentence vector (methods.md b.6).

    Learns by mutual information: a token's features are told from those of the batch's other sentences by the sentence
    vector, through the dot product and the Jensen-Shannon bound. What is scored carries the convolutions.

    `paper` has ReLU as its formula does; `official` none, as the released script takes its convolutions from
    Sentence-Transformers. Special tokens are tokens like others, in the bound and in the mean, as in the code; a third
    of a width that is no whole number is rounded down. Departures: padding is zero for the convolutions (the code's
    read what the backbone makes of padding, so its vectors depend on the other sentences of a batch); weight decay is
    on all weights.
    """

    name = "is-bert"
    title = "IS-BERT"
    reference = "Zhang et al. 2020, arXiv 2009.12061; code yanzhangnlp/IS-BERT@ea6622c"
    Hyper = ISBERTHyper
    # The released script and the defaults of its library (methods.md b.6); the paper's STS runs are taken to have them.
    _recipe = {
        "corpus": "nli",
        "batch_size": 32,
        "learning_rate": 2e-6,
        "epsilon": 1e-7,
        "bias_correction": False,
        "weight_decay": 0.01,
        "warmup": 0.1,
        "max_length": 128,
        "pooler": "avg",  # of the vectors of `embed`, which this method does without: no training head
        "precision": "float32",
        "select_every": 1000,
    }
    paper = {"*": _recipe}
    official = {"*": {**_recipe, "relu": False}}

    def __init__(self, hyper: ISBERTHyper, shape: Shape) -> None:
        super().__init__(hyper, shape)
        self.local = LocalFeatures(shape.width, hyper.channels or shape.width // len(WINDOWS), hyper.relu)

    @classmethod
    def check(cls, hyper: ISBERTHyper) -> None:
        if hyper.channels is not None and hyper.channels < 1:
            raise Refusal(f"'is-bert' needs at least 1 channel, not {hyper.channels}")

    def prepare(self, context: Context) -> None:
        self.local.draw(context.seed)

    def step_loss(self, context: Context, step: Step) -> Tensor:
        tokens = context.tokens()
        states, mask = context.states([tokens[row] for row in step.rows])
        return self.loss(states[-1], mask)

    def loss(self, states: Tensor, mask: Tensor) -> Tensor:
        """Of the last layer's states (n, length, width) and their attention mask (n, length)."""
        features = self.local(states, mask)
        return jensen_shannon(features, sentence_mean(features, mask), mask)

    def encoder(self, context: Context) -> LocalMean:
        return LocalMean(context.encoder(), self.local)
