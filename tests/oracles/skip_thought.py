"""Skip-thought by the letter: one sentence, one word after another, in float64.

Written from the printed equations, with the released trainer's two variants; it shares nothing with
`methods/`.
"""

import torch

from tests.oracles.methods import log_sum


def numbers(sentence, words):
    """0 is the end mark, 1 an unknown word, 2 the first word of the vocabulary."""
    pieces: list[str] = []
    inside = False
    for character in sentence.lower():
        letter = character.isalnum() or character == "_"
        if letter and inside:
            pieces[-1] += character
        elif not character.isspace():
            pieces.append(character)
        inside = letter
    return [words.index(piece) + 2 if piece in words else 1 for piece in pieces]


def next_state(weights, name, x, h, told, after):
    """h at the next word: reset gate, update gate, candidate, mixture."""
    units = len(h)
    W, b, U, V = (weights[f"{name}.{part}"] for part in ("words", "bias", "gates", "candidate"))
    inputs = W @ x + b
    if told is not None:
        inputs = inputs + weights[f"{name}.sentence"] @ told
    r = torch.sigmoid(inputs[:units] + U[:units] @ h)
    z = torch.sigmoid(inputs[units : 2 * units] + U[units:] @ h)
    candidate = torch.tanh(inputs[2 * units :] + (r * (V @ h) if after else V @ (r * h)))
    return (1 - z) * h + z * candidate


def loss(weights, triples, every, after):
    """- sum over triples, both neighbours, their words and end marks, of log P."""
    names = ("reader.embedding", "decoders.output", "decoders.bias")
    embedding, V, c = (weights[name] for name in names)
    zero, total = V.new_zeros(V.shape[1]), 0
    for before, centre, behind in triples:
        sentence = zero
        for word in centre:
            sentence = next_state(weights, "reader.gru", embedding[word], sentence, None, after)
        for name, neighbour in (("decoders.before", before), ("decoders.after", behind)):
            h = zero if every else sentence
            x = torch.zeros_like(embedding[0])
            for word in [*neighbour, 0]:
                h = next_state(weights, name, x, h, sentence if every else None, after)
                scores = V @ h + c
                total = total + log_sum(scores) - scores[word]
                x = embedding[word]
    return total
