"""Named random streams."""

import torch

from methods.base import seed_torch, stream_seed


def test_seed_torch_draws_as_manual_seed_does():
    for seed in (0, 1111, 2**63 - 1):
        torch.manual_seed(seed)
        expected = torch.rand(5), torch.nn.functional.dropout(torch.ones(100))
        seed_torch(seed)
        drawn = torch.rand(5), torch.nn.functional.dropout(torch.ones(100))
        assert all(map(torch.equal, drawn, expected))


def test_the_seed_of_a_stream():
    assert stream_seed(42, "order", 0) == 1186917750850176449  # docs/reference/protocol.md
