"""The packed forward pass against transformers' own padded code: values, gradients, distribution,
work; and the dropout that it draws."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bench.models import packed_forward
from bench.models.packed_forward import (
    Batch,
    Dropout,
    States,
    forward,
    is_packed,
)

PAD = 1  # RoBERTa's, whose positions depend on it; BERT does not see it
UNDRAWN = 1e-6  # rounded to 0: attention is computed as with dropout, and nothing is dropped


def widely_drawn(model):
    """The model with all weights moved, so that no bias is 0 and no two LayerNorms are alike."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return model.double().eval()


@pytest.fixture(scope="module", params=["bert", "roberta", "xlm-roberta"])
def model(request, tiny_bert, tiny_roberta):
    """One of each packed architecture: 4 layers of width 32, float64, evaluation mode."""
    from transformers import AutoModel, XLMRobertaConfig, XLMRobertaModel

    folder = tiny_bert if request.param == "bert" else tiny_roberta
    made = AutoModel.from_pretrained(folder, add_pooling_layer=False)
    if request.param == "xlm-roberta":
        described = made.config.to_dict()
        described.pop("model_type")
        made = XLMRobertaModel(XLMRobertaConfig(**described), add_pooling_layer=False)
    assert is_packed(made)
    return widely_drawn(made)


@pytest.fixture(scope="module")
def bert(tiny_bert):
    from transformers import AutoModel

    return widely_drawn(AutoModel.from_pretrained(tiny_bert, add_pooling_layer=False))


def with_dropout(model, embeddings=0.0, attention=0.0, joined=0.0, output=0.0):
    """A copy in training mode with these rates."""
    model = copy.deepcopy(model).train()
    model.embeddings.dropout.p = embeddings
    for layer in model.encoder.layer:
        layer.attention.self.dropout.p = attention
        layer.attention.output.dropout.p = joined
        layer.output.dropout.p = output
    return model


def attending(model, drops):
    """The model, or a copy with dropout that drops nothing: attention has code of its own then."""
    return with_dropout(model, 0.0, UNDRAWN, UNDRAWN, UNDRAWN) if drops else model


def drawn_tokens(lengths, seed=0):
    draw = np.random.default_rng(seed)
    return [draw.integers(5, 90, length).tolist() for length in lengths]


def batch_of(lengths, seed=0):
    return Batch.of(drawn_tokens(lengths, seed), PAD)


def padded_states(model, batch):
    """The states of transformers' own code."""
    output = model(batch.ids, batch.mask, output_hidden_states=True)
    return output.hidden_states


def assert_close(ours, theirs, relative):
    """Close relative to the largest."""
    size = float(theirs.detach().abs().max())
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=relative * size)


def assert_equal_where_real(ours, theirs, mask, relative):
    for mine, own in zip([ours[index] for index in range(len(ours))], theirs, strict=True):
        assert_close(mine[mask.bool()], own[mask.bool()], relative)


# Without dropout


