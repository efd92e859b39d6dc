"""The packed forward pass against transformers' own padded code: values, gradients, distribution,
work."""

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from bench.models import packed_forward
from bench.models.packed_forward import (
    Batch,
    Dropout,
    States,
    Work,
    forward,
    forward_flop,
    is_packed,
    pooler_output,
)
from tests.conftest import CLOSE

PAD = 1  # RoBERTa's, whose positions depend on it; BERT does not see it
BATCHES = {"mixed lengths": [7, 1, 4, 7, 2], "equal lengths": [5, 5, 5], "one token": [1]}
UNDRAWN = 1e-6  # rounded to 0: attention is computed as with dropout, and nothing is dropped

Lengths = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def widely_drawn(model: Any) -> Any:
    """The model with all weights moved, so that no bias is 0 and no two LayerNorms are alike."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return model.double().eval()


@pytest.fixture(scope="module", params=["bert", "roberta", "xlm-roberta"])
def model(request: pytest.FixtureRequest, tiny_bert: Path, tiny_roberta: Path) -> Any:
    """One of each packed architecture: 4 layers of width 32, float64, evaluation mode."""
    from transformers import AutoModel, XLMRobertaConfig, XLMRobertaModel

    folder = tiny_bert if request.param == "bert" else tiny_roberta
    found = AutoModel.from_pretrained(folder, add_pooling_layer=False)
    if request.param == "xlm-roberta":
        described = found.config.to_dict()
        described.pop("model_type")
        found = XLMRobertaModel(XLMRobertaConfig(**described), add_pooling_layer=False)
    assert found.config.model_type == request.param
    assert is_packed(found)
    return widely_drawn(found)


@pytest.fixture(scope="module")
def bert(tiny_bert: Path) -> Any:
    from transformers import AutoModel

    return widely_drawn(AutoModel.from_pretrained(tiny_bert, add_pooling_layer=False))


def with_dropout(model: Any, **rates: float) -> Any:
    """A copy in training mode with these rates of `SITES`; 0 where not named."""
    model = copy.deepcopy(model).train()
    model.embeddings.dropout.p = rates.pop("embeddings", 0.0)
    for layer in model.encoder.layer:
        layer.attention.self.dropout.p = rates.get("attention", 0.0)
        layer.attention.output.dropout.p = rates.get("joined", 0.0)
        layer.output.dropout.p = rates.get("output", 0.0)
    assert rates.keys() <= {"attention", "joined", "output"}
    return model


def drawn_tokens(lengths: Sequence[int], seed: int = 0) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [draw.integers(5, 90, length).tolist() for length in lengths]


def batch_of(lengths: Sequence[int], seed: int = 0) -> Batch:
    return Batch.of(drawn_tokens(lengths, seed), PAD)


def padded_states(model: Any, batch: Batch, **inputs: Any) -> Sequence[Tensor]:
    """What transformers' own code gives."""
    inputs |= {"input_ids": batch.ids, "attention_mask": batch.mask}
    return model(**inputs, output_hidden_states=True).hidden_states


def assert_equal_where_real(
    ours: States, theirs: Sequence[Tensor], batch: Batch, relative: float
) -> None:
    real = batch.mask.bool()
    for mine, own in zip([ours[index] for index in range(len(ours))], theirs, strict=True):
        assert mine.dtype == own.dtype
        close = {"rtol": 0.0, "atol": relative * float(own[real].detach().abs().max())}
        torch.testing.assert_close(mine[real], own[real], **close)


def attending(model: Any, drops: bool) -> Any:
    """The model, or a copy with dropout that drops nothing: attention has code of its own then."""
    rates = dict.fromkeys(("attention", "joined", "output"), UNDRAWN)
    return with_dropout(model, **rates) if drops else model


# Without dropout


