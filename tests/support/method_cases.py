"""Every method, switch and composition with its oracle, hard inputs, a measure of differences."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from methods.base import Shape, Step, Views, compose
from methods.gs_infonce import GSInfoNCE
from methods.is_cse import ISCSE
from methods.simcse import SimCSE
from methods.sscl import SSCL
from tests.oracles.edits import Mutation, each
from tests.oracles.methods import Oracle

N, WIDTH, DEPTH = 4, 3, 4
BATCH_SIZE = 5  # of a full batch; those below are shorter, as the last one of an epoch is
TOTAL = 6
SEED = 3
# IS-CSE's memory of 10 rows is full from the third on, Eq. 8 turns after the fourth.
STEPS = (0, 1, 2, 3, 4)
Part = tuple[type, dict[str, Any]]


def build(*parts: Part, shape: Shape = Shape(WIDTH, DEPTH)) -> Any:  # noqa: B008 (frozen)
    return compose([(cls, cls.Hyper(**hyper)) for cls, hyper in parts], shape)


@dataclass(frozen=True, eq=False)
class Case:
    """A method as it is written, and the oracle of the same settings."""

    name: str
    parts: tuple[Part, ...]
    oracle: Callable[[], Oracle]
    temperature: float = 0.05

    def build(self) -> Any:
        return build(*self.parts)


def by_name(cases: Sequence[Case]) -> dict[str, Case]:
    return {case.name: case for case in cases}


def _case(name: str, *parts: Part, t: float = 0.05, **oracle: Any) -> Case:
    if t != 0.05:
        parts = ((parts[0][0], {**parts[0][1], "temperature": t}), *parts[1:])
    return Case(name, parts, lambda: Oracle(t, **oracle), t)


_NOISE = (8, 1.0, 1.0)  # M = 1.6 x 5


def _gs(multiple: float = 1.6, std: float = 1.0, weight: float = 1.0) -> Part:
    return GSInfoNCE, {"multiple": multiple, "std": std, "weight": weight}


def _smoothing(**changes: Any) -> dict[str, Any]:
    default = {"alpha": 0.3, "start": None, "length": 10, "k": 3, "beta": 2.0, "official": True}
    return default | changes


_OFFICIAL, _PAPER = _smoothing(), _smoothing(official=False)
_RISING = _smoothing(alpha=0.4, start=0.05)


def _is_cse(smoothing: dict[str, Any]) -> Part:
    keys = ("alpha", "alpha_start", "buffer", "neighbours", "beta", "current_first")
    return ISCSE, dict(zip(keys, smoothing.values(), strict=True))


def _smoothed(name: str, t: float = 0.05, **changes: Any) -> Case:
    smoothing = _smoothing(**changes)
    return _case(name, _is_cse(smoothing), t=t, smoothing=smoothing)


def _layers(
    positive: str = "dropout",
    negatives: str = "all",
    sides: str = "both",
    stack: int = 2,
    layer: int | None = None,
    detach: bool = False,
    average: bool = False,
) -> dict[str, Any]:
    """The oracle's options for SSCL's hyper-parameters."""
    return {
        "depth": DEPTH, "stack": stack, "layer": layer, "own": negatives == "own",
        "both": sides == "both", "detach": detach, "average": average, "same": positive == "self",
    }  # fmt: skip


def _sscl(name: str, t: float = 0.05, **hyper: Any) -> Case:
    return _case(name, (SSCL, hyper), t=t, layers=_layers(**hyper))


_SSCL: Part = (SSCL, {"stack": 2, "average": True})
_LAYERS = _layers(average=True)

CASES = [
    _case("simcse", (SimCSE, {})),
    _case("simcse-cold", (SimCSE, {}), t=0.001),
    _case("simcse-warm", (SimCSE, {}), t=1.0),
    _case("gs", _gs(), noise=_NOISE),
    _case("gs-lambda", _gs(0.8, 0.5, 40.0), noise=(4, 0.5, 40.0)),
    _case("gs-small-lambda", _gs(3.0, weight=0.01), noise=(15, 1.0, 0.01)),
    _case("gs-cold", _gs(), t=0.001, noise=_NOISE),
    _smoothed("is-cse-official"),
    _smoothed("is-cse-paper", official=False),
    _smoothed("is-cse-rising", alpha=0.4, start=0.05),
    _smoothed("is-cse-from-0", start=0.0),
    _smoothed("is-cse-sharp", beta=0.1, k=5),
    _smoothed("is-cse-cold", t=0.001),
    _smoothed("is-cse-short", length=3, k=2),  # a memory of less than a batch
    *(
        _sscl(f"sscl-{p}-{n}-{sides}{'-detach' * detach}{'-average' * average}",
              positive=p, negatives=n, sides=sides, detach=detach, average=average)
        for p, n, sides, detach, average in itertools.product(
            ("dropout", "self"), ("all", "own"), ("both", "one"), (False, True), (False, True)
        )
    ),
    *(_sscl(f"sscl-stack-{stack}", stack=stack) for stack in (0, 1, 3)),
    *(_sscl(f"sscl-layer-{layer}", layer=layer) for layer in (1, 2, 3)),
    _sscl("sscl-cold", t=0.001, negatives="own"),
    _case("gs+is-cse", _gs(), _is_cse(_OFFICIAL), noise=_NOISE, smoothing=_OFFICIAL),
    _case("is-cse+gs", _is_cse(_PAPER), _gs(), noise=_NOISE, smoothing=_PAPER),
    _case("gs+sscl", _gs(), _SSCL, noise=_NOISE, layers=_LAYERS),
    _case("sscl+gs", _SSCL, _gs(), noise=_NOISE, layers=_LAYERS),
    _case("gs+sscl-self", (SSCL, {"positive": "self"}), _gs(),
          noise=_NOISE, layers=_layers(positive="self")),
    _case("is-cse+sscl", _is_cse(_OFFICIAL), _SSCL, layers=_LAYERS, smoothing=_OFFICIAL),
    _case("sscl+is-cse", _SSCL, _is_cse(_PAPER), t=0.1, layers=_LAYERS, smoothing=_PAPER),
    _case("gs+is-cse+sscl", _gs(), _is_cse(_RISING), _SSCL,
          noise=_NOISE, layers=_LAYERS, smoothing=_RISING),
    _case("gs+sscl-stack-0", _gs(), (SSCL, {"stack": 0, "average": True}), noise=_NOISE),
]  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """The vectors of a batch: two views (n, d) and their intermediate layers."""

    tensors: list[Tensor]  # the views first, then those of layers 1, 2, ...

    @property
    def views(self) -> tuple[Tensor, ...]:
        return tuple(self.tensors[:2])

    def leaves(self, dtype: torch.dtype) -> list[Tensor]:
        return [tensor.detach().to(dtype, copy=True).requires_grad_() for tensor in self.tensors]


SOFT = ("random", "close")
HARD = ("near-duplicates", "duplicates", "opposites", "tiny", "huge", "mixed-norms", "one", "two")
DTYPES = (torch.float64, torch.float32)


def tolerance(kind: str, dtype: torch.dtype) -> float:
    """Rounding of float32 is up to 5e-5 on hard tensors, 5e-6 on others, whatever the processor."""
    return 1e-6 if dtype == torch.float64 else 1e-3 if kind in HARD else 1e-4


def batch(kind: str, number: int, n: int = N) -> Batch:
    """The `number`-th batch of a kind: "random", "close" (views alike, as in training), or one of
    `HARD`.

    Its numbers are float32's, written in float64.
    """
    draw = torch.Generator().manual_seed(1000 + number)

    def normal() -> Tensor:
        return torch.randn(n, WIDTH, generator=draw, dtype=torch.float64)

    n = {"one": 1, "two": 2}.get(kind, n)
    first = normal()
    noise = {"close": 0.3, "near-duplicates": 1e-5, "duplicates": 0.0}.get(kind, 1.0)
    if kind in ("near-duplicates", "duplicates"):
        first = first[:1] + noise * normal()
    second = first + noise * normal() if noise < 1 else normal()
    if kind == "opposites":
        second = -first + 0.01 * normal()
    tensors = [first, second]
    for layer in range(1, DEPTH):
        tensors += [view + (DEPTH - layer) * noise * normal() for view in (first, second)]
    powers = {"tiny": (-8, -8), "huge": (8, 8), "mixed-norms": (-6, 6)}.get(kind)
    if powers:
        scales = 10 ** torch.linspace(*powers, n).double().unsqueeze(1)
        tensors = [scales * tensor for tensor in tensors]
    return Batch([tensor.float().double() for tensor in tensors])


Gradients = tuple[Tensor, list[Tensor]]  # a loss and its gradient with respect to every leaf


def gradients(loss: Tensor, leaves: Sequence[Tensor]) -> Gradients:
    assert loss.dtype == leaves[0].dtype
    assert loss.shape == ()
    # A batch of one has a constant loss; a method may return it without a graph.
    if not loss.requires_grad:
        return loss, [torch.zeros_like(leaf) for leaf in leaves]
    return loss.detach(), list(torch.autograd.grad(loss, leaves, materialize_grads=True))


def method_step(method: Any, leaves: Sequence[Tensor], index: int) -> Gradients:
    views = Views(tuple(leaves[:2]), lambda layer: (leaves[2 * layer], leaves[2 * layer + 1]))
    return gradients(method.loss(views, Step(index, TOTAL, BATCH_SIZE, SEED)), leaves)


@cache
def expected(case: Case, kind: str) -> list[tuple[Batch, Gradients]]:
    """Batches of consecutive steps with the oracle's losses and gradients."""
    oracle, result = case.oracle(), []
    for index in STEPS if oracle.memory else STEPS[:2]:
        content = batch(kind, index)
        leaves = content.leaves(torch.float64)
        lower = {layer: (leaves[2 * layer], leaves[2 * layer + 1]) for layer in range(1, DEPTH)}
        loss = oracle(leaves[0], leaves[1], lower, index=index, total=TOTAL, seed=SEED)
        result.append((content, gradients(loss, leaves)))
    return result


