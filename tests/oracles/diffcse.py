"""DiffCSE's loss from the formulas and the released code (voidism/DiffCSE@f724b2c), with
transformers' own forward passes."""

import copy

import torch
from torch import nn

from tests.oracles.hard_negatives import standardised
from tests.oracles.methods import log_sum


class Fixed(nn.Module):
    """In the place of a transformer's embedding layer: it returns what it was given."""

    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, **_):
        return self.output


def projected(vectors, first, scale, shift, last):
    """diffcse/models.py:35-50, of all 2n rows together."""
    inner = vectors @ first.T
    inner = torch.stack(standardised(inner), dim=1) * scale + shift
    outer = torch.where(inner > 0, inner, 0) @ last.T
    return torch.stack(standardised(outer), dim=1)


def detection(discriminator, weight, bias, tokens, filled, vectors, pad, padded):
    """models.py:183-200 and 260-273: cross-entropy over all positions, or over words alone."""
    longest = max(map(len, tokens))
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in filled])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in filled])
    embedded = discriminator.embeddings(input_ids=ids)
    embedded = torch.cat([vectors.unsqueeze(1), embedded[:, 1:]], dim=1)
    reader = copy.copy(discriminator)
    reader._modules = {**discriminator._modules, "embeddings": Fixed(embedded)}
    states = reader(input_ids=ids, attention_mask=mask).last_hidden_state
    losses = []
    for i, (row, new) in enumerate(zip(tokens, filled, strict=True)):
        for j in range(longest if padded else len(row)):
            label = int(j < len(row) and row[j] != new[j])
            logits = weight @ states[i, j] + bias
            losses.append(log_sum(logits) - logits[label])
    return sum(losses) / len(losses)


def filled_in(generator, masked, first):
    """models.py:183-187: the most likely token everywhere but at the first place."""
    rows = []
    for row, start in zip(masked, first, strict=True):
        with torch.no_grad():
            logits = generator(input_ids=torch.tensor([row])).logits[0]
        rows.append([start, *logits.argmax(dim=-1).tolist()[1:]])
    return rows
