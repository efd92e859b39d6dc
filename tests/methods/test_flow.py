"""The flow against plain loops: cost, gradient, training, inverse, determinant, likelihood."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import methods.flow as flow
from methods.base import Refusal, Shape, compose
from methods.flow import ActNorm, BertAdam, Coupling, Flow, Flowed, Glow, learn_flow, pair_batches
from methods.simcse import SimCSE
from tests.methods.fixed import Vectors
from tests.oracles import transforms as oracle

SMALL = {"hidden": 3, "levels": 2, "depth": 2}
DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32], ids=["float64", "float32"]
)


def random_glow(width: int, module: Any = flow, scale: float = 0.4, **hyper: Any) -> Any:
    """A flow whose every weight is random, in float64."""
    glow = module.Glow(width, Flow.Hyper(**{**SMALL, "permutation": "random", **hyper}), 0).double()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in glow.parameters():
            weights.copy_(scale * torch.randn(weights.shape, generator=draw, dtype=torch.float64))
    return glow


def batch(kind: str, width: int) -> Tensor:
    draw = torch.Generator().manual_seed(5)
    vectors = torch.randn(4, width, generator=draw, dtype=torch.float64)
    if kind == "near-duplicates":
        vectors[1] = vectors[0] + 1e-7 * vectors[1]
    return {"large": 1e3, "small": 1e-3}.get(kind, 1.0) * vectors


def relative(found: list[Tensor], expected: list[Tensor]) -> float:
    scale = max(1e-12, max(float(tensor.detach().abs().max()) for tensor in expected))
    worst = max((a.double() - b).detach().abs().max() for a, b in zip(found, expected, strict=True))
    return float(worst) / scale


def disagreement(glow: Any, u: Tensor, levels: int, depth: int, dtype: torch.dtype) -> float:
    """Relative difference of cost, of gradients and of the embedding from the oracle's."""
    state = {name: tensor.clone() for name, tensor in glow.state_dict().items()}
    names = [name for name, tensor in state.items() if tensor.is_floating_point()]
    for name in names:
        state[name].requires_grad_()
    expected = oracle.glow_cost(state, levels, depth, u)
    gradients = torch.autograd.grad(expected, [state[name] for name in names])
    embedding = torch.stack([torch.stack(oracle.glow(state, levels, depth, row)[0]) for row in u])
    glow = glow.to(dtype)
    own = dict(glow.named_parameters())
    cost = glow.cost(u.to(dtype))
    found = torch.autograd.grad(cost, [own[name] for name in names])
    differences = [
        relative([cost], [expected]),
        relative(list(found), list(gradients)),
        relative([glow(u.to(dtype))[0]], [embedding]),
    ]
    return max(differences)


@DTYPES
@pytest.mark.parametrize("kind", ["random", "near-duplicates", "large", "small"])
@pytest.mark.parametrize("width", [4, 5, 7])
def test_cost_and_gradient_equal_plain_loops(width: int, kind: str, dtype: torch.dtype) -> None:
    tolerance = 1e-6 if dtype == torch.float64 else 1e-4
    assert disagreement(random_glow(width), batch(kind, width), 2, 2, dtype) < tolerance


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[first, second + self.network(first)]", "[first, second - self.network(first)]"),
        ("[first, second + self.network(first)]", "[first, second + self.network(first).detach()]"),
        ("[first, second + self.network(first)]", "[second + self.network(first), first]"),
        ("generator), nn.ReLU()]", "generator), nn.Tanh()]"),
        ("[layer, ActNorm(hidden, generator), nn.ReLU()]", "[layer, nn.Identity(), nn.ReLU()]"),
        ("(u + self.shift) * self.log_scales.exp()", "(u - self.shift) * self.log_scales.exp()"),
        ("(u + self.shift) * self.log_scales.exp()", "u * self.log_scales.exp() + self.shift"),
        ("(u + self.shift) * self.log_scales.exp()", "(u + self.shift) * self.log_scale.exp()"),
        ("FACTOR = 3.0", "FACTOR = 1.0"),
        ("self.scale(u)[:, self.order]", "self.scale(u)[:, self.order.argsort()]"),
        ("self.scale(u)[:, self.order]", "self.scale(u[:, self.order])"),
        ("self.scale(u)[:, self.order]", "self.scale(u)"),
        ("(surprise - log_determinant)", "(surprise + log_determinant)"),
        ("(surprise - log_determinant)", "surprise"),
        ("0.5 * (z.square()", "(z.square()"),
        ("math.log(2 * math.pi)", "math.log(math.pi)"),
        ("* self.width)", "* 1)"),
        ("(math.log(2) * self", "(self"),
        ("final.append(u[:, half:])", "final.append(u[:, :half])"),
        ("half = u.shape[1] // 2\n", "half = -(-u.shape[1] // 2)\n"),
        ("*reversed(final)", "*final"),
        ("torch.stack(log_scales).sum()", "torch.stack(log_scales)[1:].sum()"),
    ],
)  # fmt: skip
def test_mistakes_are_seen(old: str, new: str, tmp_path: Path) -> None:
    module = oracle.mutant("flow", old, new, tmp_path)
    try:
        glow = random_glow(9, module, levels=3)
        found = disagreement(glow, batch("random", 9), 3, 2, torch.float64)
    except (RuntimeError, KeyError):  # shapes or names do not fit any more
        return
    assert found > 1e-3


