"""Skip-thought equals its printed equations in loss and gradient; its vectors, its training."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from methods.base import Refusal, Shape, Step
from methods.skip_thought import SkipThought
from tests.oracles import skip_thought as oracle
from tests.oracles.edits import Mutation, each, edits
from tests.support.method_cases import difference, gradients
from tests.support.method_runs import stored

# Where decoders see the sentence, and the place of the reset gate.
PAPER, OFFICIAL = ("every", "before"), ("first", "after")
SETTINGS = [PAPER, OFFICIAL, ("every", "after"), ("first", "before")]
# Two documents; the fourth sentence is empty, and neither "cat" nor the parts of "it's" but "it"
# are frequent.
RANDOM = ["A dog runs", "a cat , it runs", "It's a dog!", " ", "runs", "dog dog a"]
RANDOM += ["a", "runs runs", "X_1"]
TEXTS = {
    "random": RANDOM,
    "near-duplicates": ["a dog runs"] * 8 + ["a dog run"],
    "one word": ["a", "dog", "runs", "it", "a", "a", "dog", "dog", "runs"],
    "empty": [" "] * 9,
}
DOCUMENTS = [range(0, 6), range(6, 9)]


def context_of(texts):
    sentences, documents = lambda corpus=None: texts, lambda: DOCUMENTS
    return SimpleNamespace(
        seed=3, device="cpu", sentences=sentences, documents=documents,
        apply=lambda module, *inputs: module(*inputs),
    )  # fmt: skip


def prepared(texts, **hyper):
    method = SkipThought(SkipThought.Hyper(vocabulary=8, **hyper), Shape(0, 0))
    method.prepare(context_of(texts))
    return method


def make(condition, reset, kind="random", dtype=torch.float64):
    method = prepared(TEXTS[kind], units=3, width=2, condition=condition, reset=reset)
    draw = torch.Generator().manual_seed(5)
    # At 4 gates are shut or wide open.
    scale = 4.0 if kind == "one word" else 0.5
    with torch.no_grad():
        for weight in method.parameters():  # float32's numbers, larger than first weights are
            weight.copy_(torch.randn(weight.shape, generator=draw) * scale)
    return method.to(dtype)


@cache
def expected(condition, reset, kind):
    method = make(condition, reset, kind)
    rows = [oracle.numbers(text, method.words) for text in TEXTS[kind]]
    triples = [rows[i - 1 : i + 2] for i in (1, 2, 3, 4, 7)]
    weights = dict(method.named_parameters())
    loss = oracle.loss(weights, triples, condition == "every", reset == "after")
    return gradients(loss, list(weights.values()))


# Of gradients that vanish behind shut gates rounding alone decides the digits.
FLOORS = {torch.float64: 1e-3, torch.float32: 0.05}


def disagreement(method, wanted):
    """The largest difference, relative to the loss and to the largest entry of each gradient."""
    count, weights = method.items(None), list(method.parameters())
    result = gradients(
        method.step_loss(context_of([]), Step(0, 1, count, 3, range(count))), weights
    )
    return difference(result, wanted, weights, FLOORS[result[0].dtype], lambda weight: 1.0)


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("setting", SETTINGS, ids="-".join)
def test_equals_oracle(setting, kind):
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 1e-4)):
        result = disagreement(make(*setting, kind, dtype), expected(*setting, kind))
        assert result < tolerance, dtype


MUTATIONS: dict[str, Mutation] = {
    **edits("methods.skip_thought:GRU.forward", {
        "reset_on_the_other_side": ("'before'", "'after'"),
    }),
    **edits("methods.skip_thought:Decoders.loss", {
        "another_end_mark": ("[*row, END]", "[*row, 1]"),
    }),
    **edits("methods.skip_thought:Decoders.logits", {
        "sentence_detached": (
            "gru(torch.cat([start, words], dim=1), sentences)",
            "gru(torch.cat([start, words], dim=1), sentences.detach())"),
    }),
    **edits("methods.skip_thought:Reader.embed", {
        "words_detached": (
            "F.embedding(ids, self.embedding)", "F.embedding(ids, self.embedding).detach()"),
    }),
    **edits("methods.skip_thought:Reader.forward", {
        "state_before_the_last_word": (
            "_pad(rows, self.embedding.device)",
            "_pad([row[:-1] for row in rows], self.embedding.device)"),
        "state_behind_the_padding": (
            "states[torch.arange(len(rows), device=ids.device), (lengths - 1).clamp(min=0)]",
            "states[:, -1]"),
    }),
}  # fmt: skip


@each(MUTATIONS)
def test_a_mistake_is_caught(mutation, monkeypatch):
    wanted = expected(*PAPER, "random")
    mutation.apply(monkeypatch)
    assert disagreement(make(*PAPER), wanted) > 1e-4


def test_first_weights():
    method = prepared(RANDOM, units=16, width=8)
    for name, weight in method.named_parameters():
        if name.endswith("bias"):
            assert not weight.any()
        elif name.endswith(("gates", "candidate")):
            for square in weight.detach().chunk(len(weight) // 16):
                torch.testing.assert_close(square @ square.T, torch.eye(16), rtol=0, atol=1e-5)
        else:
            assert 0.08 < weight.abs().max() <= 0.1
    draws = [weight.flatten()[0].item() for weight in method.parameters() if weight.any()]
    assert len(set(draws)) == len(draws)  # each has a stream of its own


def test_vocabulary_and_triples():
    method = make(*PAPER)
    # By frequency, then by the alphabet.
    assert method.words == ["a", "runs", "dog", "it", "!", "'"]
    assert method.centres == [1, 2, 3, 4, 7]
    # Those around "a cat , it runs" and "It's a dog!", of five and six words, are left out.
    assert prepared(RANDOM, units=2, width=2, longest=5).centres == [4, 7]
    with pytest.raises(Refusal, match="three consecutive sentences of fewer than 2 words"):
        prepared(RANDOM, units=2, width=2, longest=2)


@pytest.mark.parametrize("setting", [PAPER, OFFICIAL], ids=["paper", "official"])
def test_a_vector_owes_nothing_to_its_company_and_is_stored(setting, tmp_path):
    method = make(*setting, dtype=torch.float32)
    encoder = method.encoder(None)
    texts = ["a dog runs", "", "runs", "a dog runs , it runs", "unheard of"]
    vectors = encoder.encode(texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 0, 1, 1, 1], rtol=1e-6)
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    np.testing.assert_allclose(alone, vectors, atol=1e-6)
    loaded = stored(encoder, tmp_path / "encoder", texts)
    method.reader.gru.bias.data[0] += 1
    assert method.encoder(None).identity != loaded.identity


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

VALUES = [
    ("skip-thought@paper", "toy-bert", {"batch_size": 128, "clip": 10.0, "backbone": "none"}),
    ("skip-thought@official", "toy-bert", {"batch_size": 64, "clip": 5.0, "backbone": "none"}),
]
OUT_OF_LIMITS = {
    "skip-thought": "units=0 width=0 vocabulary=2 longest=1 condition=never reset=never",
}
