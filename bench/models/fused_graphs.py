"""CUDA graphs of a training's layers, behind a guard.

A graph is both passes of all layers as one launch each, so the host has the same few launches at
any depth. It holds shapes and memory fixed: one graph fits one size of batches, its inputs are
copied to their places, and the next pass overwrites its results. Therefore

* only sizes that recur get a graph;
* a pass that begins while the results of another are in use runs without one, as do passes without
  gradients, whose results nothing shows to be in use;
* random numbers are those of a pass without a graph: a graph reads the state of the device's
  generator and advances it.

A graph is compared with the layers themselves, bit for bit, before it is used.
"""

from __future__ import annotations

import os
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bench.models.fused_forward import FusedLayers, Layout
from bench.models.packed_forward import Layer, Rows
from bench.utils.errors import TransientError, UserError, warn

VARIABLE = "SENTBENCH_GRAPHS"
# Passes of a size before it gets a graph, which takes six to make: three to warm up, the captured
# one, and two that are compared.
SEEN = 3
# Graphs of a model. Each has memory of its own for the gradients of the layers, 4 bytes a weight
# (0.3 GB for BERT-base, 1.2 GB for BERT-large); most other memory is shared.
MOST = 8

Graph = Callable[..., tuple[Tensor, ...]]


def are_wanted() -> bool:
    """Return whether SENTBENCH_GRAPHS allows graphs: 1, the default, or 0."""
    word = os.environ.get(VARIABLE, "1")
    if word not in ("0", "1"):
        raise UserError(f"{VARIABLE} is '{word}'; set it to 0 (no CUDA graphs) or 1")
    return word == "1"


class _Size(NamedTuple):
    """What is fixed in a graph."""

    rows: int
    sequences: int
    longest: int
    first_only: bool
    rates: tuple[float, ...]  # of dropout
    learns: tuple[bool, ...]  # whether embeddings and weights have gradients