def per_task(base: Any, hyper: Flow.Hyper, seed: int) -> Flowed:
    return Flowed(base, {}, hyper=dict(hyper), seed=seed, width=None)


def inverse(glow: Glow, z: Tensor) -> Tensor:
    """u of z, by the steps of the flow in reverse order."""
    for level in reversed(range(len(glow.levels))):
        width = glow.width >> level
        u = z[:, :width]
        for step in reversed(glow.levels[level]):
            first, second = u[:, : width // 2], u[:, width // 2 :]
            u = torch.cat([first, second - step.coupling.network(first)], dim=1)
            u = u[:, step.order.argsort()]
            u = u * (-step.scale.log_scales).exp() - step.scale.shift
        z = torch.cat([u, z[:, width:]], dim=1)
    return z


@pytest.mark.parametrize("width", [2, 3, 6, 9, 64])
def test_invertible(width: int) -> None:
    u = torch.randn(20, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        glow = random_glow(width, scale=0.1, levels=3, depth=3, hidden=8)
        glow = glow.requires_grad_(False).to(dtype)
        x = u.to(dtype)
        z, _ = glow(x)
        assert z.dtype == dtype
        assert z.shape == x.shape
        assert (inverse(glow, z) - x).abs().max() < tolerance * x.abs().max()
        assert (glow(inverse(glow, x))[0] - x).abs().max() < 10 * tolerance * x.abs().max()


@pytest.mark.parametrize("width", [2, 3, 4, 5, 7])
def test_the_log_determinant_is_that_of_the_jacobian(width: int) -> None:
    glow = random_glow(width, levels=3)
    for row in batch("random", width):
        jacobian = torch.autograd.functional.jacobian(lambda u: glow(u.unsqueeze(0))[0][0], row)
        torch.testing.assert_close(
            glow(row.unsqueeze(0))[1], torch.linalg.slogdet(jacobian)[1], rtol=1e-10, atol=1e-10
        )


def test_one_coupling_by_hand() -> None:
    coupling = Coupling(3, 2, torch.Generator().manual_seed(0)).double()
    third = math.log(2) / 3  # a weight that doubles
    weights = [
        [[2.0], [-1.0]],
        [1.0, 0.5],
        [0.0, third],
        [[1.0, 1.0], [0.0, -3.0]],
        [0.0, 0.0],
        [third, 0.0],
        [[1.0, 0.0], [0.5, 7.0]],
        [0.0, -1.0],
        [0.0, third],
    ]
    with torch.no_grad():
        for own, given in zip(coupling.parameters(), weights, strict=True):
            own.copy_(torch.tensor(given, dtype=torch.float64))
    # u1 = 3: first layer (7, -5) -> (7, 0), second (14, 0), last (14, 2 (7 - 1))
    u = torch.tensor([[3.0, 10.0, 20.0]], dtype=torch.float64)
    expected = torch.tensor([[3.0, 24.0, 32.0]], dtype=torch.float64)
    torch.testing.assert_close(coupling(u), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("width", [2, 5, 8, 768])
def test_before_training_couplings_add_nothing(width: int) -> None:
    """Without its uniform shifts and scales, a new flow is a permutation bit for bit."""
    glow = Glow(width, Flow.Hyper(), 1)
    for module in glow.modules():
        if isinstance(module, ActNorm):
            bound = math.sqrt(6 / (1 + len(module.shift)))
            for weights in module.parameters():
                assert weights.abs().max() <= bound
                weights.data.zero_()
    u = torch.randn(5, width, generator=torch.Generator().manual_seed(0))
    z, log_determinant = glow(u)
    assert torch.equal(z.sort(dim=1).values, u.sort(dim=1).values)
    assert log_determinant == 0


def test_initial_shifts_and_scales_are_uniform_up_to_glorots_bound() -> None:
    glow, bound = Glow(768, Flow.Hyper(), 1), math.sqrt(6 / 769)
    step: Any = glow.levels[0][0]  # type: ignore[index]
    for weights in (step.scale.shift, step.scale.log_scale):
        assert 0.95 * bound < weights.abs().max() <= bound
        assert float(weights.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.1)
    last = step.coupling.network[-1]
    assert not last.shift.any()
    assert not last.log_scale.any()
    assert step.order.tolist() == list(range(767, -1, -1))


@pytest.mark.parametrize("permutation", ["reversal", "random"])
def test_the_first_batch_starts_each_scale(permutation: str) -> None:
    """Data-dependent initialisation gives mean 0 and deviation 1 a dimension, as plain loops do."""
    u = 5 * torch.randn(8, 12, generator=torch.Generator().manual_seed(0)).double() + 2
    glow = Glow(12, Flow.Hyper(hidden=5, permutation=permutation), 1).double()
    state = {name: tensor.clone() for name, tensor in glow.state_dict().items()}
    glow.start(u)
    z, _ = glow(u)
    torch.testing.assert_close(z.mean(0), torch.zeros(12).double(), rtol=0, atol=1e-5)
    torch.testing.assert_close(z.std(0, correction=0), torch.ones(12).double(), rtol=0, atol=1e-5)
    oracle.data_start(state, 3, 3, u)
    for name, tensor in glow.state_dict().items():
        torch.testing.assert_close(tensor, state[name], rtol=1e-9, atol=1e-9, msg=name)


START = ("uniform", "data")
RELEASED = Flow.Hyper(levels=2, depth=2, hidden=3, batch_size=4, learning_rate=1e-2)


def pairs_of(calm: bool) -> list[Tensor]:
    """Three batches of four pairs of correlated vectors, pair by pair.

    Gradients are longer than 1, so that they are clipped. With `calm`, the pairs of the first batch
    are equal, and the first gradient after a start from the data has a norm of 0.8.
    """
    draw = torch.Generator().manual_seed(2)
    mix = torch.randn(5, 5, generator=draw, dtype=torch.float64)
    drawn = torch.randn(3, 8, 5, generator=draw, dtype=torch.float64)
    if calm:
        drawn[0, 1::2] = drawn[0, ::2]
    return list(0.3 * (drawn @ mix + 1))


def learned_otherwise(module: Any, hyper: Flow.Hyper, batches: list[Tensor]) -> float:
    """Relative difference of the trained weights from those of plain loops, in float64."""
    own = module.learn_flow(batches, hyper, 1).state_dict()
    state = Glow(5, hyper, 1).double().state_dict()
    if hyper.start == "data":
        oracle.data_start(state, 2, 2, batches[0][::2])
    sides = [(batch[::2], batch[1::2]) for batch in batches]
    expected = oracle.trained_glow(state, 2, 2, sides, hyper.learning_rate)
    return max(relative([own[name]], [expected[name]]) for name in own)


@pytest.mark.parametrize("calm", [False, True])
@pytest.mark.parametrize("permutation", ["reversal", "random"])
@pytest.mark.parametrize("start", START)
def test_training_equals_plain_loops(start: str, permutation: str, calm: bool) -> None:
    hyper = RELEASED.model_copy(update={"start": start, "permutation": permutation})
    assert learned_otherwise(flow, hyper, pairs_of(calm)) < 1e-9


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(2 * glow.cost(batch))", "glow.cost(batch)"),
        (".clamp(min=1)", ".clamp(min=0)"),
        (".clamp(min=1)", ".clamp(min=1e9)"),
        (" + 0.01 * weight", ""),
        ("square.sqrt() + 1e-6", "square.sqrt() + 1e-2"),
        ("mean / (square", "mean / 0.1 / (square"),
        ("mean.mul_(0.9)", "mean.mul_(0.8)"),
        ("square.mul_(0.999)", "square.mul_(0.99)"),
        ("weight -= self.learning_rate", "weight -= 0.5 * self.learning_rate"),
        ("glow.start(batch[::2])", "glow.start(batch)"),
        ("glow.start(batch[::2])", "glow.start(batch[1::2])"),
        ('hyper.start == "data"', 'hyper.start != "data"'),
        ("weight.grad = None", "pass"),
    ],
)
def test_mistakes_in_the_training_are_seen(old: str, new: str, tmp_path: Path) -> None:
    module = oracle.mutant("flow", old, new, tmp_path)
    cases = [
        (RELEASED.model_copy(update={"start": start}), calm)
        for start in START
        for calm in (False, True)
    ]
    found = [learned_otherwise(module, hyper, pairs_of(calm)) for hyper, calm in cases]
    assert max(found) > 1e-4


def test_clipping_is_of_all_weights_together() -> None:
    weights = [torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)]
    for weight, gradient in zip(weights, (3.0, 4.0), strict=True):
        weight.grad = torch.tensor([gradient])
    optimiser = BertAdam(weights, 1.0)
    optimiser.step()
    assert [mean.item() for _, mean, _ in optimiser.weights] == pytest.approx([0.06, 0.08])


