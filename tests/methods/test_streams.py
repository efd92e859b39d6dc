"""Named random streams."""

import torch

from methods.base import seed_torch, stream, stream_seed


def test_seed_torch_draws_as_manual_seed_does():
    for seed in (0, 1111, 2**63 - 1):
        torch.manual_seed(seed)
        expected = torch.rand(5), torch.nn.functional.dropout(torch.ones(100))
        seed_torch(seed)
        drawn = torch.rand(5), torch.nn.functional.dropout(torch.ones(100))
        assert all(map(torch.equal, drawn, expected))


def test_a_stream_is_of_its_names_and_not_of_the_global_generator():
    state = torch.get_rng_state()
    first, second, third = (torch.rand(3, generator=stream(1, "a", step)) for step in (2, 2, 3))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert torch.equal(torch.get_rng_state(), state)
    assert stream_seed(42, "order", 0) == 1186917750850176449  # docs/reference/protocol.md
