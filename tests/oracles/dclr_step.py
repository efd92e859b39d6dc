"""A step of DCLR's released code, restated with transformers' own padded forward pass; nothing of
`methods` is imported."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def released_step(
    model: Any,
    dense: Sequence[tuple[Tensor, Tensor]],
    complement: Any,
    rows: Sequence[Sequence[int]],
    pad: int,
    noise: Tensor,
    phi: float,
    t: float = 0.05,
) -> tuple[Tensor, int]:
    """Return the loss of a batch without dropout, and how many pairs were false negatives.

    Args:
        model: a transformer; nothing masks padding (simcse/models.py:561-567).
        dense: weight and bias of each layer with tanh above its first token (:571, 588-589).
        complement: a transformer with a pooler of its own.
        rows: token ids of the n sentences.
        pad: token id of padding.
        noise: (int(times * n), d), before the ascent.
        phi, t: threshold and temperature.

    Source: RUCAIBox/DCLR@e2c3430.
    """
    longest = max(len(row) for row in rows)
    ids = torch.tensor([list(row) + [pad] * (longest - len(row)) for row in rows])
    seen = torch.ones_like(ids)
    z = model(input_ids=ids, attention_mask=seen).last_hidden_state[:, 0]
    for weight, bias in dense:
        z = torch.tanh(z @ weight.T + bias)
    fixed = complement(input_ids=ids, attention_mask=seen).pooler_output.detach()

    def scores(a: Tensor, b: Tensor) -> Tensor:
        return F.cosine_similarity(a.unsqueeze(1), b.unsqueeze(0), dim=-1) / t

    labels = torch.arange(len(rows))
    for _ in range(4):  # :686-694
        noise = noise.detach().requires_grad_()
        loss = F.cross_entropy(torch.cat([scores(z, z), scores(z, noise)], 1), labels)
        (gradient,) = torch.autograd.grad(loss, noise, retain_graph=True)
        noise = noise + 1e-3 * gradient / gradient.norm(dim=-1, keepdim=True)
    noise = noise.detach()
    kept = torch.where(scores(fixed, fixed) > phi / t, 0.0, 1.0)  # :705-707
    kept[labels, labels] = 1.0
    shares = torch.cat([scores(z, z) * kept, scores(z, noise)], 1).softmax(1)  # :708-710
    own = torch.zeros_like(shares)
    own[labels, labels] = 1.0
    loss = -(own * shares.log() + (1 - own) * (1 - shares).log()).mean()
    return loss, int((kept == 0).sum())
