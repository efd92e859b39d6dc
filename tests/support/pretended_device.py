"""A pretended CUDA device, `cuda:0`, for a build of torch without CUDA.

A tensor on the device is a tensor of the processor in another class: Python sees `cuda:0`, the
values are real, and autograd works. A dispatch mode sees every ATen operation, forwards and
backwards. It refuses what CUDA would refuse, and records launches and waits. What it cannot show
is said in CONTRIBUTING.md.

    with pretended_device() as device, device.recorded() as seen:
        training.step(batch)
    print(seen.launches.total(), seen.waits)
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support import device_operations as operations
from tests.support.device_functions import replaced
from tests.support.device_operations import Call, OnDevice, is_device, mapped

ROOT = Path(__file__).parents[2]
PLACES = tuple(f"{ROOT / folder}/" for folder in ("bench", "methods", "tests/gpu"))


@dataclass
class Record:
    """What the device was asked for.

    Attributes:
        launches: kernels and copies by operation, each operation once.
        waits: what the host waited for, by its kind and the function of the project.
        trace: each operation with its arguments (shape and type of tensors) and the function.
        refused: operations that torch's deterministic mode refuses, by function.
    """

    launches: Counter[str] = field(default_factory=Counter)
    waits: Counter[tuple[str, str]] = field(default_factory=Counter)
    trace: list[tuple[str, tuple[Any, ...], str]] = field(default_factory=list)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)


def _described(leaf: Any) -> Any:
    """An argument in a trace. A host's scalar is part of a launch, so its value counts. A generator
    stands for itself: another one may later have its address, and so its text."""
    if isinstance(leaf, torch._C.Generator):
        return leaf
    if not isinstance(leaf, Tensor):
        return repr(leaf)
    if not (leaf.dim() or isinstance(leaf, OnDevice)):
        return leaf.item()
    return tuple(leaf.shape), str(leaf.dtype)


class PretendedDevice(TorchDispatchMode):
    """The mode behind `pretended_device`."""

    def __init__(self) -> None:
        super().__init__()
        self.record = Record()
        self.tracing = False
        self.generator = False  # whether the running call has a generator of the device
        # The device's own random numbers: a state for torch's generator of the processor.
        self.random = torch.Generator().manual_seed(0).get_state()

    @contextmanager
    def recorded(self, trace: bool = False) -> Iterator[Record]:
        """Yield the record of the block alone, with a `trace` if asked for."""
        before = self.record, self.tracing
        self.record, self.tracing = Record(), trace
        try:
            yield self.record
        finally:
            self.record, self.tracing = before

    @contextmanager
    def own_generator(self) -> Iterator[None]:
        """Within the block calls have a generator of the device, which C++ takes for the host's."""
        self.generator = True
        try:
            yield
        finally:
            self.generator = False

    def wait(self, kind: str) -> None:
        """Note that the host waits for the device."""
        self.record.waits[kind, self.place()] += 1

    @staticmethod
    def place() -> str:
        """The innermost function of the project that is running, as `file::function`."""
        frame: Any = sys._getframe(2)
        while frame and not frame.f_code.co_filename.startswith(PLACES):
            frame = frame.f_back
        if frame is None:
            return "elsewhere"
        file = Path(frame.f_code.co_filename).relative_to(ROOT)
        return f"{file}::{frame.f_code.co_qualname}"

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # its wrapper costs a tenth of the time, and nothing is compiled here

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if operations.is_composite(func):
            with self:  # in inference mode even these arrive here
                found = func.decompose(*args, **kwargs)
            if found is not NotImplemented:
                return found
        call = Call(func, args, kwargs)
        if not call.ours and not is_device(kwargs.get("device")):
            if self.generator:
                raise RuntimeError(f"Expected a 'cpu' device type for generator ({func})")
            return func(*args, **kwargs)
        self._refuse(call)
        self._note(call)
        return self._run(call)

    def _refuse(self, call: Call) -> None:
        """Raise RuntimeError for what CUDA refuses."""
        drawn = any(type(leaf) is torch._C.Generator for leaf in call.leaves)
        if drawn and not self.generator:
            raise RuntimeError(
                f"Expected a 'cuda' device type for generator but found 'cpu' ({call.func})"
            )
        if wrong := operations.misplaced(call):
            shapes = [(tuple(one.shape), str(one.dtype)) for one in wrong]
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"cuda:0 and cpu! ({call.func}; on the host: {shapes}; {self.place()})"
            )
        strict = torch.get_deterministic_debug_mode() == 2
        if operations.is_refused(call):
            self.record.refused[call.name, self.place()] += 1
            if strict:
                raise RuntimeError(f"{call.name} does not have a deterministic implementation")
        config = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
        if strict and call.name in operations.PRODUCTS and config not in operations.WORKSPACES:
            raise RuntimeError(f"{call.name} is not deterministic without CUBLAS_WORKSPACE_CONFIG")

    def _note(self, call: Call) -> None:
        """Record an operation."""
        for kind in operations.waits(call):
            self.wait(kind)
        if not operations.is_free(call):
            copied = call.name == "_to_copy" and not call.ours
            self.record.launches["copy to the device" if copied else call.name] += 1
        if self.tracing:
            described = tuple(map(_described, call.leaves))
            self.record.trace.append((str(call.func), described, self.place()))

    def _run(self, call: Call) -> Any:
        """Run an operation on the held tensors; tag what it returns."""
        name, held = call.name, {id(one.held): one for one in call.ours}
        # C++ asks for the host when it asks for the device of a tensor of ours.
        tagged = bool(held) or is_device(call.kwargs.get("device"))
        plain = {key: one for key, one in call.kwargs.items() if key not in operations.OF_CUDA}
        if "device" in call.kwargs:
            plain["device"] = torch.device("cpu") if name != "_to_copy" else None
        args, plain = mapped(lambda one: getattr(one, "held", one), (tuple(call.args), plain))
        with self._own_random(call.func):
            found = operations.EMULATED.get(name, call.func)(*args, **plain)
        if name == "copy_" and not isinstance(call.args[0], OnDevice):
            return call.args[0]

        def tag(one: Any) -> Any:
            if not (tagged and isinstance(one, Tensor)):
                return one
            return held[id(one)] if id(one) in held else OnDevice(one)

        return mapped(tag, found)

    @contextmanager
    def _own_random(self, func: Any) -> Iterator[None]:
        """The device's random numbers, for an operation that draws some without a generator."""
        if torch.Tag.nondeterministic_seeded not in func.tags or self.generator:
            yield
            return
        state = torch.get_rng_state()
        torch.set_rng_state(self.random)
        try:
            yield
        finally:
            self.random = torch.get_rng_state()
            torch.set_rng_state(state)


@contextmanager
def pretended_device() -> Iterator[PretendedDevice]:
    """Within the block torch has one device, `cuda:0`; yields what records and refuses."""
    device = PretendedDevice()
    with ExitStack() as stack:
        stack.enter_context(replaced(device))
        stack.enter_context(device)
        yield device
