"""The flow against plain loops: cost, gradient, inverse, determinant, likelihood; refusals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import methods.flow as flow
from methods.base import Refusal, Shape, compose
from methods.flow import Coupling, Flow, Flowed, FlowHyper, Glow, fitted, learn_flow
from methods.simcse import SimCSE
from tests.methods.fixed import Vectors
from tests.oracles import transforms as oracle

SMALL = {"hidden": 3, "levels": 2, "depth": 2}
DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32], ids=["float64", "float32"]
)


def random_glow(width: int, module: Any = flow, scale: float = 0.4, **hyper: int) -> Any:
    """A flow whose every weight is random, in float64."""
    glow = module.Glow(width, module.FlowHyper(**{**SMALL, **hyper}), 0).double()
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
        ("first, nn.ReLU(), second", "first, nn.Tanh(), second"),
        ("second, nn.ReLU(), last", "second, nn.Identity(), last"),
        ("(u + self.shift) * self.log_scale.exp()", "(u - self.shift) * self.log_scale.exp()"),
        ("(u + self.shift) * self.log_scale.exp()", "u * self.log_scale.exp() + self.shift"),
        ("(u + self.shift) * self.log_scale.exp()", "(u + self.shift) * self.log_scale"),
        ("self.scale(u)[:, self.order]", "self.scale(u)[:, self.order.argsort()]"),
        ("self.scale(u)[:, self.order]", "self.scale(u[:, self.order])"),
        ("self.scale(u)[:, self.order]", "self.scale(u)"),
        ("(surprise - log_determinant)", "(surprise + log_determinant)"),
        ("(surprise - log_determinant)", "surprise"),
        ("0.5 * (z.square()", "(z.square()"),
        ("math.log(2 * math.pi)", "math.log(math.pi)"),
        ("/ self.width", "/ 1"),
        ("left.append(u[:, half:])", "left.append(u[:, :half])"),
        ("half = u.shape[1] // 2\n", "half = -(-u.shape[1] // 2)\n"),
        ("*reversed(left)", "*left"),
        ("torch.stack(log_scales).sum()", "torch.stack(log_scales)[1:].sum()"),
    ],
)  # fmt: skip
def test_mistakes_are_seen(old: str, new: str, tmp_path: Path) -> None:
    module = oracle.mutant("flow", old, new, tmp_path)
    try:
        glow = random_glow(9, module, levels=3)
        found = disagreement(glow, batch("random", 9), 3, 2, torch.float64)
    except RuntimeError:  # shapes do not fit any more
        return
    assert found > 1e-3


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
        assert (glow.inverse(z) - x).abs().max() < tolerance * x.abs().max()
        assert (glow(glow.inverse(x))[0] - x).abs().max() < 10 * tolerance * x.abs().max()


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
    weights = [
        [[2.0], [-1.0]],
        [1.0, 0.5],
        [[1.0, 1.0], [0.0, -3.0]],
        [0.0, 0.0],
        [[1.0, 0.0], [0.5, 7.0]],
        [0.0, -1.0],
    ]
    with torch.no_grad():
        for own, given in zip(coupling.parameters(), weights, strict=True):
            own.copy_(torch.tensor(given))
    # u1 = 3: first layer (7, -2.5) -> (7, 0), second (7, 0), last (7, 3.5 - 1)
    u = torch.tensor([[3.0, 10.0, 20.0]], dtype=torch.float64)
    assert coupling(u).tolist() == [[3.0, 17.0, 22.5]]
    assert coupling.inverse(coupling(u)).tolist() == u.tolist()


@pytest.mark.parametrize("width", [2, 5, 8, 768])
def test_before_training_it_is_a_permutation_bit_for_bit(width: int) -> None:
    """Couplings start at 0 and scales at 1: every z is one of the u."""
    glow = Glow(width, FlowHyper(), 1)
    u = torch.randn(5, width, generator=torch.Generator().manual_seed(0))
    z, log_determinant = glow(u)
    assert torch.equal(z.sort(dim=1).values, u.sort(dim=1).values)
    assert log_determinant == 0


def test_the_first_batch_starts_each_scale() -> None:
    """Glow section 3.1: data-dependent initialisation gives mean 0 and deviation 1 a dimension."""
    u = 5 * torch.randn(32, 12, generator=torch.Generator().manual_seed(0)).double() + 2
    glow = Glow(12, FlowHyper(), 1).double()
    glow.start(u)
    z, _ = glow(u)
    torch.testing.assert_close(z.mean(0), torch.zeros(12).double(), rtol=0, atol=1e-5)
    torch.testing.assert_close(z.std(0, correction=0), torch.ones(12).double(), rtol=0, atol=1e-5)


def gaussian(count: int, seed: int) -> tuple[Tensor, float]:
    """Draws of a correlated normal distribution in six dimensions, and its entropy a dimension."""
    draw = torch.Generator().manual_seed(0)
    mix = torch.randn(6, 6, generator=draw, dtype=torch.float64) + 2 * torch.eye(6).double()
    entropy = 0.5 * math.log(2 * math.pi * math.e) + float(torch.linalg.slogdet(mix)[1]) / 6
    noise = torch.randn(
        count, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    return noise @ mix.T + 4, entropy


def test_likelihood_improves_towards_the_entropy_and_not_beyond() -> None:
    train, entropy = gaussian(1500, 1)
    fresh, _ = gaussian(10_000, 2)
    hyper = FlowHyper(learning_rate=3e-3)
    start = Glow(6, hyper, 1).double()
    start.start(train[:32])
    costs = [start.cost(fresh).item()]
    costs += [
        learn_flow(train, FlowHyper(learning_rate=3e-3, epochs=epochs), 1).cost(fresh).item()
        for epochs in (1, 3)
    ]
    # Of 10,000 draws: about three standard errors.
    assert costs[0] > costs[1] > costs[2] > entropy - 0.01
    assert costs[2] - entropy < 0.5 * (costs[0] - entropy)


def test_equal_arguments_give_equal_flows_whatever_the_global_generator_and_threads() -> None:
    vectors = torch.randn(100, 7, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    one = learn_flow(vectors, FlowHyper(), 1)
    assert torch.equal(torch.rand(3), expected)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        other = learn_flow(vectors, FlowHyper(), 1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(one(vectors)[0], other(vectors)[0])
    assert not torch.equal(one(vectors)[0], learn_flow(vectors, FlowHyper(), 2)(vectors)[0])
    assert not any(weights.requires_grad for weights in one.parameters())


def test_it_learns_in_the_type_of_the_vectors() -> None:
    vectors = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float32, torch.float64):
        assert learn_flow(vectors.to(dtype), FlowHyper(), 1)(vectors.to(dtype))[0].dtype == dtype


def test_state_goes_on_with_the_same_numbers() -> None:
    vectors = torch.randn(64, 7, generator=torch.Generator().manual_seed(0))
    learned, copy = learn_flow(vectors, FlowHyper(), 1), Glow(7, FlowHyper(), 99)
    copy.load_state_dict(learned.state_dict())
    assert torch.equal(copy(vectors)[0], learned(vectors)[0])
    assert torch.equal(copy.inverse(vectors), learned.inverse(vectors))
    assert torch.equal(copy.cost(vectors), learned.cost(vectors))


def test_one_vector_and_constant_dimensions_give_finite_numbers() -> None:
    vectors = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    vectors[:, 2] = 1
    for given in (vectors, vectors[:1], vectors[:33]):  # the last batch of 33 is a single one
        assert torch.isfinite(learn_flow(given, FlowHyper(), 1)(given)[0]).all()


@pytest.mark.parametrize(
    ("width", "levels"), [(2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (64, 3), (768, 3)]
)
def test_levels_end_where_two_dimensions_are_left(width: int, levels: int) -> None:
    assert len(Glow(width, FlowHyper(), 0).levels) == levels
    assert Flow.clamp_to_backbone(FlowHyper(), Shape(width, 4)).levels == levels


def test_hyper_parameters() -> None:
    for name in ("levels", "depth", "hidden", "batch_size", "epochs", "learning_rate"):
        with pytest.raises(Refusal, match=f"'flow' needs {name}"):
            Flow.check(FlowHyper(**{name: 0}))
    with pytest.raises(Refusal, match="needs sentences >= 2, not 1"):
        Flow.check(FlowHyper(sentences=1))
    with pytest.raises(Refusal, match="needs at least 2 dimensions, not 1"):
        Glow(1, FlowHyper(), 0)
    assert Flow.clamp_to_backbone(
        FlowHyper(source="target", sentences=9), Shape(0, 0)
    ) == FlowHyper(source="target")
    assert Flow.corpora(FlowHyper(source="world")) == ("world",)
    assert Flow.corpora(FlowHyper(source="target")) == ()
    with pytest.raises(Refusal, match="write it after a method"):
        compose([(Flow, FlowHyper())], Shape(8, 4))
    assert (
        len(compose([(SimCSE, SimCSE.Hyper()), (Flow, FlowHyper())], Shape(8, 4)).transforms) == 1
    )


def fixed(seed: int, identity: str = "fixed") -> Vectors:
    return Vectors(torch.randn(40, 6, generator=torch.Generator().manual_seed(seed)), identity)


def flowed(base: Vectors, seed: int = 1, hyper: FlowHyper = FlowHyper()) -> Flowed:  # noqa: B008 (frozen)
    return Flowed(base, hyper, seed, fitted(base.vectors, hyper, seed, "cpu"))


def test_the_encoder_maps_and_per_task_learns_from_what_it_is_given() -> None:
    base, everything = fixed(0), [str(row) for row in range(40)]
    encoder, per_task = flowed(base), Flowed(base, FlowHyper(), 1)
    learned = learn_flow(torch.from_numpy(base.vectors), FlowHyper(), 1)
    assert encoder.adapt is None
    assert np.array_equal(
        encoder.encode(everything), learned(torch.from_numpy(base.vectors))[0].numpy()
    )
    assert encoder.encode([]).shape == (0, 6)
    assert np.array_equal(per_task.encode(["3"]), base.vectors[[3]])
    assert per_task.adapt
    assert np.array_equal(per_task.adapt(base.vectors), encoder.encode(everything))
    assert np.array_equal(per_task.adapt(base.vectors), per_task.adapt(base.vectors))


def test_identities_differ_where_vectors_do() -> None:
    base, other = fixed(0), fixed(1, "another")
    encoders = [
        flowed(base),
        flowed(base, 2),
        flowed(base, 1, FlowHyper(epochs=2)),
        Flowed(base, FlowHyper(), 1),
        Flowed(base, FlowHyper(), 2),
        Flowed(other, FlowHyper(), 1),
    ]
    assert len({encoder.identity for encoder in encoders}) == len(encoders)
    assert flowed(base).identity == encoders[0].identity
