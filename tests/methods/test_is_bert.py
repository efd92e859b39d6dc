"""IS-BERT against its oracle; its Encoder, alone and stored."""

import numpy as np
import pytest
import torch
from torch import nn

from methods.base import Shape
from methods.is_bert import ISBERT
from tests.oracles.outside import is_bert
from tests.support.method_runs import BERT, HARD, TOLERANCE, disagreement, step, stored, vectors

WIDTH, CHANNELS, LENGTHS = 3, 2, (3, 5, 1)


def difference(kind, dtype, lengths=LENGTHS, relu=True):
    mask = torch.tensor([[int(k < length) for k in range(max(lengths))] for length in lengths])
    leaves = [vectors(kind, len(lengths), max(lengths), WIDTH)]
    for window in (1, 3, 5):
        leaves += [vectors("random", CHANNELS, WIDTH, window, seed=window)]
        leaves += [vectors("random", CHANNELS, seed=10 * window)]

    def ours(leaves):
        method = ISBERT(ISBERT.Hyper(channels=CHANNELS, relu=relu), Shape(WIDTH, 2))
        for place, convolution in enumerate(method.local.convolutions):
            del convolution.weight, convolution.bias
            convolution.weight, convolution.bias = leaves[1 + 2 * place : 3 + 2 * place]
        return method.loss(method.local(leaves[0], mask), mask)

    def oracle(leaves):
        rows = zip(leaves[0], lengths, strict=True)
        batch = [states[:length] for states, length in rows]
        return is_bert(batch, list(zip(leaves[1::2], leaves[2::2], strict=True)), relu)

    floor = 1e-6 * {"large": 10.0, "tiny": 1e-4}.get(kind, 1.0)
    return disagreement(ours, oracle, leaves, dtype, floor)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("kind", ["random", *HARD])
def test_equals_oracle(kind, relu, dtype):
    assert difference(kind, dtype, relu=relu) < TOLERANCE[dtype]


@pytest.mark.parametrize("lengths", [(4,), (2, 2)])
def test_equals_oracle_in_small_batches(lengths):
    assert difference("random", torch.float64, lengths) < TOLERANCE[torch.float64]


# The method and its Encoder

SENTENCES = ["a man", "the old dog sees two birds near the river", "", "it is red", "a man"]


def test_a_step_is_the_loss_of_its_sentences_last_layer(runs):
    method, context = runs.exact("is-bert[channels=1]@paper")
    rows, batch = [4, 5, 0], []
    for row in rows:  # each alone, without padding
        ids = torch.tensor([context.tokens()[row]])
        batch.append(context.backbone(input_ids=ids).last_hidden_state[0].detach())
    weights = [tensor.detach() for tensor in method.local.parameters()]
    expected = is_bert(batch, list(zip(weights[::2], weights[1::2], strict=True)), True)
    loss = method.step_loss(context, step(0, rows))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-9)


def test_first_weights_are_uniform(runs):
    for convolution in runs.start("is-bert")[0].local.convolutions:
        limit = convolution.weight[0].numel() ** -0.5
        assert 0.9 * limit < convolution.weight.abs().max() <= limit


def test_windows_that_pass_their_centre_on_are_mean_pooling(runs):
    method, context, _ = runs.start("is-bert[relu=false]")
    with torch.no_grad():
        for place, convolution in enumerate(method.local.convolutions):
            nn.init.zeros_(convolution.weight)
            nn.init.zeros_(convolution.bias)
            for channel in range(10):
                convolution.weight[channel, 10 * place + channel, place] = 1
    result = method.encoder(context).encode(SENTENCES)
    expected = context.encoder("avg").encode(SENTENCES)[:, :30]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_a_vector_owes_nothing_to_its_company_and_is_stored(runs, tmp_path):
    method, context, _ = runs.start("is-bert@official")
    encoder = method.encoder(context)
    together = encoder.encode(SENTENCES)
    alone = np.concatenate([encoder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-6)
    back = stored(encoder, tmp_path / "encoder", SENTENCES)
    with torch.no_grad():
        method.local.convolutions[2].bias[0] += 1
    assert encoder.identity != back.identity


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

PUBLISHED = {
    "batch_size": 32, "learning_rate": 2e-6, "epsilon": 1e-7, "warmup": 0.1,
    "bias_correction": False, "weight_decay": 0.01, "select_every": 1000, "corpus": "nli",
    "max_length": 131, "decay_biases": False,
}  # fmt: skip
VALUES = [
    ("is-bert@official", BERT, PUBLISHED),
    ("is-bert@paper", BERT, PUBLISHED),
]
OUT_OF_LIMITS = {
    "is-bert": "channels=0 channels=1.5 relu=maybe",
}
