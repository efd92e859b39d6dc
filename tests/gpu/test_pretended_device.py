"""The pretended device itself: what it refuses, records and computes."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.conftest import CLOSE
from tests.support.device_operations import CUDA, DOCUMENTED, OnDevice
from tests.support.pretended_device import PretendedDevice, pretended_device


def ones(*shape: int, **how: Any) -> Tensor:
    return torch.ones(*shape, device="cuda", **how)


def host_generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def pinned() -> Tensor:
    return torch.ones(3).pin_memory()


SAME = "Expected all tensors to be on the same device"
GENERATOR = "Expected a 'cuda' device type for generator"
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "sum": (lambda: ones(3) + torch.ones(3), SAME),
    "product": (lambda: ones(3, 3) @ torch.ones(3, 3), SAME),
    "stack": (lambda: torch.stack([ones(3), torch.ones(3)]), SAME),
    "weights": (lambda: nn.Linear(3, 3)(ones(2, 3)), SAME),
    "labels": (lambda: F.cross_entropy(ones(2, 3), torch.tensor([0, 1])), SAME),
    "in place": (lambda: torch.zeros(3).add_(ones(3)), SAME),
    "rows of the host by the device": (lambda: torch.ones(3)[ones(2).long()], SAME),
    "draw": (lambda: torch.randn(3, device="cuda", generator=host_generator()), GENERATOR),
    "draw in place": (lambda: ones(3).bernoulli_(0.1, generator=host_generator()), GENERATOR),
    "draw on the host": (
        lambda: torch.rand(3, generator=torch.Generator("cuda")),
        "Expected a 'cpu' device type for generator",
    ),
    "numpy": (lambda: ones(3).numpy(), "use Tensor.cpu"),
    "mask of another type": (
        lambda: F.scaled_dot_product_attention(*3 * [ones(1, 1, 2, 8)], ones(2, 2).half()),
        "attn_mask",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_what_cuda_refuses(name: str, device: PretendedDevice) -> None:
    made, words = REFUSED[name]
    with pytest.raises((RuntimeError, TypeError), match=words):
        made()


# An operation, its launches, and what the host waits for.
RECORDED: dict[str, tuple[Callable[[Tensor], Any], dict[str, int], list[str]]] = {
    "views": (lambda x: x.view(3, 1).T[0].expand(2, 3).detach(), {}, []),
    "scalar of the host": (lambda x: x * torch.tensor(2.0), {"mul": 1}, []),
    "number": (lambda x: x.sum().item(), {"sum": 1, "_local_scalar_dense": 1},
               ["_local_scalar_dense"]),
    "condition": (lambda x: bool(x.any()), {"any": 1, "_local_scalar_dense": 1},
                  ["_local_scalar_dense"]),
    "to the host": (lambda x: x.cpu(), {"copy to the host": 1}, ["copy to the host"]),
    "list": (lambda x: x.tolist(), {"copy to the host": 1}, ["copy to the host"]),
    "from pageable memory": (lambda x: torch.ones(3).to(x, non_blocking=True),
                             {"copy to the device": 1}, ["copy from pageable memory"]),
    "pinned, blocking": (lambda x: pinned().to(x), {"copy to the device": 1},
                         ["blocking copy to the device"]),
    "pinned": (lambda x: pinned().to("cuda", non_blocking=True), {"copy to the device": 1}, []),
    "already there": (lambda x: x.to("cuda").to(x).cuda(), {}, []),
    "another type": (lambda x: x.to("cuda", torch.float16), {"_to_copy": 1}, []),
    "rows of a mask": (lambda x: x[x > 0], {"gt": 1, "index": 1}, ["indices from a mask"]),
    "fill by a mask": (lambda x: x.clone().index_put_((x > 0,), torch.tensor(0.0)),
                       {"clone": 1, "gt": 1, "index_put_": 1}, []),
    "rows by the host": (lambda x: x[torch.tensor([0])], {"index": 1}, ["indices on the host"]),
    "attention": (lambda x: F.scaled_dot_product_attention(*3 * [x.view(1, 1, 3, 1)]),
                  {"_scaled_dot_product_efficient_attention": 1}, []),
    "dropout": (lambda x: F.dropout(x, 0.5), {"native_dropout": 1}, []),
    "classes": (lambda x: F.one_hot(x.long(), 3), {"_to_copy": 1, "zeros": 1, "scatter_": 1}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_records_launches_and_waits(name: str, device: PretendedDevice) -> None:
    made, launches, waits = RECORDED[name]
    values = ones(3)
    with device.recorded() as seen:
        made(values)
    assert seen.launches == launches
    assert [kind for kind, _ in seen.waits] == waits
    places = {place for _, place in seen.waits}
    assert all(place.startswith("tests/gpu/test_pretended_device.py::") for place in places)


def test_a_trace_has_shapes_types_and_numbers(device: PretendedDevice) -> None:
    traces = []
    for size, factor in ((3, 2.0), (3, 2.0), (4, 2.0), (3, 3.0)):
        with device.recorded(trace=True) as seen:
            ones(size).mul_(torch.tensor(factor)).add_(factor)
        traces.append(seen.trace)
    first, same, longer, other = traces
    assert [name for name, _, _ in first] == ["aten.ones.default", "aten.mul_.Tensor",
                                              "aten.add_.Tensor"]  # fmt: skip
    assert first == same
    assert [a == b for a, b in zip(first, longer, strict=True)] == [False, False, False]
    assert [a == b for a, b in zip(first, other, strict=True)] == [True, False, False]


def test_attention_and_its_gradient_equal_the_hosts(device: PretendedDevice) -> None:
    drawn = torch.randn(4, 2, 3, 5, 8, generator=host_generator(), dtype=torch.float64).float()
    mask = torch.zeros(2, 1, 1, 5).masked_fill_(torch.arange(5) > 2, -torch.inf)
    grads = []
    for move in (lambda one: one, lambda one: one.to("cuda")):
        leaves = [move(one.clone()).requires_grad_() for one in drawn[:3]]
        found = F.scaled_dot_product_attention(*leaves, attn_mask=move(mask))
        (found * move(drawn[3])).sum().backward()
        grads.append([found.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)])
    for host, own in zip(*grads, strict=True):
        torch.testing.assert_close(own, host, **CLOSE)


def test_attention_draws_the_mask_of_its_forward_pass_again(device: PretendedDevice) -> None:
    """With values of ones, the output and its gradient with respect to a value are weights."""
    torch.cuda.manual_seed(3)
    q, v = ones(1, 1, 6, 8), ones(1, 1, 6, 8).requires_grad_()
    found = F.scaled_dot_product_attention(q, q, v, dropout_p=0.5)
    found.sum().backward()
    assert found.sum().item() == pytest.approx(v.grad.sum().item(), rel=1e-5)
    assert len(found[0, 0, :, 0].detach().unique()) > 1


AUTOCAST: dict[str, tuple[Callable[[Tensor], Tensor], torch.dtype]] = {
    "product": (lambda x: x @ x, torch.float16),
    "einsum": (lambda x: torch.einsum("ab,bc->ac", x, x), torch.float16),
    "linear": (lambda x: F.linear(x, x, x[0]), torch.float16),
    "layer norm": (lambda x: F.layer_norm(x @ x, (3,)), torch.float32),
    "softmax": (lambda x: (x @ x).softmax(-1), torch.float32),
    "power": (lambda x: (x @ x) ** 2, torch.float32),
    "norm": (lambda x: (x @ x).norm(), torch.float32),
    "sum": (lambda x: (x @ x).sum(), torch.float32),
    "loss": (lambda x: F.cross_entropy(x @ x, ones(3).long()), torch.float32),
    "tanh": (lambda x: (x @ x).tanh(), torch.float16),
    "half and float": (lambda x: x @ x + x, torch.float32),
}


@pytest.mark.parametrize("name", AUTOCAST)
def test_autocast_gives_the_types_of_cuda(name: str, device: PretendedDevice) -> None:
    made, kind = AUTOCAST[name]
    with torch.autocast("cuda", dtype=torch.float16):
        assert made(ones(3, 3)).dtype == kind
    assert made(ones(3, 3)).dtype == torch.float32


def test_random_numbers_are_the_devices_own(device: PretendedDevice) -> None:
    def drawn(seed: int) -> list[float]:
        torch.cuda.manual_seed(seed)
        return [*F.dropout(ones(8), 0.5).tolist(), *torch.rand(2, device="cuda").tolist()]

    before = torch.get_rng_state()
    assert drawn(1) == drawn(1) != drawn(2)
    assert torch.equal(before, torch.get_rng_state())
    generators = [torch.Generator("cuda").manual_seed(seed) for seed in (1, 1, 2)]
    first, same, other = (
        [*torch.randn(3, device="cuda", generator=one).tolist(),
         *ones(3).uniform_(generator=one).tolist()] for one in generators
    )  # fmt: skip
    assert first == same != other


def test_a_module_moves_with_its_parameters(device: PretendedDevice) -> None:
    """Parameters stay the same objects, tied ones stay tied, and a copy is on the device."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    before = list(model.parameters())
    model.to("cuda")
    assert all(one is other for one, other in zip(before, model.parameters(), strict=True))
    assert model[1].weight is model[0].weight
    twin = copy.deepcopy(model)
    for one in (*model.parameters(), *twin.parameters()):
        assert isinstance(one, nn.Parameter)
        assert isinstance(one, OnDevice)
        assert (one.device, one.is_cuda, one.is_cpu) == (CUDA, True, False)
    with torch.no_grad():
        twin[0].weight.zero_()
    assert model[0].weight.abs().sum().item() > 0
    assert nn.Linear(2, 2).to(twin[0].weight).bias.device == CUDA
    assert twin[0].weight is twin[1].weight