@pytest.mark.parametrize("drops", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize(
    ("kind", "relative"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=["f64", "f32"]
)
def test_states_equal_the_padded_model(model, kind, relative, drops):
    whole = copy.deepcopy(model).to(kind)
    packed = attending(whole, drops)

    @settings(max_examples=12)
    @given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(0, 9))
    @torch.no_grad()
    def check(lengths, seed):
        batch = batch_of(lengths, seed)
        theirs = padded_states(whole, batch)
        states = forward(packed, batch)
        assert_equal_where_real(states, theirs, batch.mask, relative)
        assert_close(states[:3].first(), theirs[2][:, 0], relative)
        part = forward(packed, batch, first_only=True)
        assert_equal_where_real(part[:-1], theirs[:-1], batch.mask, relative)
        assert_close(part.first(), theirs[-1][:, 0], relative)

    check()


@pytest.mark.parametrize("drops", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("first_only", [False, True], ids=["whole", "first token"])
@pytest.mark.parametrize("lengths", [[7, 1, 4, 7, 2], [5, 5, 5], [1]], ids=str)
def test_gradients_equal_the_padded_model(model, lengths, first_only, drops):
    """A random linear functional of all states, or of the last layer's first tokens alone."""
    batch, generator = batch_of(lengths), torch.Generator().manual_seed(1)
    packed = attending(model, drops)
    *theirs, last = padded_states(model, batch)
    states = forward(packed, batch, first_only=first_only)
    ours = [*states[:-1], states.first() if first_only else states[-1]]
    theirs.append(last[:, 0] if first_only else last)
    directions = [torch.randn(state.shape, generator=generator).double() for state in theirs]
    for direction in directions[: 4 + (not first_only)]:
        direction *= batch.mask[..., None]

    def gradients(of, layers):
        total = sum((layer * along).sum() for layer, along in zip(layers, directions, strict=True))
        given = {"allow_unused": True, "materialize_grads": True}
        return torch.autograd.grad(total, list(of.parameters()), **given)

    expected, result = gradients(model, theirs), gradients(packed, ours)
    largest = max(float(gradient.abs().max()) for gradient in expected)
    for (name, _), mine, own in zip(model.named_parameters(), result, expected, strict=True):
        # A key's bias moves no softmax: its gradient is rounding, measured against the others'.
        size = max(float(own.abs().max()), 1e-3 * largest)
        assert (mine - own).abs().max() <= 1e-9 * size, name


@pytest.mark.parametrize("drops", [False, True], ids=["evaluation", "training"])
@torch.no_grad()
def test_states_of_padding_are_computed_where_they_are_asked_for(model, drops):
    batch = Batch.of(drawn_tokens([7, 1, 12]), PAD, positions=12)
    theirs, ours = padded_states(model, batch), forward(attending(model, drops), batch)
    assert batch.lengths.tolist() == [12, 12, 12]
    assert_equal_where_real(ours, theirs, torch.ones_like(batch.mask), 1e-10)
    assert_close(ours[:3].first(), theirs[2][:, 0], 1e-10)


def test_states_that_were_not_computed_raise(bert):
    states = forward(bert, batch_of([4, 2, 3]), first_only=True)
    for part, last in ((states, 4), (states[2:], 2), (states[-1:], 0)):
        for index in (last, -1):
            with pytest.raises(LookupError, match="only the first tokens"):
                part[index]
        assert torch.equal(part.first(), states.first())
        with pytest.raises(LookupError, match="only the first tokens"):
            list(part)  # no layer less, unsaid


# With dropout


COPIES = 1200
SITES = ("embeddings", "attention", "joined", "output")
whole_or_first = pytest.mark.parametrize("first_only", [False, True], ids=["mean", "first token"])


@torch.no_grad()
def drawn(model, first_only, packed, seed):
    """Numbers of one sentence's last vector over many draws of dropout, in a batch with padding."""
    sentence, longer = drawn_tokens([6, 9])
    batch = Batch.of([sentence] * COPIES + [longer], PAD)
    torch.manual_seed(seed)
    if packed:
        states = forward(model, batch, first_only=first_only)
    else:
        states = States([batch.pack(layer) for layer in padded_states(model, batch)], batch)
    vectors = states.first() if first_only else states[-1][:, : len(sentence)].mean(1)
    vectors = vectors[:COPIES]
    return vectors[:, 4], vectors.norm(dim=1), (vectors[0::2] - vectors[1::2]).norm(dim=1)


def likeness(model, first_only):
    """The least p value of two-sample Kolmogorov-Smirnov tests, packed beside padded."""
    packed = drawn(model, first_only, packed=True, seed=1)
    padded = drawn(model, first_only, packed=False, seed=2)
    return min(stats.ks_2samp(a, b).pvalue for a, b in zip(packed, padded, strict=True))


@whole_or_first
@pytest.mark.parametrize("sites", [*((site,) for site in SITES), SITES], ids=" ".join)
def test_dropout_has_the_padded_models_distribution(bert, global_state, sites, first_only):
    model = with_dropout(bert, **dict.fromkeys(sites, 0.1)).float()
    assert likeness(model, first_only) > 0.001


@whole_or_first
def test_dropout_of_other_devices_has_it_too(bert, global_state, monkeypatch, first_only):
    """Code of a GPU, torch's own dropout and fused attention, here on the processor."""
    plain = Dropout.__init__

    def init(self, active, device):
        plain(self, active, device)
        self.fast = False

    monkeypatch.setattr(packed_forward.Dropout, "__init__", init)
    assert likeness(with_dropout(bert, *(0.1,) * 4).float(), first_only) > 0.001


def dropped(rate, size, seed):
    torch.manual_seed(seed)
    return Dropout(True, torch.device("cpu"))(torch.ones(size), rate)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 1 / 4096, 1.4 / 65536])
def test_dropout_keeps_the_expected_share_and_the_mean(global_state, rate):
    """Kept elements are binomial at the rate in 65536ths; their value makes the mean 1."""
    size = 1_000_003
    exact = round(rate * 65536) / 65536
    values = dropped(rate, size, 5)
    kept = values[values != 0]
    np.testing.assert_array_equal(kept.numpy(), np.float32(1 / (1 - exact)))
    z = (len(kept) - size * (1 - exact)) / math.sqrt(size * exact * (1 - exact))
    assert abs(z) < 4


def test_dropout_draws_elements_independently(global_state):
    """Neighbours, which share a draw of 64 bits, and successive calls, correlate by chance only."""
    torch.manual_seed(5)
    drop, ones = Dropout(True, torch.device("cpu")), torch.ones(400_000)
    first, second = ((drop(ones, 0.1) > 0).double() for _ in range(2))
    drawn_apart = {0: second, **{lag: first.roll(lag) for lag in (1, 2, 3, 4, 5, 8)}}
    for lag, mask in drawn_apart.items():
        z = float(torch.corrcoef(torch.stack([first, mask]))[0, 1]) * math.sqrt(len(ones))
        assert abs(z) < 4, lag


def test_dropout_follows_the_global_seed_and_moves_it_in_training_alone(global_state):
    first, state = dropped(0.5, 2000, 1), torch.get_rng_state()
    second = Dropout(True, torch.device("cpu"))(torch.ones(2000), 0.5)
    assert not torch.equal(first, second)  # the second pass of a step is another draw
    torch.set_rng_state(state)
    assert Dropout(False, torch.device("cpu"))(first, 0.5) is first
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_the_gradient_of_dropout_has_its_mask(global_state, kind):
    torch.manual_seed(11)
    values = torch.randn(2, 3, 5, 7, dtype=kind).mT.requires_grad_()
    result = Dropout(True, values.device)(values, 0.25)
    assert (result.dtype, result.shape) == (kind, values.shape)
    direction = torch.randn_like(result)
    (gradient,) = torch.autograd.grad(result, values, direction)
    assert torch.equal(gradient == 0, result == 0)
    scale = torch.where(result == 0, 0.0, torch.tensor(4 / 3, dtype=torch.float64))
    # Of the scale and of the product, half a unit each.
    rounding = {"rtol": torch.finfo(kind).eps, "atol": 0.0}
    torch.testing.assert_close(result, (values * scale).to(kind), **rounding)
    torch.testing.assert_close(gradient, (direction * scale).to(kind), **rounding)
