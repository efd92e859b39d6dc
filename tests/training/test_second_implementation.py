"""Three steps of the training loop equal a second implementation of SimCSE, written from its
description."""

import hashlib
import math

import pytest
import torch
from safetensors.torch import load_file

from bench.datasets.corpora import read_sentences
from bench.models.transformer import load_backbone
from tests.support.outcomes import log_of, weights_of
from tests.support.tiny_backbones import WIDTH


def named_seed(*names):
    digest = hashlib.sha256("/".join(map(str, names)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def reference_simcse(folder, lines, *, seed, size, rate, clip, decay, temperature):
    """SimCSE without dropout as docs/reference/training.md#shared-recipe describes it, in float64;
    no optimiser, scheduler or loss is a library's.

    Returns:
        Weights after the last step, and loss and gradient norm of every step.
    """
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, add_pooling_layer=False).eval().double()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    width = model.config.hidden_size
    draw = torch.Generator().manual_seed(named_seed(seed, "head"))
    dense = 0.02 * torch.randn(width, width, generator=draw, dtype=torch.float64)
    bias = torch.zeros(width, dtype=torch.float64)
    weights = [*model.parameters(), dense.requires_grad_(), bias.requires_grad_()]
    means, squares = [torch.zeros_like(w) for w in weights], [torch.zeros_like(w) for w in weights]
    draw.manual_seed(named_seed(seed, "order", 0))
    order = torch.randperm(len(lines), generator=draw).tolist()
    total = math.ceil(len(lines) / size)
    losses, norms = [], []
    for step in range(total):
        texts = [lines[i] for i in order[step * size : (step + 1) * size]]
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        ids, mask = batch["input_ids"], batch["attention_mask"]
        states = model(input_ids=ids, attention_mask=mask).last_hidden_state
        z = torch.tanh(states[:, 0] @ dense.T + bias)  # both views: without dropout they are equal
        lengths = (z * z).sum(1).sqrt()
        cosines = (z @ z.T) / (lengths[:, None] * lengths[None, :])
        powers = (cosines / temperature).exp()
        loss = -(powers.diagonal() / powers.sum(1)).log().mean()
        gradients = torch.autograd.grad(loss, weights)
        norm = sum(float((g.double() ** 2).sum()) for g in gradients) ** 0.5
        scale = min(1.0, clip / (norm + 1e-6))
        now = rate * (1 - step / total)
        with torch.no_grad():
            for w, g, m, v in zip(weights, gradients, means, squares, strict=True):
                g = g * scale
                m.copy_(0.9 * m + 0.1 * g)
                v.copy_(0.999 * v + 0.001 * g * g)
                mean, square = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.999 ** (step + 1))
                w -= now * decay * w
                w -= now * mean / (square.sqrt() + 1e-8)
        losses.append(loss.item())
        norms.append(norm)
    return {name: tensor.detach() for name, tensor in model.state_dict().items()}, losses, norms


@pytest.fixture
def in_float64(monkeypatch, global_state):
    """Adam enlarges the rounding of small gradients to whole steps; in float64 there is none that
    matters."""

    def load(*arguments, **options):
        model, tokenizer = load_backbone(*arguments, **options)
        torch.set_default_dtype(torch.float64)
        return model.double(), tokenizer

    monkeypatch.setattr("bench.models.load.load_backbone", load)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(("clip", "decay"), [(1.0, 0.0), (0.05, 0.1)])
def test_three_steps_equal_a_second_implementation(train_tiny, tiny_bert, tiny_corpus, clip, decay):
    recipe = {"sentences": 20, "select_every": 100, "dropout": 0.0, "learning_rate": 1e-4}
    folder = train_tiny("simcse", fresh=True, clip=clip, weight_decay=decay, **recipe)
    log = log_of(folder)
    lines = read_sentences(tiny_corpus, 20)
    expected, losses, norms = reference_simcse(
        tiny_bert, lines, seed=1, size=8, rate=1e-4, clip=clip, decay=decay, temperature=0.05
    )
    assert clip == 1.0 or max(norms) > clip  # clipping was at work
    assert [row["loss"] for row in log] == pytest.approx(losses, rel=1e-12)
    assert [row["learning_rate"] for row in log] == pytest.approx([1e-4, 1e-4 * 2 / 3, 1e-4 / 3])
    kept, start = weights_of(folder), load_file(tiny_bert / "model.safetensors")
    for name, tensor in kept.items():
        assert tensor.dtype == torch.float64
        assert (tensor - expected[name]).abs().max() < 1e-12, name
    assert max((kept[name] - start[name]).abs().max() for name in kept) > 1e-4


def plain_losses(folder, lines, dtype, size, rate):
    """The losses of SimCSE without dropout, by torch and transformers alone."""
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
    tokenizer, head = AutoTokenizer.from_pretrained(folder), torch.nn.Linear(WIDTH, WIDTH)
    draw = torch.Generator().manual_seed(named_seed(1, "head"))
    torch.nn.init.normal_(head.weight, std=0.02, generator=draw)
    torch.nn.init.zeros_(head.bias)
    weights = [*model.parameters(), *head.parameters()]
    optimiser = torch.optim.AdamW(weights, weight_decay=0.0)
    order = torch.randperm(len(lines), generator=draw.manual_seed(named_seed(1, "order", 0)))
    batches, losses = order.split(size), []
    for step, rows in enumerate(batches):
        batch = tokenizer([lines[row] for row in rows], padding=True, return_tensors="pt")
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            vectors = head(model(**batch).last_hidden_state[:, 0]).tanh()
        units = torch.nn.functional.normalize(vectors.float())
        cosines = units @ units.T
        loss = torch.nn.functional.cross_entropy(cosines / 0.05, torch.arange(len(rows)))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.param_groups[0]["lr"] = rate * (1 - step / len(batches))
        optimiser.step()
        losses.append(loss.item())
    return losses


# Ten times what was measured. With the weights of the first step bfloat16 is 0.6 apart.
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.07)])
def test_ten_steps_of_a_plain_loop(precision, tolerance, train_tiny, tiny_bert, tiny_corpus):
    recipe = {"precision": precision, "dropout": 0.0, "batch_size": 4, "select_every": 100}
    folder = train_tiny("simcse", fresh=True, sentences=40, **recipe)
    lines = read_sentences(tiny_corpus, 40)
    expected = plain_losses(tiny_bert, lines, getattr(torch, precision), 4, 1e-3)
    result = [row["loss"] for row in log_of(folder)]
    assert result == pytest.approx(expected, rel=0, abs=tolerance)
