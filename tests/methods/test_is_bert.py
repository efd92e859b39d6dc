"""IS-BERT against its oracle; its mutations; its Encoder, alone, stored and trained."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import methods.is_bert as module
from bench.models.encoder import TransformerEncoder
from bench.models.load import load_encoder, save_encoder
from methods.base import Shape
from methods.is_bert import ISBERT, LocalFeatures, LocalMean
from tests.methods.outside import (
    BERT,
    HARD,
    TOLERANCE,
    Patch,
    Runs,
    Train,
    disagreement,
    step,
    vectors,
)
from tests.oracles.methods import scalars
from tests.oracles.mutations import Mutation, patched
from tests.oracles.outside import is_bert
from tests.training.test_loop import log_of

WIDTH, CHANNELS, LENGTHS = 3, 2, (3, 5, 1)


def kernels(seed: int = 1) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    shapes = [shape for window in (1, 3, 5) for shape in ((CHANNELS, WIDTH, window), (CHANNELS,))]
    return [
        torch.randn(shape, generator=draw, dtype=torch.float64).float().double() for shape in shapes
    ]


def own(leaves: Sequence[Tensor], lengths: Sequence[int], relu: bool) -> Tensor:
    method = ISBERT(ISBERT.Hyper(channels=CHANNELS, relu=relu), Shape(WIDTH, 2))
    weights = dict(
        zip((name for name, _ in method.local.named_parameters()), leaves[1:], strict=True)
    )
    mask = torch.tensor([[int(k < length) for k in range(max(lengths))] for length in lengths])
    local = method.local

    def features(states: Tensor, mask: Tensor) -> Tensor:
        return torch.func.functional_call(local, weights, (states, mask))

    del method.local
    method.local = features
    return method.loss(leaves[0], mask)


def oracle(leaves: Sequence[Tensor], lengths: Sequence[int], relu: bool) -> Tensor:
    batch = [scalars(states[:length]) for states, length in zip(leaves[0], lengths, strict=True)]
    return is_bert(batch, list(zip(leaves[1::2], leaves[2::2], strict=True)), relu)


def difference(
    kind: str, dtype: torch.dtype, lengths: Sequence[int] = LENGTHS, relu: bool = True
) -> float:
    states = vectors(kind, len(lengths), max(lengths), WIDTH)
    scale = {"large": 10.0, "tiny": 1e-4}.get(kind, 1.0)
    return disagreement(
        lambda leaves: own(leaves, lengths, relu),
        lambda leaves: oracle(leaves, lengths, relu),
        [states, *kernels()],
        dtype,
        floor=1e-6 * scale,
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("kind", ["random", *HARD])
def test_equals_oracle(kind: str, relu: bool, dtype: torch.dtype) -> None:
    assert difference(kind, dtype, relu=relu) < TOLERANCE[dtype]


@pytest.mark.parametrize("lengths", [(4,), (2, 2)])
def test_equals_oracle_in_small_batches(lengths: Sequence[int]) -> None:
    assert difference("random", torch.float64, lengths) < TOLERANCE[torch.float64]


# Mutations


def bound(change: Callable[..., Any]) -> Mutation:
    return patched(module, "jensen_shannon", change)


def other_bound(
    positive: Callable[..., Any] = lambda s: F.softplus(-s),
    negative: Callable[..., Any] = F.softplus,
) -> Mutation:
    """The bound with other functions of the scores."""

    def spoilt(plain: Any, features: Tensor, sentences: Tensor, mask: Tensor) -> Tensor:
        scores = torch.einsum("ild,jd->ilj", features, sentences)
        tokens = mask.unsqueeze(-1).to(scores)
        own = tokens * torch.eye(len(sentences), dtype=scores.dtype).unsqueeze(1)
        pulled, pushed = (positive(scores) * own).sum(), (negative(scores) * (tokens - own)).sum()
        return (pulled + pushed / 2) / tokens.sum()

    return bound(spoilt)


def reading(change: Callable[..., Any]) -> Mutation:
    return patched(LocalFeatures, "forward", change)


MUTATIONS: dict[str, Mutation] = {
    "sign_of_the_positive": other_bound(positive=F.softplus),
    "sign_of_the_negative": other_bound(negative=lambda s: F.softplus(-s)),
    "sentence_detached": bound(lambda plain, c, s, mask: plain(c, s.detach(), mask)),
    "tokens_detached": bound(lambda plain, c, s, mask: plain(c.detach(), s, mask)),
    "sentence_of_the_neighbour": bound(lambda plain, c, s, mask: plain(c, s.roll(1, 0), mask)),
    "cosine_for_product": bound(
        lambda plain, c, s, mask: plain(F.normalize(c, dim=-1), F.normalize(s, dim=-1), mask)),
    "padding_in_the_bound": bound(lambda plain, c, s, mask: plain(c, s, torch.ones_like(mask))),
    "padding_in_the_mean": patched(module, "masked_mean", lambda plain, c, mask: c.mean(1)),
    "first_token_left_out": patched(
        module, "masked_mean",
        lambda plain, c, mask: plain(c, torch.cat([mask[:, :1] ** 0 - 1e-3, mask[:, 1:]], 1))),
    "padding_read_by_the_convolutions": reading(
        lambda plain, self, states, mask: plain(self, states, torch.ones_like(mask))),
    "windows_one_place_further": reading(lambda plain, *given: plain(*given).roll(1, 1)),
    "no_activation": patched(
        LocalFeatures, "__init__",
        lambda plain, self, width, channels, relu: plain(self, width, channels, False)),
    "computed_in_float32": bound(
        lambda plain, c, s, mask: plain(c.float(), s.float(), mask).double()),
}  # fmt: skip


def test_the_bound_of_the_mutations_is_the_true_one_unspoilt(monkeypatch: Patch) -> None:
    other_bound()(None, monkeypatch)
    assert difference("random", torch.float64) < TOLERANCE[torch.float64]


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    MUTATIONS[name](None, monkeypatch)
    assert difference("random", torch.float64) > TOLERANCE[torch.float64]


# The method and its Encoder

SENTENCES = ["a man", "the old dog sees two birds near the river", "", "it is red", "a man"]


def test_a_step_is_the_loss_of_its_sentences_last_layer(runs: Runs) -> None:
    method, context, modules = runs.start("is-bert[channels=1]@paper")
    modules.double().eval()
    rows = [4, 5, 0]
    batch = []
    for row in rows:  # each alone, without padding
        ids = torch.tensor([context.tokens()[row]])
        batch.append(scalars(context.backbone(input_ids=ids).last_hidden_state[0].detach()))
    weights = [tensor.detach() for tensor in method.local.parameters()]
    expected = is_bert(batch, list(zip(weights[::2], weights[1::2], strict=True)), True)
    assert method.step_loss(context, step(0, rows)).item() == pytest.approx(
        expected.item(), rel=1e-9
    )


def test_first_weights_follow_the_seed_alone(runs: Runs) -> None:
    torch.manual_seed(0)
    first = runs.start("is-bert")[0].local.state_dict()
    torch.manual_seed(1)
    again, other = (
        runs.start("is-bert")[0].local.state_dict(),
        runs.resolve("is-bert", seed=2).build(),
    )
    other.local.draw(2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(
        first["convolutions.1.weight"], other.local.state_dict()["convolutions.1.weight"]
    )
    for name, tensor in first.items():
        limit = (32 * (1, 3, 5)[int(name.split(".")[1])]) ** -0.5
        assert 0.9 * limit < tensor.abs().max() <= limit or tensor.dim() == 1


def test_windows_that_pass_their_centre_on_are_mean_pooling(runs: Runs) -> None:
    """Then the local features are the backbone's states, bit for bit."""
    method, context, _ = runs.start("is-bert[relu=false]")
    with torch.no_grad():
        for place, convolution in enumerate(method.local.convolutions):
            nn.init.zeros_(convolution.weight)
            nn.init.zeros_(convolution.bias)
            for channel in range(10):
                convolution.weight[channel, 10 * place + channel, place] = 1
    states, mask = context.states(context.tokenize(SENTENCES))
    features = method.local(states[-1], mask)
    assert torch.equal(features[mask == 1], states[-1][mask == 1][:, :30])
    expected = context.encoder("avg").encode(SENTENCES)[:, :30]
    np.testing.assert_allclose(
        method.encoder(context).encode(SENTENCES), expected, rtol=1e-5, atol=1e-6
    )


