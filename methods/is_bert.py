"""IS-BERT: convolutions on the backbone's last layer; the loss maximises the mutual information of
their mean, the sentence vector, with those of its own tokens
(docs/reference/methods.md#is-bert)."""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.base import (
    Context,
    Count,
    HyperParameters,
    Method,
    Shape,
    Step,
    fingerprint,
    masked_mean,
    stream,
)

WINDOWS = (1, 3, 5)  # kernel sizes of the convolutions (docs/reference/methods.md#is-bert)


class LocalFeatures(nn.Module):
    """Parallel convolutions over token states: (n, length, width) to (n, length, 3 * channels)."""

    def __init__(self, width: int, channels: int, relu: bool) -> None:
        super().__init__()
        self.relu, self.inputs, self.width = relu, width, len(WINDOWS) * channels
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, channels, window, padding=(window - 1) // 2) for window in WINDOWS
        )

    def draw(self, seed: int) -> None:
        """Initialise the weights in torch's default range, from named random streams."""
        for convolution, window in zip(self.convolutions, WINDOWS, strict=True):
            generator, limit = stream(seed, "is-bert", window), (self.inputs * window) ** -0.5
            for weights in convolution.parameters():
                nn.init.uniform_(weights, -limit, limit, generator=generator)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        # From half precision up, never down.
        states = states.to(torch.promote_types(states.dtype, torch.float32))
        # Padding is zero, so that other sentences of the batch have no effect.
        inputs = (states * mask.unsqueeze(-1)).transpose(1, 2)
        convolved = [convolution(inputs) for convolution in self.convolutions]
        features = torch.cat(convolved, dim=1).transpose(1, 2)
        return features.relu() if self.relu else features


def jensen_shannon(features: Tensor, sentences: Tensor, mask: Tensor) -> Tensor:
    """Return minus the Jensen-Shannon bound of the mutual information of features (n, length, d)
    and sentences (n, d), up to a constant. With s the dot product, it is the mean of softplus(-s)
    over tokens and their sentence, plus the mean of softplus(s) over tokens and other sentences."""
    count = len(sentences)
    scores = torch.einsum("ild,jd->ilj", features, sentences)
    tokens = mask.unsqueeze(-1).to(scores)
    joint = tokens * torch.eye(count, dtype=scores.dtype, device=scores.device).unsqueeze(1)
    loss = (F.softplus(-scores) * joint).sum() / tokens.sum()
    if count > 1:  # a batch of one has no other sentences
        loss = loss + (F.softplus(scores) * (tokens - joint)).sum() / (tokens.sum() * (count - 1))
    return loss


class LocalMean:
    """An Encoder: the mean of the local features over the token states of its `base`."""

    kind = "is-bert"

    def __init__(self, base: Any, local: LocalFeatures) -> None:
        self.base, self.local, self.arrays = base, local, local.state_dict()

    @property
    def identity(self) -> str:
        return fingerprint(self.kind, f"{self.base.identity} {self.local.relu}", self.arrays)

    def encode(self, sentences: Sequence[str]) -> Any:
        def pool(states: Sequence[Tensor], mask: Tensor) -> Tensor:
            return masked_mean(self.local(states[-1], mask), mask)

        tokens = self.base.tokenize(sentences)
        return self.base.encode_tokens(tokens, pool=pool, width=self.local.width)

    def save(self, folder: Any) -> dict[str, Any]:
        return {"relu": self.local.relu}

    @classmethod
    def load(cls, folder: Any, stored: Any, *, base: Any, arrays: Any, device: str = "cpu") -> Self:
        channels, width, _ = arrays["convolutions.0.weight"].shape
        local = LocalFeatures(width, channels, stored["relu"])
        local.load_state_dict(arrays)
        return cls(base, local.to(device))


class ISBERT(Method):
    """Mutual information of a sentence and its tokens."""

    name = "is-bert"
    title = "IS-BERT"
    reference = "Zhang et al. 2020, arXiv 2009.12061; code yanzhangnlp/IS-BERT@ea6622c"
    version = 2  # no decay of biases and layer norms; 131 word pieces

    class Hyper(HyperParameters):
        # Code: 256 of 768.
        channels: Count | None = None
        """per convolution; none: width / 3"""
        # The paper's f is ReLU; the code's convolutions have no activation.
        relu: bool = True
        """ReLU after the convolutions"""

    # The released script and the defaults of its library (docs/reference/methods.md#is-bert),
    # assumed for the paper's STS runs.
    _recipe = {
        "corpus": "nli",
        "batch_size": 32,
        "learning_rate": 2e-6,
        "epsilon": 1e-7,
        "bias_correction": False,
        "weight_decay": 0.01,
        "decay_biases": False,
        "warmup": 0.1,
        "max_length": 131,  # 128 and the 3 that the library adds
        "pooler": "avg",  # no training head; the method does not use `embed`
        "precision": "float32",
        "select_every": 1000,
    }
    paper = {"*": _recipe}
    official = {"*": {**_recipe, "relu": False}}

    def __init__(self, hyper: Hyper, shape: Shape) -> None:
        super().__init__(hyper, shape)
        channels = hyper.channels or shape.width // len(WINDOWS)
        self.local = LocalFeatures(shape.width, channels, hyper.relu)

    def prepare(self, context: Context) -> None:
        self.local.draw(context.seed)

    def step_loss(self, context: Context, step: Step) -> Tensor:
        states, mask = context.states(step.take(context.tokens()))
        return self.loss(context.apply(self.local, states[-1], mask), mask)

    def loss(self, features: Tensor, mask: Tensor) -> Tensor:
        """Return the loss of local features (n, length, width) and their mask."""
        return jensen_shannon(features, masked_mean(features, mask), mask)

    def encoder(self, context: Context) -> LocalMean:
        return LocalMean(context.encoder(), self.local)
