"""Every method, switch and composition with its oracle, inputs easy and hard, and how far two
losses disagree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from methods.base import Shape, Step, Views, compose
from methods.gs_infonce import GSInfoNCE
from methods.is_cse import ISCSE
from methods.simcse import SimCSE
from methods.sscl import SSCL
from tests.oracles.methods import Oracle

N, WIDTH, DEPTH = 4, 5, 4
BATCH_SIZE = 5  # of a full batch; those below are shorter, as the last one of an epoch is
TOTAL = 6
SEED = 3
STEPS = (
    0,
    1,
    2,
    3,
    4,
)  # IS-CSE's memory of 10 rows is full from the third on, Eq. 8 turns after the fourth


@dataclass(frozen=True)
class Case:
    """A method as it is written, and the oracle of the same settings."""

    name: str
    parts: tuple[tuple[type, dict[str, Any]], ...]
    oracle: Callable[[], Oracle]
    temperature: float = 0.05

    def build(self) -> Any:
        return compose(
            [(cls, cls.Hyper(**hyper)) for cls, hyper in self.parts], Shape(WIDTH, DEPTH)
        )


def _sscl(
    name: str,
    t: float = 0.05,
    positive: str = "dropout",
    negatives: str = "all",
    sides: str = "both",
    hosted_by: Any = None,
    **keys: Any,
) -> Case:
    hyper = {"positive": positive, "negatives": negatives, "sides": sides, **keys}
    host = [] if hosted_by is None else [hosted_by]
    layers = {
        "depth": DEPTH,
        "stack": keys.get("stack", 2),
        "layer": keys.get("layer"),
        "own": negatives == "own",
        "both": sides == "both",
        "detach": keys.get("detach", False),
        "average": keys.get("average", False),
        "same": positive == "self",
    }
    return Case(
        name,
        (*host, (SSCL, hyper if hosted_by else {"temperature": t, **hyper})),
        lambda: Oracle(t, layers=layers),
        t,
    )


def _smoothing(**changes: Any) -> dict[str, Any]:
    return {
        "alpha": 0.3,
        "start": None,
        "length": 10,
        "k": 3,
        "beta": 2.0,
        "official": True,
        **changes,
    }


def _is_cse(smoothing: dict[str, Any]) -> tuple[type, dict[str, Any]]:
    return ISCSE, {
        "alpha": smoothing["alpha"],
        "alpha_start": smoothing["start"],
        "buffer": smoothing["length"],
        "neighbours": smoothing["k"],
        "beta": smoothing["beta"],
        "current_first": smoothing["official"],
    }


def _with_temperature(part: tuple[type, dict[str, Any]], t: float) -> tuple[type, dict[str, Any]]:
    return part[0], {**part[1], "temperature": t}


_OFFICIAL, _PAPER = _smoothing(), _smoothing(official=False)
_RISING = _smoothing(alpha=0.4, start=0.05)
_NOISE = (8, 1.0, 1.0)  # M = 1.6 x 5
_GS: dict[str, Any] = {"multiple": 1.6, "std": 1.0}
_LAYERS = {
    "depth": DEPTH,
    "stack": 2,
    "layer": None,
    "own": False,
    "both": True,
    "detach": False,
    "average": True,
    "same": False,
}
_SSCL: dict[str, Any] = {"stack": 2, "average": True}

CASES = [
    Case("simcse", ((SimCSE, {}),), Oracle),
    Case("simcse-cold", ((SimCSE, {"temperature": 0.001}),), lambda: Oracle(0.001), 0.001),
    Case("simcse-warm", ((SimCSE, {"temperature": 1.0}),), lambda: Oracle(1.0), 1.0),
    Case("gs", ((GSInfoNCE, _GS),), lambda: Oracle(noise=_NOISE)),
    Case(
        "gs-lambda",
        ((GSInfoNCE, {"multiple": 0.8, "std": 0.5, "weight": 40.0}),),
        lambda: Oracle(noise=(4, 0.5, 40.0)),
    ),
    Case(
        "gs-small-lambda",
        ((GSInfoNCE, {"multiple": 3.0, "weight": 0.01}),),
        lambda: Oracle(noise=(15, 1.0, 0.01)),
    ),
    Case(
        "gs-cold",
        ((GSInfoNCE, {**_GS, "temperature": 0.001}),),
        lambda: Oracle(0.001, noise=_NOISE),
        0.001,
    ),
    Case("is-cse-official", (_is_cse(_OFFICIAL),), lambda: Oracle(smoothing=_OFFICIAL)),
    Case("is-cse-paper", (_is_cse(_PAPER),), lambda: Oracle(smoothing=_PAPER)),
    Case("is-cse-rising", (_is_cse(_RISING),), lambda: Oracle(smoothing=_RISING)),
    Case(
        "is-cse-from-0",
        (_is_cse(_smoothing(start=0.0)),),
        lambda: Oracle(smoothing=_smoothing(start=0.0)),
    ),
    Case(
        "is-cse-sharp",
        (_is_cse(_smoothing(beta=0.1, k=5)),),
        lambda: Oracle(smoothing=_smoothing(beta=0.1, k=5)),
    ),
    Case(
        "is-cse-cold",
        (_with_temperature(_is_cse(_OFFICIAL), 0.001),),
        lambda: Oracle(0.001, smoothing=_OFFICIAL),
        0.001,
    ),
    *(
        _sscl(
            f"sscl-{positive}-{negatives}-{sides}{'-detach' * detach}{'-average' * average}",
            positive=positive,
            negatives=negatives,
            sides=sides,
            detach=detach,
            average=average,
        )
        for positive, negatives, sides, detach, average in itertools.product(
            ("dropout", "self"), ("all", "own"), ("both", "one"), (False, True), (False, True)
        )
    ),
    *(_sscl(f"sscl-stack-{stack}", stack=stack) for stack in (0, 1, 3)),
    *(_sscl(f"sscl-layer-{layer}", layer=layer) for layer in (1, 2, 3)),
    _sscl("sscl-cold", t=0.001, negatives="own"),
    Case(
        "gs+is-cse",
        ((GSInfoNCE, _GS), _is_cse(_OFFICIAL)),
        lambda: Oracle(noise=_NOISE, smoothing=_OFFICIAL),
    ),
    Case(
        "is-cse+gs",
        (_is_cse(_PAPER), (GSInfoNCE, _GS)),
        lambda: Oracle(noise=_NOISE, smoothing=_PAPER),
    ),
    Case(
        "gs+sscl", ((GSInfoNCE, _GS), (SSCL, _SSCL)), lambda: Oracle(noise=_NOISE, layers=_LAYERS)
    ),
    Case(
        "sscl+gs", ((SSCL, _SSCL), (GSInfoNCE, _GS)), lambda: Oracle(noise=_NOISE, layers=_LAYERS)
    ),
    Case(
        "gs+sscl-self",
        ((SSCL, {"positive": "self"}), (GSInfoNCE, _GS)),
        lambda: Oracle(noise=_NOISE, layers=_LAYERS | {"average": False, "same": True}),
    ),
    Case(
        "is-cse+sscl",
        (_is_cse(_OFFICIAL), (SSCL, _SSCL)),
        lambda: Oracle(layers=_LAYERS, smoothing=_OFFICIAL),
    ),
    Case(
        "sscl+is-cse",
        ((SSCL, {**_SSCL, "temperature": 0.1}), _is_cse(_PAPER)),
        lambda: Oracle(0.1, layers=_LAYERS, smoothing=_PAPER),
        0.1,
    ),
    Case(
        "gs+is-cse+sscl",
        ((GSInfoNCE, _GS), _is_cse(_RISING), (SSCL, _SSCL)),
        lambda: Oracle(noise=_NOISE, layers=_LAYERS, smoothing=_RISING),
    ),
    Case(
        "gs+sscl-stack-0",
        ((GSInfoNCE, _GS), (SSCL, {**_SSCL, "stack": 0})),
        lambda: Oracle(noise=_NOISE),
    ),
]
BY_NAME = {case.name: case for case in CASES}


@dataclass(frozen=True)
class Batch:
    """What a backbone might give for one batch: two views (n, d) and their vectors at every
    intermediate layer."""

    views: tuple[Tensor, Tensor]
    lower: dict[int, tuple[Tensor, Tensor]]

    def leaves(self, dtype: torch.dtype) -> list[Tensor]:
        tensors = [
            *self.views,
            *(view for layer in sorted(self.lower) for view in self.lower[layer]),
        ]
        return [tensor.detach().to(dtype, copy=True).requires_grad_() for tensor in tensors]


HARD = ("near-duplicates", "duplicates", "opposites", "tiny", "huge", "mixed-norms", "one", "two")
DTYPES = (torch.float64, torch.float32)


def tolerance(kind: str, dtype: torch.dtype) -> float:
    """Of `disagreement`. Rounding of float32 is up to 5e-5 on hard tensors, 5e-6 on others,
    whatever the processor."""
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
    lower = {
        layer: (
            first + (DEPTH - layer) * noise * normal(),
            second + (DEPTH - layer) * noise * normal(),
        )
        for layer in range(1, DEPTH)
    }
    tensors = [first, second, *(view for pair in lower.values() for view in pair)]
    if kind in ("tiny", "huge", "mixed-norms"):
        powers = {
            "tiny": torch.full((n,), -8.0),
            "huge": torch.full((n,), 8.0),
            "mixed-norms": torch.linspace(-6, 6, n),
        }[kind]
        tensors = [10 ** powers.double().unsqueeze(1) * tensor for tensor in tensors]
    first, second, *rest = [tensor.float().double() for tensor in tensors]
    return Batch(
        (first, second), {layer: (rest[2 * i], rest[2 * i + 1]) for i, layer in enumerate(lower)}
    )


def _views(leaves: Sequence[Tensor]) -> Views:
    return Views(tuple(leaves[:2]), lambda layer: (leaves[2 * layer], leaves[2 * layer + 1]))


def step(index: int, batch_size: int = BATCH_SIZE) -> Step:
    return Step(index, TOTAL, batch_size, SEED)


def method_step(
    method: Any, leaves: Sequence[Tensor], index: int, batch_size: int = BATCH_SIZE
) -> tuple[Tensor, list[Tensor]]:
    """Loss of a method and its gradient with respect to every leaf (views first, then layers 1, 2,
    ...)."""
    loss = method.loss(_views(leaves), step(index, batch_size))
    assert loss.dtype == leaves[0].dtype
    assert loss.shape == ()
    return loss.detach(), _gradients(loss, leaves)


def oracle_step(
    oracle: Oracle, leaves: Sequence[Tensor], index: int
) -> tuple[Tensor, list[Tensor]]:
    lower = {layer: (leaves[2 * layer], leaves[2 * layer + 1]) for layer in range(1, DEPTH)}
    loss = oracle(leaves[0], leaves[1], lower, index=index, total=TOTAL, seed=SEED)
    return loss.detach(), _gradients(loss, leaves)


def _gradients(loss: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    # A batch of one has a constant loss; a method may return it without a graph.
    if not loss.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad(loss, leaves, allow_unused=True)
    return [
        torch.zeros_like(leaf) if grad is None else grad
        for grad, leaf in zip(found, leaves, strict=True)
    ]


def disagreement(
    case: Case,
    kind: str,
    *,
    dtypes: Sequence[torch.dtype] = (torch.float64,),
    build: Callable[[], Any] | None = None,
) -> dict[torch.dtype, float]:
    """The largest relative difference between method and oracle in loss or gradient over
    consecutive steps, by type.

    A gradient's natural unit is 1 / (temperature x norm of the vector x batch size). Differences
    are relative to the oracle's value, or to a floor where the value is smaller, for rounding alone
    decides the digits of a vanishing loss: 1e-3 in float64; in float32 a cosine is off by about
    1e-7, which the temperature divides, and 1e-4 of the floor is 2.5 of these.
    """
    methods = {dtype: (build or case.build)() for dtype in dtypes}
    floors = {torch.float64: 1e-3, torch.float32: 0.0025 / case.temperature}
    oracle = case.oracle()
    worst = dict.fromkeys(dtypes, 0.0)
    for index in STEPS if oracle.memory else STEPS[:2]:
        content = batch(kind, index)
        leaves = content.leaves(torch.float64)
        loss, gradients = oracle_step(oracle, leaves, index)
        for dtype, method in methods.items():
            own_loss, own_gradients = method_step(method, content.leaves(dtype), index)
            differences = [
                abs(own_loss.item() - loss.item()) / max(abs(loss.item()), floors[dtype])
            ]
            for leaf, own, expected in zip(leaves, own_gradients, gradients, strict=True):
                unit = case.temperature * len(leaf) * leaf.detach().norm(dim=1, keepdim=True)
                difference = ((own.double() - expected) * unit).abs().max().item()
                differences.append(
                    difference / max((expected * unit).abs().max().item(), floors[dtype])
                )
            worst[dtype] = max(
                worst[dtype],
                *(value if math.isfinite(value) else math.inf for value in differences),
            )
    return worst