def floor_of(dtype: torch.dtype, t: float) -> float:
    """The size that a difference is relative to where the oracle's value is smaller, for rounding
    alone decides the digits of a vanishing loss: in float32 a cosine is off by about 1e-7, which
    the temperature divides, and 1e-4 of the floor is 2.5 of these."""
    return 1e-3 if dtype == torch.float64 else 0.0025 / t


def unit_of(t: float) -> Callable[[Tensor], Tensor]:
    """By what a gradient is multiplied: temperature x norm of the vector x batch size."""
    return lambda leaf: t * len(leaf) * leaf.norm(dim=1, keepdim=True)


def difference(
    ours: Gradients,
    wanted: Gradients,
    leaves: Sequence[Tensor],
    floor: float,
    unit: Callable[[Tensor], Tensor | float],
) -> float:
    """The largest difference of the loss or of a gradient, relative to its largest entry."""
    worst = [abs(ours[0].item() - wanted[0].item()) / max(abs(wanted[0].item()), floor)]
    for leaf, gradient, reference in zip(leaves, ours[1], wanted[1], strict=True):
        size = unit(leaf.detach().double())
        scale = max((reference * size).abs().max().item(), floor)
        worst.append(((gradient.double() - reference) * size).abs().max().item() / scale)
    return max(value if math.isfinite(value) else math.inf for value in worst)