def test_a_vector_owes_nothing_to_its_company(runs: Runs) -> None:
    method, context, _ = runs.start("is-bert")
    encoder = method.encoder(context)
    together = encoder.encode(SENTENCES)
    assert together.shape == (len(SENTENCES), 30)
    assert together.dtype == np.float32
    alone = np.concatenate([encoder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-6)
    assert np.array_equal(together[0], together[4])
    assert encoder.encode([]).shape == (0, 30)


def test_the_encoder_comes_back_with_equal_vectors_and_identity(runs: Runs, tmp_path: Path) -> None:
    method, context, _ = runs.start("is-bert@official")
    encoder = method.encoder(context)
    save_encoder(encoder, tmp_path / "encoder")
    back = load_encoder(tmp_path / "encoder")
    assert isinstance(back, LocalMean)
    assert isinstance(back.base, TransformerEncoder)
    assert back.identity == encoder.identity
    assert np.array_equal(back.encode(SENTENCES), encoder.encode(SENTENCES))
    before = encoder.identity
    with torch.no_grad():
        method.local.convolutions[2].bias[0] += 1
    assert encoder.identity != before


@pytest.mark.slow
def test_the_loss_falls(train_tiny: Train, tiny_corpus: Path) -> None:
    log = log_of(train_tiny("is-bert", corpus=str(tiny_corpus), epochs=2))
    assert log[-1]["loss"] < log[0]["loss"]


# What the tests of all methods need to know of this one (`outside.of_methods`).

PUBLISHED = {
    "batch_size": 32, "learning_rate": 2e-6, "epsilon": 1e-7, "warmup": 0.1,
    "bias_correction": False, "weight_decay": 0.01, "select_every": 1000, "corpus": "nli",
    "relu": False, "max_length": 131, "decay_biases": False,
}  # fmt: skip
VALUES: list[tuple[str, str, dict[str, Any]]] = [
    ("is-bert@official", BERT, PUBLISHED),
    ("is-bert@paper", BERT, {**PUBLISHED, "relu": True}),
]  # fmt: skip
OUT_OF_LIMITS = {
    "is-bert": "channels=0 channels=1.5 relu=maybe",
}
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {
    "is-bert": ({"corpus": "tiny", "epochs": 2}, 12),
}
