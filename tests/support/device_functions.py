"""What of torch's Python side is replaced while a device is pretended.

C++ takes a tensor of the pretended device for one of the processor. Functions that ask there for
the device are answered here.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils import _foreach_utils

from tests.support.device_operations import CUDA, OnDevice, is_device, mapped
from tests.support.pretended_graphs import Pool, graphed_callables

if TYPE_CHECKING:
    from tests.support.pretended_device import PretendedDevice

HALVES = (torch.float16, torch.bfloat16)
# Names of torch.amp's documentation: "CUDA Ops that can autocast to float32", and what they call.
IN_FLOAT32 = """
__pow__ __rdiv__ __rpow__ __rtruediv__ acos asin binary_cross_entropy_with_logits cosh cdist
cosine_embedding_loss cosine_similarity cross_entropy cumprod cumsum dist erfinv exp expm1
group_norm hinge_embedding_loss huber_loss kl_div l1_loss layer_norm linalg_vector_norm log log10
log1p log2 log_softmax logsumexp margin_ranking_loss mse_loss multi_margin_loss
multilabel_margin_loss native_layer_norm nll_loss norm normalize pdist poisson_nll_loss pow prod
reciprocal renorm rms_norm rsqrt sinh smooth_l1_loss soft_margin_loss softmax softmin softplus sum
tan triplet_margin_loss vector_norm
""".split()  # noqa: SIM905
# "CUDA Ops that can autocast to float16", those that the processor's autocast leaves out.
LOWERED = "addmv addr chain_matmul einsum multi_dot mv prelu".split()  # noqa: SIM905
# "CUDA Ops that promote to the widest input type": torch's own promotion does that, too.
PROMOTED = """
addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot
""".split()  # noqa: SIM905


def _registered(key: str) -> set[str]:
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name.removeprefix("aten::").partition(".")[0] for name in names}


class Autocast(torch.autocast):
    """CUDA's autocast: the processor's for products, and `IN_FLOAT32`."""

    kind: torch.dtype | None = None  # of the innermost block on the device

    def __init__(self, device_type: str, dtype: Any = None, enabled: bool = True, **more: Any):
        self.pretended = device_type == "cuda"
        device_type = "cpu" if self.pretended else device_type
        super().__init__(device_type, dtype=dtype, enabled=enabled, **more)

    def __enter__(self) -> Any:
        self.before = Autocast.kind
        if self.pretended:
            Autocast.kind = self.fast_dtype if self._enabled else None
        return super().__enter__()

    def __exit__(self, *error: Any) -> Any:
        Autocast.kind = self.before
        return super().__exit__(*error)


class Generator(torch._C.Generator):
    """A generator of random numbers, of the host or of the pretended device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return torch._C.Generator.__new__(cls if is_device(device) else torch._C.Generator, "cpu")

    device = property(lambda self: CUDA)  # type: ignore[assignment]


