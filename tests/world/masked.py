"""Loss of masked tokens."""

from __future__ import annotations

from typing import Any

import torch


def masked_loss(model: Any, tokenizer: Any, ids: torch.Tensor, place: int) -> float:
    """The cross-entropy of the token at `place` of a sentence, `ids` (1, n), where it is masked."""
    masked = ids.clone()
    masked[0, place] = tokenizer.mask_token_id
    with torch.no_grad():
        logits = model(masked).logits[0, place]
    return torch.nn.functional.cross_entropy(logits, ids[0, place]).item()