def disagreement(
    case: Case,
    kind: str,
    *,
    dtypes: Sequence[torch.dtype] = (torch.float64,),
) -> dict[torch.dtype, float]:
    """The largest difference between method and oracle over consecutive steps, by type."""
    result = {}
    for dtype in dtypes:
        method, floor = case.build(), floor_of(dtype, case.temperature)
        result[dtype] = 0.0
        for index, (content, wanted) in enumerate(expected(case, kind)):
            leaves = content.leaves(dtype)
            own = method_step(method, leaves, index)
            worst = difference(own, wanted, leaves, floor, unit_of(case.temperature))
            result[dtype] = max(result[dtype], worst)
    return result


def on_inputs(*groups: tuple[Iterable[Case], Sequence[str]]) -> pytest.MarkDecorator:
    """Make a test one test per case of `(cases, kinds of their batches)`.

    The kind "close" is a slow test of its own: random views see the same formula.
    """
    kinds_of: dict[Case, list[str]] = {}
    for cases, kinds in groups:
        for case in cases:
            kinds_of.setdefault(case, []).extend(kinds)
    tests = []
    for case, kinds in kinds_of.items():
        fast = [kind for kind in kinds if kind != "close"]
        tests.append(pytest.param(case, fast, id=case.name))
        if "close" in kinds:
            slow = pytest.mark.slow
            tests.append(pytest.param(case, ["close"], id=f"{case.name}-close", marks=slow))
    return pytest.mark.parametrize(("case", "kinds"), tests)


def assert_equals_oracle(case: Case, kinds: Sequence[str]) -> None:
    """Check loss and gradients of consecutive steps, on batches of each kind in each type."""
    for kind in kinds:
        for dtype, difference in disagreement(case, kind, dtypes=DTYPES).items():
            assert difference < tolerance(kind, dtype), (case.name, kind, dtype)


def assert_finite_with_a_zero_vector(case: Case, dtype: torch.dtype) -> None:
    """Check the losses and gradients of batches that have a vector of zeros."""
    method = case.build()
    for index in STEPS:
        leaves = batch("random", index).leaves(dtype)
        with torch.no_grad():
            for leaf in leaves:
                leaf[1] = 0
        loss, gradients = method_step(method, leaves, index)
        assert all(torch.isfinite(values).all() for values in (loss, *gradients)), case.name


def caught(mutations: Mapping[str, Mutation], cases: Sequence[Case]) -> Any:
    """The test that each mutation makes its case disagree with the oracle, on batches of one of
    three kinds."""

    @each(mutations)
    def test(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
        mutation.apply(monkeypatch)
        case, kinds = by_name(cases)[mutation.case], ("random", "close", "near-duplicates")
        assert any(disagreement(case, kind)[torch.float64] > 1e-6 for kind in kinds)

    return test