class Functions(TorchFunctionMode):
    """Answers calls of torch's functions that depend on the device."""

    def __init__(self, device: PretendedDevice) -> None:
        super().__init__()
        self.device = device
        self.kinds: dict[str, torch.dtype | None] = dict.fromkeys(IN_FLOAT32, torch.float32)
        self.kinds |= dict.fromkeys(LOWERED)
        self.unknown = _registered("AutocastCUDA") - _registered("AutocastCPU")
        self.unknown -= {*self.kinds, *PROMOTED}
        self.own: dict[Callable[..., Any], Callable[..., Any]] = {
            Tensor.to: self.to,
            Tensor.cpu: lambda one: self.to(one, "cpu"),
            Tensor.cuda: lambda one, **how: self.to(one, CUDA, **how),
            torch.tensor: self.tensor,
            F.one_hot: self.one_hot,
            F.dropout: self.dropout,
            F.scaled_dot_product_attention: self.attention,
        }

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in self.own:
            return self.own[func](*args, **kwargs)
        if isinstance(kwargs.get("generator"), Generator):
            with self.device.own_generator():
                return func(*args, **kwargs)
        if Autocast.kind is not None:
            args, kwargs = self.cast(func, args, kwargs)
        return func(*args, **kwargs)

    def cast(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Arguments in the type that CUDA's autocast wants."""
        name = getattr(func, "__name__", "")
        if name in self.unknown:
            raise NotImplementedError(f"the pretended autocast does not know {name}")
        if name not in self.kinds:
            return args, kwargs
        kind = self.kinds[name] or Autocast.kind

        def to_kind(one: Any) -> Any:
            cast = isinstance(one, OnDevice) and one.dtype in (torch.float32, *HALVES)
            return one.to(kind) if cast else one

        return mapped(to_kind, (args, kwargs))

    def to(self, one: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """`Tensor.to`: of a device, a type, both, or another tensor's."""
        device, kind = None, one.dtype
        flags = [value for value in args if isinstance(value, bool)]
        how = dict(zip(("non_blocking", "copy"), flags, strict=False)) | kwargs
        for value in (*args, *(how.pop(name, None) for name in ("device", "dtype", "other"))):
            if isinstance(value, Tensor):
                device, kind = value.device, value.dtype
            elif isinstance(value, torch.dtype):
                kind = value
            elif isinstance(value, str | torch.device):
                device = torch.device(value)
        if isinstance(one, OnDevice) and device is not None and device.type == "cpu":
            return self.to_host(one, kind, how.get("non_blocking", False))
        if not isinstance(one, OnDevice) and device is not None:
            how["device"] = CUDA if is_device(device) else device
        return one.to(dtype=kind, **how)

    def to_host(self, one: OnDevice, kind: torch.dtype, non_blocking: bool) -> Tensor:
        if one.requires_grad and torch.is_grad_enabled():
            raise NotImplementedError("a differentiable copy to the host")
        self.device.record.launches["copy to the host"] += 1
        if not non_blocking:
            self.device.wait("copy to the host")
        return one.held.detach().to(kind, copy=True)

    def tensor(self, data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
        if not is_device(device):
            return torch.tensor(data, *args, device=device, **kwargs)
        return self.to(torch.tensor(data, *args, **kwargs), device)

    def one_hot(self, labels: Tensor, num_classes: int = -1) -> Tensor:
        if not isinstance(labels, OnDevice):
            return F.one_hot(labels, num_classes)
        assert num_classes > 0  # otherwise CUDA waits for the largest label
        zeros = torch.zeros(*labels.shape, num_classes, dtype=torch.long, device=CUDA)
        return zeros.scatter_(-1, labels.unsqueeze(-1), 1)

    def dropout(
        self, values: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not isinstance(values, OnDevice):
            return F.dropout(values, p, training, inplace)
        return torch.native_dropout(values, p, training)[0] if training and p else values

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None,
        dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, **_: Any,
    ) -> Tensor:  # fmt: skip
        """As CUDA's memory-efficient kernels, the only fused ones with a mask of floats."""
        if not isinstance(q, OnDevice):
            return F.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal)
        if Autocast.kind is not None:
            q, k, v = (one.to(Autocast.kind) for one in (q, k, v))
            attn_mask = attn_mask if attn_mask is None else attn_mask.to(Autocast.kind)
        if attn_mask is not None:
            if attn_mask.dtype == torch.bool:
                zeros = torch.zeros(attn_mask.shape, dtype=q.dtype, device=CUDA)
                attn_mask = zeros.masked_fill_(attn_mask.logical_not(), -torch.inf)
            if attn_mask.dtype != q.dtype:
                raise RuntimeError("Expected attn_mask dtype to be bool or to match query dtype")
            # The kernels read eight values of a mask at once.
            if missing := -attn_mask.shape[-1] % 8:
                attn_mask = F.pad(attn_mask, (0, missing))[..., : attn_mask.shape[-1]]
            attn_mask = attn_mask.expand(*q.shape[:-1], k.shape[-2])
        wanted = torch.is_grad_enabled() and any(one.requires_grad for one in (q, k, v))
        fused = torch.ops.aten._scaled_dot_product_efficient_attention
        return fused(q, k, v, attn_mask, wanted, dropout_p, is_causal, scale=scale)[0]


class Stream:
    """A stream or an event of the device, which has done everything when it is asked."""

    def __init__(self, device: PretendedDevice) -> None:
        self.device = device

    def synchronize(self) -> None:
        self.device.wait("synchronize")

    def nothing(self, *_: Any) -> None: ...

    record = wait = wait_stream = wait_event = record_event = nothing


def _by_device(tensors: list[list[Tensor | None]], with_indices: bool = False) -> Any:
    """`torch._C._group_tensors_by_device_and_dtype`, which asks C++ for the device."""
    groups = _plain_groups(tensors, with_indices)
    return {
        (group[0][0].device if group[0] else device, kind): (group, rows)
        for (device, kind), (group, rows) in groups.items()
    }


def _asked(*args: Any, **kwargs: Any) -> Any:
    """`torch._C._nn._parse_to`, by which modules understand `.to(tensor)`."""
    if args and isinstance(args[0], OnDevice):
        args = (CUDA, args[0].dtype, *args[1:])
    return _plain_asked(*args, **kwargs)


_plain_groups, _plain_asked = torch._C._group_tensors_by_device_and_dtype, torch._C._nn._parse_to


def _cuda(device: PretendedDevice) -> dict[str, Any]:
    """Functions of torch.cuda, by name."""
    seeded = torch.Generator()

    def seed(number: int) -> None:
        device.random = seeded.manual_seed(number).get_state()

    def restore(state: Tensor, *_: Any) -> None:
        device.random = state

    stream = Stream(device)
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_lazy_init": lambda: None,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "device": lambda *_: contextlib.nullcontext(),
        "stream": lambda *_: contextlib.nullcontext(),
        "current_stream": lambda *_: stream,
        "Stream": lambda *_, **__: stream,
        "Event": lambda *_, **__: stream,
        "synchronize": lambda *_: stream.synchronize(),
        "empty_cache": lambda: None,
        "reset_peak_memory_stats": lambda *_: None,
        "max_memory_allocated": lambda *_: 2**30,
        "get_device_name": lambda *_: "NVIDIA H200 (pretended)",
        "is_bf16_supported": lambda *_, **__: True,
        "manual_seed": seed,
        "manual_seed_all": seed,
        "get_rng_state": lambda *_: device.random,
        "graph_pool_handle": Pool,
        "make_graphed_callables": graphed_callables(device),
        "set_rng_state": restore,
    }


def _pinned(tensor: Tensor, *_: Any) -> Tensor:
    copy = tensor.clone()
    copy.pinned = True  # type: ignore[attr-defined]
    return copy


@contextlib.contextmanager
def _guard() -> Iterator[None]:
    """C++ keeps a guard for each type of device; CUDA's is that of the processor in the block."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    name = "_ZN3c104impl26device_guard_impl_registryE"  # c10/core/impl/DeviceGuardImplInterface.h
    guards = (ctypes.c_void_p * 2).in_dll(library, name)  # 0 is the processor's, 1 is CUDA's
    before, guards[1] = guards[1], guards[0]
    try:
        yield
    finally:
        guards[1] = before


@contextlib.contextmanager
def replaced(device: PretendedDevice) -> Iterator[None]:
    """Replace what has to answer for the pretended device, and restore it."""
    lists = [_foreach_utils, import_module("torch.optim.optimizer")]
    patches = [
        *(patch.object(torch.cuda, name, value) for name, value in _cuda(device).items()),
        patch.object(torch.backends.cudnn, "version", lambda: 91900),
        patch.object(torch, "autocast", Autocast),
        patch.object(torch, "Generator", Generator),
        patch.object(torch._C, "_group_tensors_by_device_and_dtype", _by_device),
        patch.object(torch._C._nn, "_parse_to", _asked),
        *(
            patch.object(one, "_foreach_supported_types", [*one._foreach_supported_types, OnDevice])
            for one in lists
        ),
        patch.object(Tensor, "pin_memory", _pinned),
        patch.object(Tensor, "is_pinned", lambda tensor: getattr(tensor, "pinned", False)),
    ]
    swapping = torch.__future__.get_swap_module_params_on_conversion()
    # Parameters stay the same objects when they are moved, as they do on a real device.
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with contextlib.ExitStack() as stack:
            for one in (*patches, _guard(), torch.autograd.set_multithreading_enabled(False)):
                stack.enter_context(one)
            stack.enter_context(Functions(device))
            yield
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swapping)
