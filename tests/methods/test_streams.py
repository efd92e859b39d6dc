"""Named random streams, and what `methods.base` exports."""

import torch

from bench.registry.methods import method_classes
from methods.base import seed_torch, stream
from tests.methods.outside import Patch


def test_seed_torch_draws_as_manual_seed_does() -> None:
    for seed in (0, 1111, 2**63 - 1):
        torch.manual_seed(seed)
        expected = torch.rand(5), torch.nn.functional.dropout(torch.ones(100))
        seed_torch(seed)
        drawn = torch.rand(5), torch.nn.functional.dropout(torch.ones(100))
        assert all(map(torch.equal, drawn, expected))


def test_seed_torch_leaves_cuda_alone_on_the_cpu(monkeypatch: Patch) -> None:
    calls = []
    monkeypatch.setattr(torch.cuda, "_lazy_call", lambda *given, **named: calls.append(given))
    monkeypatch.setattr(torch.cuda.random, "_lazy_call", torch.cuda._lazy_call)
    torch.manual_seed(1)
    assert calls, "torch.manual_seed no longer calls CUDA, so seed_torch is not needed"
    calls.clear()
    seed_torch(1, "cpu")
    assert not calls


def test_a_stream_does_not_use_the_global_generator() -> None:
    before = torch.get_rng_state()
    assert torch.equal(
        torch.rand(3, generator=stream(1, "a", 2)), torch.rand(3, generator=stream(1, "a", 2))
    )
    assert not torch.equal(
        torch.rand(3, generator=stream(1, "a", 2)), torch.rand(3, generator=stream(1, "a", 3))
    )
    assert torch.equal(torch.get_rng_state(), before)


def test_methods_base_exports_what_it_names_and_no_base_class_is_a_method() -> None:
    modules = {cls.__module__ for cls in method_classes().values()}
    assert not modules & {
        f"methods.{name}" for name in ("base", "contract", "contrastive", "transform", "compose")
    }