@pytest.mark.parametrize(
    ("pairs", "epochs", "sizes"),
    [(70, 1, [32, 32]), (5749, 1, [32] * 179), (70, 2, [32] * 4), (70, 0.5, [32]), (9, 1, [9])],
)
def test_a_step_is_32_pairs_and_a_rest_is_dropped(
    pairs: int, epochs: float, sizes: list[int]
) -> None:
    batches = list(pair_batches(pairs, Flow.Hyper(epochs=epochs), 0))
    assert [len(batch) for batch in batches] == sizes
    one_epoch = torch.cat(batches)[:pairs]
    assert len(set(one_epoch.tolist())) == len(one_epoch)


def test_both_sentences_of_a_pair_are_in_one_step() -> None:
    asked: list[list[str]] = []

    def vectors(texts: Sequence[str]) -> np.ndarray:
        asked.append(list(texts))
        return np.random.default_rng(len(asked)).normal(size=(len(texts), 4)).astype(np.float32)

    per_task(None, Flow.Hyper(), 0).fitted([str(row) for row in range(141)], vectors)
    assert [len(texts) for texts in asked] == [64, 64]
    rows = [int(text) for texts in asked for text in texts]
    assert all(first % 2 == 0 and second == first + 1 for first, second in pairwise_of(rows))