def test_the_documented_list_of_refused_operations_is_complete() -> None:
    """Of this version of torch."""
    described = torch.use_deterministic_algorithms.__doc__ or ""
    throwing = r"will throw a\s+:class:`RuntimeError` when ``mode=True``:(.*?)In addition"
    (listed,) = re.findall(throwing, described, re.DOTALL)
    assert set(re.findall(r"\* :\w+:`([\w.]+)`", listed)) == DOCUMENTED.keys()


THROWS: dict[str, Callable[[], Any]] = {
    "cumsum": lambda: ones(3).cumsum(0),
    "histc": lambda: ones(3).histc(2),
    "median": lambda: ones(3).median(0),
    "bincount": lambda: ones(3).long().bincount(ones(3)),
    "nll_loss2d_forward": lambda: F.nll_loss(ones(1, 2, 2, 2), ones(1, 2, 2).long()),
    "scatter_reduce": lambda: ones(3).scatter_reduce(0, ones(3).long(), ones(3), "prod"),
    "put_": lambda: ones(3).put_(ones(1).long(), ones(1)),
    "upsample_linear1d_backward": lambda: (
        F.interpolate(ones(1, 1, 2).requires_grad_(), size=3, mode="linear").sum().backward()
    ),
    "max_unpool2d": lambda: F.max_unpool1d(ones(1, 1, 1), ones(1, 1, 1).long(), 2),
}
HARMLESS: dict[str, Callable[[], Any]] = {
    "cumsum of whole numbers": lambda: ones(3).long().cumsum(0),
    "bincount without weights": lambda: ones(3).long().bincount(),
    "median without places": lambda: ones(3).median(),
    "loss of rows": lambda: F.cross_entropy(ones(2, 3), ones(2).long()),
    "sum by scatter": lambda: ones(3).scatter_reduce(0, ones(3).long(), ones(3), "sum"),
}


