"""CUDA graphs of the pretended device: what `torch.cuda.make_graphed_callables` returns.

A replay computes with the values of the processor. As on CUDA

* a capture computes nothing, and is refused where the host waits or copies;
* inputs and results have fixed places, which the next replay overwrites;
* graphs of one pool overwrite what another one keeps for its backward pass;
* a replay is one launch, and draws from the device's generator as the captured operations do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from tests.support.pretended_device import PretendedDevice

Function = Callable[..., tuple[Tensor, ...]]
COPIED = "copy to the device", "copy to the host"


class Pool:
    """Memory that graphs share; `kept` is the graph whose states for a backward pass are in it."""

    kept: _Graph | None = None


def _leaves(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [one.detach().requires_grad_(one.requires_grad) for one in tensors]


def _passes(function: Function, inputs: Sequence[Tensor]) -> tuple[Any, Any]:
    """Results of a function, and gradients of its inputs from slopes of any value."""
    found = function(*inputs)
    learning = [one for one in found if one.requires_grad]
    if not learning:
        return found, ()
    wanted = [one for one in inputs if one.requires_grad]
    slopes = [torch.empty_like(one) for one in learning]
    return found, torch.autograd.grad(learning, wanted, slopes)


class _Graph:
    """A captured function with its inputs, results, slopes and gradients in fixed places."""

    def __init__(
        self, device: PretendedDevice, function: Function, inputs: Sequence[Tensor], pool: Pool
    ) -> None:
        self.device, self.function, self.inputs, self.pool = device, function, inputs, pool
        before = device.random
        with device.recorded() as seen:
            found, gradients = _passes(function, inputs)
        device.random = before
        if seen.waits or any(seen.launches[name] for name in COPIED):
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        self.learns = [one.requires_grad for one in found]
        self.results = [torch.full_like(one.detach(), torch.nan) for one in found]
        self.slopes = [torch.full_like(one, torch.nan) for one in self.results]
        self.gradients = [torch.full_like(one, torch.nan) for one in gradients]
        self.made: tuple[list[Tensor], list[Tensor]] = [], []

    def _replayed(self) -> Any:
        """Nothing within the block is launched by the host."""
        self.device.record.launches["replay"] += 1
        return self.device.recorded()

    def forward(self) -> None:
        with self._replayed(), torch.enable_grad():
            leaves = _leaves(self.inputs)
            found = self.function(*leaves)
            for place, one in zip(self.results, found, strict=True):
                place.copy_(one.detach())
        learning = [one for one in found if one.requires_grad]
        self.made = learning, [one for one in leaves if one.requires_grad]
        self.pool.kept = self

    def backward(self) -> None:
        with self._replayed():
            if self.pool.kept is not self:
                for place in self.gradients:
                    place.fill_(torch.nan)
                return
            slopes = [one for one, learns in zip(self.slopes, self.learns, strict=True) if learns]
            found = torch.autograd.grad(*self.made, slopes, retain_graph=True)
            for place, one in zip(self.gradients, found, strict=True):
                place.copy_(one)


def _function(graph: _Graph) -> Function:
    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Tensor) -> Any:
            for place, given in zip(graph.inputs, inputs, strict=True):
                if place.data_ptr() != given.data_ptr():
                    place.copy_(given)
            graph.forward()
            return tuple(one.detach() for one in graph.results)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *slopes: Tensor) -> Any:
            for place, given, learns in zip(graph.slopes, slopes, graph.learns, strict=True):
                if learns and place.data_ptr() != given.data_ptr():
                    place.copy_(given)
            graph.backward()
            gradients = iter(graph.gradients)
            return tuple(
                next(gradients).detach() if one.requires_grad else None for one in graph.inputs
            )

    return Graphed.apply


def graphed_callables(device: PretendedDevice) -> Callable[..., Function]:
    """`torch.cuda.make_graphed_callables` of one function, with the arguments that are used."""

    def make(function: Function, sample_args: tuple[Tensor, ...], pool: Pool) -> Function:
        for _ in range(3):
            _passes(function, sample_args)
        return _function(_Graph(device, function, sample_args, pool))

    return make
