"""Vectors of PromptBERT and CoT-BERT, one sentence at a time, by transformers' own forward pass;
CoT-BERT's loss (ZBWpro/CoT-BERT@3aa7bb4, models.py)."""

import torch

from tests.oracles.methods import log_sum, similarity


def state(model, ids, mask_id, positions=None, layer=-1):
    """A layer's state at the last mask; `positions` are the model's own by default."""
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids))}
    if positions is not None:
        inputs["position_ids"] = torch.tensor([positions])
    states = model(**inputs, output_hidden_states=True).hidden_states[layer]
    return states[0, -1 - ids[::-1].index(mask_id)]


def parts(template, tokenizer):
    """The pieces before and behind the sentence, special tokens included."""
    left, right = template.replace("<mask>", tokenizer.mask_token).split("<sentence>")
    return tokenizer(left)["input_ids"][:-1], tokenizer(right)["input_ids"][1:]


def verdict_legend(text, tokenizer, longest=None):
    return tokenizer(text, add_special_tokens=False)["input_ids"][:longest]


def first_of(model, from_zero=False):
    """The position of the first token, on RoBERTa behind that of padding."""
    return 2 if model.config.model_type == "roberta" and not from_zero else 0


def alone(context, template, gap, first, layer=-1):
    """The state at the mask without the sentence; what stands behind it keeps the positions `gap`
    pieces further."""
    before, behind = parts(template, context.tokenizer)
    positions = [first + place for place in range(len(before))]
    positions += [first + len(before) + gap + place for place in range(len(behind))]
    mask_id = context.tokenizer.mask_token_id
    return state(context.backbone, [*before, *behind], mask_id, positions, layer)


def around(context, template, words, layer=-1):
    """The state at the mask around a sentence."""
    before, behind = parts(template, context.tokenizer)
    ids = [*before, *words, *behind]
    return state(context.backbone, ids, context.tokenizer.mask_token_id, layer=layer)


def around_padding(context, template, length, aligned):
    """The same around padding (models.py:196-229); RoBERTa gives it no positions unless
    `aligned`."""
    before, behind = parts(template, context.tokenizer)
    ids = [*before, *[context.tokenizer.pad_token_id] * length, *behind]
    first = first_of(context.backbone)
    positions = [first + place for place in range(len(ids))] if aligned else None
    return state(context.backbone, ids, context.tokenizer.mask_token_id, positions)


def loss(anchors, positives, negatives, temperature, cross):
    """models.py:288-334: 3n candidates, the own positive the right one; no negatives: n."""
    losses = []
    for i in range(len(anchors)):
        scores = [similarity(anchors[i], v) / temperature for v in [*positives, *negatives]]
        if cross:
            scores += [similarity(positives[i], v) / temperature for v in negatives]
        losses.append(log_sum(scores) - scores[i])
    return sum(losses) / len(losses)