@pytest.mark.parametrize("name", THROWS)
def test_refuses_what_deterministic_mode_refuses(name: str, device: PretendedDevice) -> None:
    with device.recorded() as seen:
        THROWS[name]()
    assert [operation for operation, _ in seen.refused] == [name]
    torch.set_deterministic_debug_mode("error")
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
        THROWS[name]()


@pytest.mark.parametrize("name", HARMLESS)
def test_other_forms_are_not_refused(name: str, device: PretendedDevice) -> None:
    torch.set_deterministic_debug_mode("error")
    with device.recorded() as seen:
        HARMLESS[name]()
    assert not seen.refused


def test_products_need_the_workspace_of_cublas(
    device: PretendedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_deterministic_debug_mode("error")
    ones(3, 3) @ ones(3, 3)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    with pytest.raises(RuntimeError, match="CUBLAS_WORKSPACE_CONFIG"):
        ones(3, 3) @ ones(3, 3)


def test_afterwards_torch_is_as_before() -> None:
    before = (torch.autocast, torch.Generator, torch.cuda.is_available(), Tensor.pin_memory)
    with pretended_device():
        left = ones(3)
        assert torch.cuda.is_available()
    assert (torch.autocast, torch.Generator, torch.cuda.is_available(), Tensor.pin_memory) == before
    assert torch.ones(3).to("cpu").device.type == "cpu"
    with pytest.raises(RuntimeError, match="outside of the block"):
        left + 1
    with pytest.raises((RuntimeError, AssertionError)):
        ones(3)