class GraphedLayers(FusedLayers):
    """`FusedLayers` that capture passes of training batches, which have a filler.

    Attributes:
        replays: passes that graphs computed.
    """

    def __init__(self, model: Any, kind: torch.dtype, allowed: bool = True) -> None:
        """As `FusedLayers`; without graphs, unless they are `allowed` and wanted."""
        super().__init__(model, kind)
        self.replays, self._enabled = 0, allowed and are_wanted()
        # Whether results have the lower layers. A graph would copy zeros for unused gradients.
        self._whole = False
        self._passes: Counter[_Size] = Counter()
        self._graphs: dict[_Size, Graph] = {}
        self._checked: set[_Size] = set()
        self._pool: Any = None  # memory that graphs share, since only one is in use at a time
        self._node: Callable[[], object] = lambda: None  # of the last graph's results, while used

    def run(self, states: Tensor, layout: Layout, first_only: bool) -> Sequence[Layer]:
        size = self._size(states, layout, first_only)
        if not any(size.learns) or self._node() is not None:
            return super().run(states, layout, first_only)
        graph = self._graphs.get(size)
        if graph is None:
            self._passes[size] += 1
            if self._enabled and self._passes[size] > SEEN and len(self._graphs) < MOST:
                self._graphs[size] = self._captured(states, layout, first_only)
        elif self._is_right(size, graph, states, layout):
            found = graph(states, *_tensors(layout), *self.weights)
            self._node, self.replays = weakref.ref(found[-1].grad_fn), self.replays + 1
            # A method may keep vectors longer than their gradients; others are copied when read.
            last = found[-1].clone() if first_only else found[-1]
            lower = found[:-1] if self._whole else [_refuse] * (len(self.model.encoder.layer) - 1)
            return [*lower, last]
        layers = self.compute(states, layout, first_only, self.weights)
        return [*(self._noting(layer) for layer in layers[:-1]), layers[-1]]

    def _size(self, states: Tensor, layout: Layout, first_only: bool) -> _Size:
        learns: tuple[bool, ...] = ()
        if self._enabled and torch.is_grad_enabled():
            learns = tuple(one.requires_grad for one in (states, *self.weights))
        rates: tuple[float, ...] = ()
        if self.model.training:
            layers = self.model.encoder.layer
            pairs = ((one.attention.self.dropout.p, one.output.dropout.p) for one in layers)
            rates = tuple(rate for pair in pairs for rate in pair)
        shape = len(states), len(layout.firsts), layout.longest
        return _Size(*shape, first_only, rates, learns)

    def _noting(self, layer: Tensor) -> Callable[[], Tensor]:
        """A lower layer that notes that it is read; graphs without it are then of no use."""

        def read() -> Tensor:
            if not self._whole:
                self._whole = True
                self._drop()
            return layer

        return read

    def _drop(self) -> None:
        self._graphs.clear()
        self._checked.clear()

    def _function(self, longest: int, first_only: bool) -> Graph:
        """The layers as a function of tensors alone: what a graph captures."""

        def layers(
            states: Tensor, ends: Tensor, firsts: Tensor, index: Tensor, zero: Tensor,
            *weights: Tensor,
        ) -> tuple[Tensor, ...]:  # fmt: skip
            layout = Layout(ends, firsts, Rows(index, zero), longest)
            found = self.compute(states, layout, first_only, weights)
            return tuple(found if self._whole else found[-1:])

        return layers

    def _captured(self, states: Tensor, layout: Layout, first_only: bool) -> Graph:
        """A graph of passes of this size, which the next one compares with the layers."""
        fixed = [_leaf(states.clone(), states), *(one.clone() for one in _tensors(layout))]
        # In the memory of the weights themselves, where the optimiser changes them.
        fixed += [_leaf(weight, weight) for weight in self.weights]
        function, before = self._function(layout.longest, first_only), _random(states)
        try:
            if self._pool is None:
                self._pool = torch.cuda.graph_pool_handle()
            graph = torch.cuda.make_graphed_callables(function, tuple(fixed), pool=self._pool)
        except RuntimeError as error:
            told = str(error).partition("\n")[0]
            raise TransientError(
                f"a CUDA graph of the layers could not be captured ({told}); "
                f"start again with {VARIABLE}=0, which trains without graphs"
            ) from error
        torch.cuda.set_rng_state(before, states.device)
        return graph  # type: ignore[return-value]

    def _is_right(self, size: _Size, graph: Graph, states: Tensor, layout: Layout) -> bool:
        """Whether a graph gives the bits of the layers; if not, no more graphs are used."""
        if size in self._checked:
            return True
        function, before = self._function(layout.longest, size.first_only), _random(states)
        own = self._results(function, states, layout)
        torch.cuda.set_rng_state(before, states.device)
        replayed = self._results(graph, states, layout)
        torch.cuda.set_rng_state(before, states.device)
        if all(map(_same_bits, own, replayed)):
            self._checked.add(size)
            return True
        warn("a CUDA graph of the layers differs from the layers; training goes on without graphs")
        self._enabled = False
        self._drop()
        return False

    def _results(self, function: Graph, states: Tensor, layout: Layout) -> list[Tensor]:
        """Outputs of a function of the layers, their gradients, and the state of the generator."""
        states, *weights = (_leaf(one, one) for one in (states, *self.weights))
        outputs = function(states, *_tensors(layout), *weights)
        wanted = [one for one in (states, *weights) if one.requires_grad]
        # Slopes of the mean square: neither too large nor too small for half precision.
        learnt = [one for one in outputs if one.requires_grad]
        slopes = [one.detach() / len(one) for one in learnt]
        gradients = torch.autograd.grad(learnt, wanted, slopes)
        return [*outputs, *gradients, _random(states)]


def _refuse() -> Tensor:
    raise TransientError(  # the workflow's next attempt has no graphs
        "a lower layer is read, which no earlier batch did, and the CUDA graphs of the layers "
        f"leave it out; start again with {VARIABLE}=0, which trains without graphs"
    )


def _tensors(layout: Layout) -> tuple[Tensor, ...]:
    assert layout.spread.zero is not None
    return layout.ends, layout.firsts, layout.spread.index, layout.spread.zero


def _leaf(tensor: Tensor, like: Tensor) -> Tensor:
    """The same memory as a leaf of autograd, with gradients as another tensor has them."""
    return tensor.detach().requires_grad_(like.requires_grad)


def _random(states: Tensor) -> Tensor:
    """State of the random numbers of a tensor's device."""
    return torch.cuda.get_rng_state(states.device)


def _same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal, where both are NaN, too."""
    kind = torch.int32 if one.dtype == torch.float32 else one.dtype
    return torch.equal(one.view(kind), other.view(kind))
