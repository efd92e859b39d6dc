"""Oracles of the methods outside the formula, as loops over sentences; see `methods`."""

import torch

from tests.oracles.methods import log_sum, named_generator, similarity


def softplus(x):
    """log(1 + e^x)."""
    return x + (-x).exp().log1p() if x.item() > 0 else x.exp().log1p()


# IS-BERT


def convolved(sentence, kernels, relu):
    """c_l = f(w . [h_{l - k/2} .. h_{l + k/2}] + b) for each window k, concatenated; zeros beyond
    the sentence.

    `kernels`: of each window its weights (channels, width, k) and biases (channels).
    """
    features = []
    for place in range(len(sentence)):
        windows = []
        for weights, biases in kernels:
            total = biases
            for offset in range(weights.shape[2]):
                position = place + offset - weights.shape[2] // 2
                if 0 <= position < len(sentence):
                    total = total + weights[:, :, offset] @ sentence[position]
            windows.append(total)
        feature = torch.cat(windows)
        features.append(torch.where(feature > 0, feature, 0) if relu else feature)
    return features


def is_bert(batch, kernels, relu):
    """1/T sum_x sum_{l in x} sp(-c_l . E(x)) + 1/(T (n - 1)) sum_x sum_{l in x} sum_{x' != x}
    sp(c_l . E(x'))."""
    local = [convolved(sentence, kernels, relu) for sentence in batch]
    means = [sum(features) / len(features) for features in local]
    tokens = sum(map(len, local))
    positive, negative = 0, 0
    for i, features in enumerate(local):
        for c in features:
            for j, mean in enumerate(means):
                if i == j:
                    positive = positive + softplus(-(c @ mean))
                else:
                    negative = negative + softplus(c @ mean)
    return positive / tokens + negative / (tokens * max(len(batch) - 1, 1))


# Contrastive Tension


def tension(first, second):
    """Mean of -log sigma(f1 . f2) of the positive pairs and -log(1 - sigma(f1 . f2)) of others."""
    losses = []
    for left, right in zip(first, second, strict=True):
        for k in range(len(left)):
            logit = left[k] @ right[k]
            losses.append(softplus(-logit) if k == 0 else softplus(logit))
    return sum(losses) / len(losses)


def tension_rows(seed, index, groups, negatives, sentences, anchored):
    """(row of f1, row of f2) of each pair of each group."""
    draw = named_generator(seed, "ct-bert", index)
    positives = torch.randint(sentences, (groups,), generator=draw).tolist()
    if anchored:
        offsets = torch.randint(1, sentences, (groups, negatives), generator=draw).tolist()
        return [
            [(s, s), *((s, (s + offset) % sentences) for offset in offsets[g])]
            for g, s in enumerate(positives)
        ]
    # Training.py:18-35 of Contrastive-Tension@75293a8: K of one list for each model in turn.
    fresh = torch.randint(sentences, (groups * negatives * 2,), generator=draw).tolist()
    result = []
    for s in positives:
        first, second = fresh[:negatives], fresh[negatives : 2 * negatives]
        fresh = fresh[2 * negatives :]
        result.append([(s, s), *zip(first, second, strict=True)])
    return result


def tension_rate(step):
    """Training.py:13-14: TensorFlow's PiecewiseConstantDecay, which keeps a value up to and with
    its boundary; `step` counts the updates before."""
    boundaries, values = [500, 1000, 1500, 2000], [1e-5, 8e-6, 6e-6, 4e-6, 2e-6]
    for boundary, value in zip(boundaries, values, strict=False):
        if step <= boundary:
            return value
    return values[-1]


# ConSERT


def nt_xent(first, second, t):
    """Mean over 2N vectors of -log( e^{sim(r_i, r_j)/t} / sum_{k != i} e^{sim(r_i, r_k)/t} )."""
    r, n = [*first, *second], len(first)
    losses = []
    for i in range(2 * n):
        j = i + n if i < n else i - n
        scores = [similarity(r[i], r[k]) / t for k in range(2 * n) if k != i]
        losses.append(log_sum(scores) - similarity(r[i], r[j]) / t)
    return sum(losses) / len(losses)


def permuted(length, generator):
    """For each place of a sentence, the place whose position it is given."""
    return torch.randperm(length, generator=generator).tolist()


def cut_elements(name, length, width, rate, generator):
    """Elements (token, feature) of a sentence's embeddings that are set to zero."""
    count = {"feature_cutoff": width, "token_cutoff": length, "dropout": length * width}[name]
    gone = torch.randperm(count, generator=generator).tolist()[: int(rate * count)]
    result = set()
    for token in range(length):
        for k in range(width):
            index = {"feature_cutoff": k, "token_cutoff": token, "dropout": token * width + k}[name]
            if index in gone:
                result.add((token, k))
    return result