def pairwise_of(rows: list[int]) -> list[tuple[int, int]]:
    return list(zip(rows[::2], rows[1::2], strict=True))


def learn(vectors: Tensor, hyper: Flow.Hyper, seed: int) -> Glow:
    """A flow of vectors of which two in a row are a pair."""
    batches = pair_batches(len(vectors) // 2, hyper, seed)
    sides = torch.arange(2)
    return learn_flow(
        (vectors[(2 * rows[:, None] + sides).ravel()] for rows in batches), hyper, seed
    )


def gaussian(count: int, seed: int) -> tuple[Tensor, float]:
    """Draws of a correlated normal distribution in six dimensions; its entropy in bits a
    dimension."""
    draw = torch.Generator().manual_seed(0)
    mix = torch.randn(6, 6, generator=draw, dtype=torch.float64) + 2 * torch.eye(6).double()
    entropy = 0.5 * math.log(2 * math.pi * math.e) + float(torch.linalg.slogdet(mix)[1]) / 6
    entropy /= math.log(2)
    noise = torch.randn(
        count, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    return noise @ mix.T + 4, entropy


def test_likelihood_improves_towards_the_entropy_and_not_beyond() -> None:
    train, entropy = gaussian(1500, 1)
    fresh, _ = gaussian(10_000, 2)
    hyper = Flow.Hyper(learning_rate=3e-3, start="data")
    start = Glow(6, hyper, 1).double()
    start.start(train[:32])
    costs = [start.cost(fresh).item()]
    costs += [
        learn(train, hyper.model_copy(update={"epochs": epochs}), 1).cost(fresh).item()
        for epochs in (3, 9)
    ]
    # Of 10,000 draws: about three standard errors.
    assert costs[0] > costs[1] > costs[2] > entropy - 0.01
    assert costs[2] - entropy < 0.5 * (costs[0] - entropy)


def test_equal_arguments_give_equal_flows_whatever_the_global_generator_and_threads() -> None:
    vectors = torch.randn(100, 7, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    one = learn(vectors, Flow.Hyper(), 1)
    assert torch.equal(torch.rand(3), expected)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        other = learn(vectors, Flow.Hyper(), 1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(one(vectors)[0], other(vectors)[0])
    assert not torch.equal(one(vectors)[0], learn(vectors, Flow.Hyper(), 2)(vectors)[0])
    assert not any(weights.requires_grad for weights in one.parameters())


def test_it_learns_in_the_type_of_the_vectors() -> None:
    vectors = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float32, torch.float64):
        assert learn(vectors.to(dtype), Flow.Hyper(), 1)(vectors.to(dtype))[0].dtype == dtype


def test_state_goes_on_with_the_same_numbers() -> None:
    vectors = torch.randn(64, 7, generator=torch.Generator().manual_seed(0))
    learned, copy = learn(vectors, Flow.Hyper(), 1), Glow(7, Flow.Hyper(), 99)
    copy.load_state_dict(learned.state_dict())
    assert torch.equal(copy(vectors)[0], learned(vectors)[0])
    assert torch.equal(copy.cost(vectors), learned.cost(vectors))


def test_one_pair_and_constant_dimensions_give_finite_numbers() -> None:
    vectors = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    vectors[:, 2] = 1
    for given in (vectors, vectors[:2], vectors[:33]):
        assert torch.isfinite(learn(given, Flow.Hyper(), 1)(given)[0]).all()


@pytest.mark.parametrize(
    ("width", "levels"), [(2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (64, 3), (768, 3)]
)
def test_levels_end_where_two_dimensions_are_left(width: int, levels: int) -> None:
    assert len(Glow(width, Flow.Hyper(), 0).levels) == levels
    assert Flow.clamp_to_backbone(Flow.Hyper(), Shape(width, 4)).levels == levels


def test_hyper_parameters() -> None:
    assert Flow.clamp_to_backbone(
        Flow.Hyper(source="target", sentences=9), Shape(0, 0)
    ) == Flow.Hyper(source="target")
    assert Flow.corpora(Flow.Hyper(source="world")) == ("world",)
    assert Flow.corpora(Flow.Hyper(source="target")) == ()
    with pytest.raises(Refusal, match="write it after a method"):
        compose([(Flow, Flow.Hyper())], Shape(8, 4))
    assert (
        len(compose([(SimCSE, SimCSE.Hyper()), (Flow, Flow.Hyper())], Shape(8, 4)).transforms) == 1
    )


def fixed(seed: int, identity: str = "fixed") -> Vectors:
    return Vectors(torch.randn(40, 6, generator=torch.Generator().manual_seed(seed)), identity)


EVERYTHING = [str(row) for row in range(40)]


def flowed(base: Vectors, seed: int = 1, hyper: Flow.Hyper = Flow.Hyper()) -> Flowed:  # noqa: B008 (frozen)
    return per_task(base, hyper, seed).fitted(EVERYTHING, base.encode)


def test_the_encoder_maps_and_per_task_learns_from_what_it_is_given() -> None:
    base = fixed(0)
    encoder, fitted_later = flowed(base), per_task(base, Flow.Hyper(), 1)
    learned = learn(torch.from_numpy(base.vectors), Flow.Hyper(), 1)
    expected = learned(torch.from_numpy(base.vectors))[0].numpy()
    assert encoder.adapt is None
    assert np.array_equal(encoder.encode(EVERYTHING), expected)
    assert encoder.encode([]).shape == (0, 6)
    assert np.array_equal(fitted_later.encode(["3"]), base.vectors[[3]])
    assert fitted_later.adapt
    final = fitted_later.adapt(EVERYTHING, fitted_later.encode)
    assert np.array_equal(final(EVERYTHING), expected)
    assert np.array_equal(final(["5", "3"]), encoder.encode(["5", "3"]))


class Noisy(Vectors):
    """An Encoder with dropout: its vectors vary with the seed."""

    def encode_with_dropout(self, sentences: list[str], seed: int) -> np.ndarray:
        noise = np.random.default_rng(seed).normal(size=(len(sentences), 6))
        return (self.encode(sentences) + noise).astype(np.float32)


def test_a_flow_is_trained_with_dropout_and_maps_without() -> None:
    base = fixed(0)
    noisy = Noisy(torch.from_numpy(base.vectors))
    found, plain = flowed(noisy), flowed(base)
    name = "levels.0.0.scale.shift"
    assert not torch.equal(found.arrays[name], plain.arrays[name])
    expected = found.glow(torch.from_numpy(base.vectors))[0].numpy()
    assert np.array_equal(found.encode(EVERYTHING), expected)
    assert flowed(noisy).identity == found.identity


def test_identities_differ_where_vectors_do() -> None:
    base, other = fixed(0), fixed(1, "another")
    encoders = [
        flowed(base),
        flowed(base, 2),
        flowed(base, 1, Flow.Hyper(epochs=2)),
        per_task(base, Flow.Hyper(), 1),
        per_task(base, Flow.Hyper(), 2),
        per_task(other, Flow.Hyper(), 1),
    ]
    assert len({encoder.identity for encoder in encoders}) == len(encoders)
    assert flowed(base).identity == encoders[0].identity


# What the tests of all methods need to know of this one (`outside.of_methods`).

OUT_OF_LIMITS = {
    "untrained+flow": (
        "levels=0 depth=0 hidden=0 batch_size=0 epochs=0 learning_rate=0 sentences=1 "
        "start=zero permutation=none"
    ),
}
