"""Tensors of the pretended device, and what is known of CUDA's operations, by ATen's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from tests.support import varlen_attention

CUDA = torch.device("cuda", 0)


class OnDevice(Tensor):
    """A tensor of the device; `held` has its values, in the same memory, on the host."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> OnDevice:
        new = Tensor._make_subclass(cls, held)
        new.held = held
        return new

    __torch_function__ = torch._C._disabled_torch_function_impl
    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func} outside of the block with the pretended device")

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy; use Tensor.cpu() first")

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> OnDevice:
        if id(self) not in memo:
            with torch.no_grad():
                new = OnDevice(self.held.clone())
            new.__dict__ |= {name: value for name, value in vars(self).items() if name != "held"}
            memo[id(self)] = new.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __repr__(self, **_: Any) -> str:
        return f"OnDevice({self.held!r})"


def is_device(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cuda"


def leaves(tree: Any) -> Iterator[Any]:
    """What is in nested lists, tuples and dictionaries."""
    if isinstance(tree, list | tuple | dict):
        for inner in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(inner)
    else:
        yield tree


def mapped(change: Callable[[Any], Any], tree: Any) -> Any:
    """The same lists, tuples and dictionaries with their leaves changed."""
    if isinstance(tree, list | tuple):
        return type(tree)([mapped(change, inner) for inner in tree])
    if isinstance(tree, dict):
        return {key: mapped(change, inner) for key, inner in tree.items()}
    return change(tree)


class Call:
    """A call of an operation: its name, all its arguments, and the tensors among them."""

    def __init__(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.name = func._schema.name.partition("::")[2]
        self.leaves = [*leaves(args), *leaves(kwargs)]
        tensors = [leaf for leaf in self.leaves if isinstance(leaf, Tensor)]
        self.ours = [one for one in tensors if isinstance(one, OnDevice)]
        self.host = [one for one in tensors if not isinstance(one, OnDevice)]


@cache
def is_composite(func: Any) -> bool:
    """Whether autograd sees the parts of an operation instead of itself."""
    key = "CompositeImplicitAutograd"
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)


COPIES = {"_to_copy", "copy_"}  # between host and device
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
OF_CUDA = {"device", "pin_memory", "non_blocking"}  # arguments without meaning on the host
# Besides views: what only allocates, or changes no memory.
FREE = {
    "_unsafe_view", "detach", "detach_", "empty", "empty_like", "empty_strided", "lift_fresh",
    "new_empty", "new_empty_strided", "resize_", "set_",
}  # fmt: skip
# The size of the result, or the result itself, is needed on the host.
WAITS = {
    "_local_scalar_dense", "_unique2", "equal", "is_nonzero", "masked_select", "nonzero",
    "unique_consecutive", "unique_dim",
}  # fmt: skip
# cuBLAS is deterministic only with one of these (torch.use_deterministic_algorithms).
PRODUCTS = {"addbmm", "addmm", "addmv", "baddbmm", "bmm", "dot", "mm", "mv"}
WORKSPACES = (":4096:8", ":16:8")

# What throws under torch.use_deterministic_algorithms(True): the entries of its documentation
# (torch 2.13, "will throw a RuntimeError"), and their operations of ATen.
DOCUMENTED = {
    "torch.nn.AvgPool3d": ["avg_pool3d_backward"],
    "torch.nn.AdaptiveAvgPool2d": ["_adaptive_avg_pool2d_backward"],
    "torch.nn.AdaptiveAvgPool3d": ["_adaptive_avg_pool3d_backward"],
    "torch.nn.AdaptiveMaxPool2d": ["adaptive_max_pool2d_backward"],
    "torch.nn.FractionalMaxPool2d": ["fractional_max_pool2d_backward"],
    "torch.nn.FractionalMaxPool3d": ["fractional_max_pool3d_backward"],
    "torch.nn.MaxUnpool1d": ["max_unpool2d"],
    "torch.nn.MaxUnpool2d": ["max_unpool2d"],
    "torch.nn.MaxUnpool3d": ["max_unpool3d"],
    "torch.nn.functional.interpolate": [
        "upsample_linear1d_backward", "upsample_bilinear2d_backward", "upsample_bicubic2d_backward",
        "upsample_trilinear3d_backward",
    ],
    "torch.nn.ReflectionPad1d": ["reflection_pad1d_backward"],
    "torch.nn.ReflectionPad2d": ["reflection_pad2d_backward"],
    "torch.nn.ReflectionPad3d": ["reflection_pad3d_backward"],
    "torch.nn.NLLLoss": ["nll_loss2d_forward"],
    "torch.nn.CTCLoss": ["_ctc_loss_backward"],
    "torch.nn.EmbeddingBag": ["_embedding_bag_dense_backward"],
    "torch.Tensor.put_": ["put", "put_"],
    "torch.histc": ["histc"],
    "torch.bincount": ["bincount"],
    "torch.median": ["median", "nanmedian"],
    "torch.nn.functional.grid_sample": ["grid_sampler_2d_backward", "grid_sampler_3d_backward"],
    "torch.cumsum": ["cumsum", "cumsum_"],
    "torch.Tensor.scatter_reduce": ["scatter_reduce", "scatter_reduce_"],
    "torch.Tensor.resize_": [],  # of quantised tensors
}  # fmt: skip
REFUSED = {name for names in DOCUMENTED.values() for name in names}


def misplaced(call: Call) -> list[Tensor]:
    """Tensors of the host that must not meet those of the device. Its scalars may."""
    if call.name in COPIES:
        return []
    wrong = [one for one in call.host if one.dim()]
    if call.name in INDEXING and isinstance(call.args[0], OnDevice):
        indices = {id(leaf) for leaf in leaves(call.args[1])}
        wrong = [one for one in wrong if id(one) not in indices]
    return wrong


def is_refused(call: Call) -> bool:
    """Whether torch's deterministic mode refuses an operation on a device."""
    args = call.args
    match call.name:
        case "nll_loss2d_forward":  # its mean and sum; the source (NLLLoss2d.cu) refuses no other
            return args[3] != 0
        case "_embedding_bag_dense_backward":
            return args[7] == 2  # mode "max"
        case "bincount":
            return args[1:2] not in ((), (None,)) or call.kwargs.get("weights") is not None
        case "cumsum" | "cumsum_":
            return args[0].is_floating_point() or args[0].is_complex()
        case "median" | "nanmedian":
            return len(args) > 1  # with indices
        case "scatter_reduce" | "scatter_reduce_":
            return args[4] == "prod"
    return call.name in REFUSED


def is_free(call: Call) -> bool:
    """Whether an operation starts no kernel: views, and what only allocates."""
    return call.func.is_view or call.name in FREE


def waits(call: Call) -> Iterator[str]:
    """Yield what the host waits for in an operation, if anything."""
    name, args = call.name, call.args
    if name in WAITS or (name == "repeat_interleave" and call.kwargs.get("output_size") is None):
        yield name
    if name == "_to_copy" and not call.ours:
        if not getattr(args[0], "pinned", False):
            yield "copy from pageable memory"
        elif not call.kwargs.get("non_blocking"):
            yield "blocking copy to the device"
    if name == "copy_" and call.host:
        yield "copy to the device" if isinstance(args[0], OnDevice) else "copy to the host"
    if name in INDEXING:
        indices = [one for one in leaves(args[1]) if isinstance(one, Tensor)]
        if any(not isinstance(one, OnDevice) for one in indices):
            yield "indices on the host"
        # Setting one number of the host is `masked_fill`, which needs no size.
        filled = "put" in name and not (args[2].dim() or isinstance(args[2], OnDevice))
        if any(one.dtype in (torch.bool, torch.uint8) for one in indices) and not filled:
            yield "indices from a mask"


# --- attention, which the processor has in other operations

Attended = tuple[Tensor, Tensor, Tensor, Tensor]


def _weights(q: Tensor, k: Tensor, bias: Tensor | None, scale: float | None) -> Tensor:
    logits = q.float() @ k.float().transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    return (logits if bias is None else logits + bias.float()).softmax(-1)


def _mask(weights: Tensor, rate: float, seed: Tensor) -> Tensor:
    """A dropout mask with its scale, drawn from a seed, so that it can be drawn again."""
    if not rate:
        return torch.ones(())
    generator = torch.Generator().manual_seed(int(seed))
    drawn = torch.rand(weights.shape, generator=generator)
    return (drawn >= rate).float() / (1 - rate)


def _rows_first(states: Tensor, kind: torch.dtype) -> Tensor:
    """States (n, heads, length, d) as the kernels lay them out: heads of a token side by side."""
    return states.to(kind).transpose(1, 2).contiguous().transpose(1, 2)


def _attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, lse: bool, rate: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None,
) -> Attended:  # fmt: skip
    """`_scaled_dot_product_efficient_attention` of (n, heads, length, d)."""
    assert not is_causal
    seed, weights = torch.randint(2**62, ()), _weights(q, k, bias, scale)
    out = _rows_first(weights * _mask(weights, rate, seed) @ v.float(), q.dtype)
    return out, weights.new_zeros(weights.shape[:-1] if lse else (0,)), seed, torch.zeros_like(seed)


def _attention_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, out: Tensor, lse: Tensor,
    seed: Tensor, offset: Tensor, rate: float, wanted: Sequence[bool], is_causal: bool = False,
    *, scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor, None]:  # fmt: skip
    assert not wanted[3]
    weights = _weights(q, k, bias, scale)
    mask, grad = _mask(weights, rate, seed), grad.float()
    slopes = (grad @ v.float().transpose(-1, -2)) * mask
    logits = weights * (slopes - (slopes * weights).sum(-1, keepdim=True))
    logits = logits * (scale or q.shape[-1] ** -0.5)
    grads = logits @ k.float(), logits.transpose(-1, -2) @ q.float()
    grads = *grads, (weights * mask).transpose(-1, -2) @ grad
    return *(_rows_first(one, q.dtype) for one in grads), None


EMULATED = {
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_efficient_attention_backward": _attention_backward,
    "_efficient_attention_forward": varlen_attention.forward,
    "_efficient_attention_backward": varlen_attention.backward,
}