@pytest.mark.parametrize("drops", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize(
    ("kind", "relative"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=["f64", "f32"]
)
def test_states_equal_the_padded_model(
    model: Any, kind: torch.dtype, relative: float, drops: bool
) -> None:
    whole = copy.deepcopy(model).to(kind)
    packed = attending(whole, drops)

    @settings(max_examples=12)
    @given(Lengths, st.integers(0, 9))
    @torch.no_grad()
    def check(lengths: list[int], seed: int) -> None:
        batch = batch_of(lengths, seed)
        theirs = padded_states(whole, batch)
        assert_equal_where_real(forward(packed, batch), theirs, batch, relative)
        part = forward(packed, batch, first_only=True)
        assert_equal_where_real(part[:-1], theirs[:-1], batch, relative)
        first = theirs[-1][:, 0]
        close = {"rtol": 0.0, "atol": relative * float(first.abs().max())}
        torch.testing.assert_close(part.first(-1), first, **close)

    check()


@pytest.mark.parametrize("drops", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("first_only", [False, True], ids=["whole", "first token"])
@pytest.mark.parametrize("lengths", BATCHES.values(), ids=BATCHES)
def test_gradients_equal_the_padded_model(
    model: Any, lengths: list[int], first_only: bool, drops: bool
) -> None:
    """Of a random linear functional of all states, or of the last layer's first tokens alone."""
    batch = batch_of(lengths)
    generator = torch.Generator().manual_seed(1)
    theirs = padded_states(model, batch)
    draws = [torch.randn(state.shape, generator=generator).double() for state in theirs]
    directions = [draw * batch.mask[..., None] for draw in draws]
    if first_only:
        directions[-1][:, 1:] = 0

    def gradients(packed: Any, functional: Callable[[], Tensor]) -> dict[str, Tensor]:
        names, weights = zip(*packed.named_parameters(), strict=True)
        found = torch.autograd.grad(functional(), weights, allow_unused=True)
        filled = [
            torch.zeros_like(w) if g is None else g for w, g in zip(weights, found, strict=True)
        ]
        return dict(zip(names, filled, strict=True))

    packed = attending(model, drops)

    def ours() -> Tensor:
        states = forward(packed, batch, first_only=first_only)
        terms = [(states[index] * directions[index]).sum() for index in range(len(directions) - 1)]
        if first_only:
            return sum(terms) + (states.first(-1) * directions[-1][:, 0]).sum()
        return sum(terms) + (states[-1] * directions[-1]).sum()

    pairs = list(zip(theirs, directions, strict=True))
    expected = gradients(model, lambda: sum((a * b).sum() for a, b in pairs))
    found = gradients(packed, ours)
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    for name, gradient in expected.items():
        # A key's bias moves no softmax: its gradient is rounding, measured against the others'.
        close = {"rtol": 0.0, "atol": 1e-9 * max(float(gradient.abs().max()), 1e-3 * largest)}
        where = lambda text, name=name: f"{name}: {text}"  # noqa: E731
        torch.testing.assert_close(found[name], gradient, **close, msg=where)


@pytest.mark.parametrize("drops", [False, True], ids=["evaluation", "training"])
def test_states_of_padding_equal_the_padded_model_where_they_are_asked_for(
    model: Any, drops: bool
) -> None:
    """Values and the gradient of their squares, over 12 positions of 3 sentences."""
    tokens = drawn_tokens([7, 1, 12])
    batch, plain = Batch.of(tokens, PAD, positions=12), Batch.of(tokens, PAD)
    assert torch.equal(batch.ids, plain.ids)
    assert torch.equal(batch.mask, plain.mask)
    assert batch.lengths.tolist() == [12, 12, 12]
    packed, found = attending(model, drops), []
    everything = SimpleNamespace(mask=torch.ones_like(batch.mask))
    theirs, ours = padded_states(model, batch), forward(packed, batch)
    assert_equal_where_real(ours, theirs, everything, 1e-10)
    for of, states in ((model, theirs), (packed, [ours[i] for i in range(len(ours))])):
        weight = of.encoder.layer[0].attention.self.value.weight
        (gradient,) = torch.autograd.grad(sum((state**2).sum() for state in states), weight)
        found.append(gradient)
    close = {"rtol": 0.0, "atol": 1e-9 * float(found[0].abs().max())}
    torch.testing.assert_close(found[1], found[0], **close)


@torch.no_grad()
def test_position_ids_reach_the_embeddings(model: Any) -> None:
    batch = batch_of([6, 3])
    positions = torch.arange(8, 2, -1).repeat(2, 1)
    theirs = padded_states(model, batch, position_ids=positions)
    assert_equal_where_real(forward(model, batch, position_ids=positions), theirs, batch, 1e-10)
    assert float((theirs[0] - padded_states(model, batch)[0]).abs().max()) > 0.1


def test_half_precision_equals_the_padded_model_up_to_rounding(bert: Any) -> None:
    batch, single = batch_of([9, 4, 6]), copy.deepcopy(bert).float()
    exact = padded_states(single, batch)
    packed = attending(single, True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states = forward(packed, batch)
    # bfloat16's unit is 0.004; four layers are off by 0.013, whatever the processor.
    assert_equal_where_real(states, exact, batch, 0.03)
    states[-1].float().square().sum().backward()
    exact[-1][batch.mask.bool()].square().sum().backward()
    for mine, own in zip(packed.encoder.parameters(), single.encoder.parameters(), strict=True):
        assert float((mine.grad - own.grad).norm()) <= 0.1 * float(own.grad.norm()) + 0.05


@pytest.mark.parametrize("pooler", ["cls_mlp", "avg"])
def test_a_training_equals_that_of_the_padded_model(
    train_tiny: Any, global_state: None, monkeypatch: pytest.MonkeyPatch, pooler: str
) -> None:
    recipe = {"dropout": 0.0, "pooler": pooler, "epochs": 4, "select_every": 8}

    def trained() -> tuple[list[float], float]:
        folder = train_tiny("simcse", fresh=True, **recipe)
        rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        outcome = json.loads((folder / "outcome.json").read_text())["outcome"]
        return [row["loss"] for row in rows], outcome["best_dev"]

    losses, dev = trained()
    asked: list[Any] = []
    monkeypatch.setattr(packed_forward, "is_packed", lambda model: bool(asked.append(model)))
    expected, padded_dev = trained()
    assert asked
    assert len(losses) > 20
    assert losses == pytest.approx(expected, rel=1e-4, abs=2e-5)  # they end near 0.02
    assert losses[-1] < 0.9 * losses[0]
    assert dev == pytest.approx(padded_dev, abs=1e-3)


# With dropout


COPIES = 1200
SITES = ("embeddings", "attention", "joined", "output")


@torch.no_grad()
def drawn(model: Any, first_only: bool, packed: bool, seed: int) -> dict[str, np.ndarray]:
    """Numbers of one sentence's last vector over many draws of dropout, in a batch with padding."""
    sentence, longer = drawn_tokens([6, 9])
    batch = Batch.of([sentence] * COPIES + [longer], PAD)
    torch.manual_seed(seed)
    if packed:
        states = forward(model, batch, first_only=first_only)
    else:
        states = States([batch.pack(layer) for layer in padded_states(model, batch)], batch)
    vectors = states.first(-1) if first_only else states[-1][:, : len(sentence)].mean(1)
    vectors = vectors[:COPIES]
    apart = (vectors[0::2] - vectors[1::2]).norm(dim=1)
    numbers = {"coordinate": vectors[:, 4], "length": vectors.norm(dim=1), "apart": apart}
    return {name: values.numpy() for name, values in numbers.items()}


def likeness(model: Any, first_only: bool, other: Any = None) -> list[float]:
    """p values of a two-sample Kolmogorov-Smirnov test, packed beside padded."""
    packed = drawn(other or model, first_only, packed=True, seed=1)
    padded = drawn(model, first_only, packed=False, seed=2)
    return [float(stats.ks_2samp(packed[name], padded[name]).pvalue) for name in packed]


@pytest.mark.parametrize("first_only", [False, True], ids=["mean", "first token"])
@pytest.mark.parametrize("sites", [*((site,) for site in SITES), SITES], ids=" ".join)
def test_dropout_has_the_padded_models_distribution(
    bert: Any, global_state: None, sites: tuple[str, ...], first_only: bool
) -> None:
    model = with_dropout(bert, **dict.fromkeys(sites, 0.1)).float()
    assert min(likeness(model, first_only)) > 0.001


@pytest.mark.parametrize("first_only", [False, True], ids=["mean", "first token"])
def test_the_dropout_of_other_devices_has_the_same_distribution(
    bert: Any, global_state: None, monkeypatch: pytest.MonkeyPatch, first_only: bool
) -> None:
    """What runs on a GPU, torch's own dropout and fused attention, here on the processor."""

    class Torchs(Dropout):
        def __init__(self, active: bool, device: torch.device) -> None:
            self.active, self.fast = active, False

    monkeypatch.setattr(packed_forward, "Dropout", Torchs)
    model = with_dropout(bert, **dict.fromkeys(SITES, 0.1)).float()
    assert min(likeness(model, first_only)) > 0.001


@pytest.mark.parametrize("missing", SITES)
def test_the_test_of_distributions_notices_one_missing_dropout(
    bert: Any, global_state: None, missing: str
) -> None:
    model = with_dropout(bert, **dict.fromkeys(SITES, 0.1)).float()
    fewer = with_dropout(bert, **{site: 0.1 for site in SITES if site != missing}).float()
    assert min(likeness(model, False, fewer)) < 1e-6


# Batches and states


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=8), min_size=1, max_size=8),
    st.integers(10, 12),
)
def test_a_batch_is_padded_on_the_right(tokens: list[list[int]], pad_id: int) -> None:
    batch = Batch.of(tokens, pad_id)
    longest = max(map(len, tokens))
    assert batch.ids.shape == batch.mask.shape == (len(tokens), longest)
    assert batch.ids.dtype == batch.mask.dtype == torch.int64
    for row, own, seen in zip(tokens, batch.ids.tolist(), batch.mask.tolist(), strict=True):
        assert own == row + [pad_id] * (longest - len(row))
        assert seen == [1] * len(row) + [0] * (longest - len(row))
    assert batch.lengths.tolist() == [len(row) for row in tokens]
    padded = torch.stack([batch.ids, batch.ids + 100], dim=2).float()
    rows = batch.pack(padded)
    assert rows.tolist() == [[token, token + 100] for row in tokens for token in row]
    assert torch.equal(batch.pad(rows), padded * batch.mask[..., None])
    assert torch.equal(batch.pack(batch.pad(rows)), rows)
    assert batch.first(rows).tolist() == [[row[0], row[0] + 100] for row in tokens]


def test_states_are_a_sequence_of_layers(bert: Any) -> None:
    batch = batch_of([4, 2, 3])
    states, theirs = forward(bert, batch), padded_states(bert, batch)
    real = batch.mask[..., None]
    assert len(states) == len(list(states)) == 5
    for index in range(-5, 5):
        torch.testing.assert_close(states[index], theirs[index] * real)
        torch.testing.assert_close(states.first(index), theirs[index][:, 0])
    part = states[1:4]
    assert len(part) == 3
    torch.testing.assert_close(part[-1], theirs[3] * real)
    torch.testing.assert_close(part.first(0), theirs[1][:, 0])
    with pytest.raises(IndexError):
        states[5]


def test_states_that_were_not_computed_raise(bert: Any) -> None:
    batch = batch_of([4, 2, 3])
    states, theirs = forward(bert, batch, first_only=True), padded_states(bert, batch)
    real = batch.mask[..., None]
    for part, last in ((states, 4), (states[2:], 2), (states[-1:], 0)):
        for index in (last, -1):
            with pytest.raises(LookupError, match="only the first tokens"):
                part[index]
            torch.testing.assert_close(part.first(index), theirs[-1][:, 0])
        with pytest.raises(LookupError, match="only the first tokens"):
            list(part)  # no layer less, unsaid
    for part in (states[:4], states[:-1]):  # the layers below are whole
        for index in range(-4, 4):
            torch.testing.assert_close(part[index], theirs[:-1][index] * real)
            torch.testing.assert_close(part.first(index), theirs[:-1][index][:, 0])


# Work


@pytest.mark.parametrize("first_only", [False, True], ids=["whole", "first token"])
@pytest.mark.parametrize("lengths", [[6, 6, 6], [1], [7, 2, 5]], ids=str)
def test_work_equals_the_flop_that_torch_counts(
    bert: Any, lengths: list[int], first_only: bool
) -> None:
    """Sentence by sentence, since attention is computed with its padding and counted without."""
    packed, work = attending(bert, True), Work()  # so that attention is matrix products like others
    forwards = backwards = 0
    for tokens in drawn_tokens(lengths):
        with FlopCounterMode(display=False) as counter:
            states = forward(packed, Batch.of([tokens], PAD), first_only=first_only)
        forwards += counter.get_total_flops()
        with FlopCounterMode(display=False) as counter:
            states.first(-1).sum().backward() if first_only else states[-1].sum().backward()
        backwards += counter.get_total_flops()
    assert forward_flop(bert.config, lengths, first_only) == forwards

    forward(packed, batch_of(lengths), first_only=first_only, work=work)
    assert work == Work(len(lengths), sum(lengths), forwards, backwards)
    with torch.no_grad():  # a frozen model in a step
        forward(packed, batch_of(lengths), first_only=first_only, work=work)
    assert work == Work(2 * len(lengths), 2 * sum(lengths), 2 * forwards, backwards)
    with torch.inference_mode():  # an Encoder
        forward(packed, batch_of(lengths), first_only=first_only, work=work)
    twice = (2 * len(lengths), 2 * sum(lengths), 2 * forwards)
    assert work == Work(*twice, backwards, selection=forwards)


# What is not packed


def other_model() -> Any:
    """A tiny random MPNet, which is run by its own code, in evaluation mode."""
    from transformers import MPNetConfig, MPNetModel

    shape = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    shape |= {"intermediate_size": 48, "vocab_size": 120, "max_position_embeddings": 64}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return MPNetModel(MPNetConfig(pad_token_id=PAD, initializer_range=0.15, **shape)).eval()


@torch.inference_mode()
def test_other_architectures_always_compute_all_tokens() -> None:
    model, batch, work = other_model(), batch_of([5, 2]), Work()
    assert not is_packed(model)
    states = forward(model, batch, first_only=True, work=work)
    assert_equal_where_real(states, padded_states(model, batch), batch, 1e-6)
    assert work.selection == forward_flop(model.config, batch.lengths, first_only=False)


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
@torch.inference_mode()
def test_the_pooler_of_a_model(tiny_bert: Path, kind: str) -> None:
    from transformers import AutoModel

    model = AutoModel.from_pretrained(tiny_bert).eval() if kind == "bert" else other_model()
    nn.init.normal_(model.pooler.dense.bias)
    batch, work = batch_of([3, 6, 1]), Work()
    expected = model(input_ids=batch.ids, attention_mask=batch.mask).pooler_output
    torch.testing.assert_close(pooler_output(model, batch, work), expected, **CLOSE)
    assert work.selection == forward_flop(model.config, batch.lengths, first_only=kind == "bert")
