"""CoT-BERT's loss of a batch (ZBWpro/CoT-BERT@3aa7bb4, models.py), one sentence at a time."""

import torch

from tests.oracles.methods import log_sum, similarity


def state(model, ids, mask_id, first=None):
    """The last state at the last mask; positions from `first` on, by default the model's own."""
    given = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids))}
    if first is not None:
        given["position_ids"] = torch.tensor([[first + i for i in range(len(ids))]])
    return model(**given).last_hidden_state[0, -1 - ids[::-1].index(mask_id)]


def vector(context, template, text, longest, *, denoise, aligned):
    """models.py:196-229: the mask's state, less the state around padding, through the head."""
    tokenizer, model = context.tokenizer, context.backbone
    left, right = template.replace("<mask>", tokenizer.mask_token).split("<sentence>")
    before, behind = tokenizer(left)["input_ids"][:-1], tokenizer(right)["input_ids"][1:]
    words = tokenizer(text, add_special_tokens=False)["input_ids"][:longest]
    found = state(model, [*before, *words, *behind], tokenizer.mask_token_id)
    if denoise:
        padding = [tokenizer.pad_token_id] * len(words)
        roberta = model.config.model_type == "roberta"
        first = (2 if roberta else 0) if aligned else None
        found = found - state(model, [*before, *padding, *behind], tokenizer.mask_token_id, first)
    dense = context.training_head[0]
    return torch.tanh(dense.weight @ found + dense.bias)


def loss(anchors, positives, negatives, temperature, cross):
    """models.py:288-334: 3n candidates, the own positive the right one; no negatives: n."""
    losses = []
    for i in range(len(anchors)):
        scores = [similarity(anchors[i], v) / temperature for v in [*positives, *negatives]]
        if cross:
            scores += [similarity(positives[i], v) / temperature for v in negatives]
        losses.append(log_sum(scores) - scores[i])
    return sum(losses) / len(losses)
