"""Attention of packed sequences by functions that every device has."""

import torch
from torch.nn import functional as F


def attend_padded(queries, keys, values, ends, key_ends, longest, longest_keys, rate):
    """`bench.models.fused_forward.attend_fused` on padded sequences."""
    padded = [
        torch.nn.utils.rnn.pad_sequence(list(rows.split(of.diff().tolist())), batch_first=True)
        for rows, of in ((queries, ends), (keys, key_ends), (values, key_ends))
    ]
    lengths, key_lengths = ends.diff(), key_ends.diff()
    real = torch.arange(padded[1].shape[1], device=ends.device) < key_lengths[:, None]
    query, key, value = (states.transpose(1, 2) for states in padded)
    mixed = F.scaled_dot_product_attention(query, key, value, real[:, None, None], rate)
    mixed = mixed.transpose(1, 2)
    return mixed[torch.arange(mixed.shape[1], device=ends.device) < lengths[:, None]]
