"""Skip-thought by the letter: one sentence, one word, one unit's equation after another, in
float64.

Written from the printed equations, with the released trainer's two variants; it shares nothing with
`methods/`. The gradient is taken by complex steps: f is analytic, so Im f(x + ih) / h is exact for
any tiny h.
"""

import numpy as np

TINY = 1e-40


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


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def next_state(weights, name, x, h, told, after):
    """h at the next word: reset gate, update gate, candidate, mixture."""
    units = len(h)
    W, b, U, V = (weights[f"{name}.{part}"] for part in ("words", "bias", "gates", "candidate"))
    given = W @ x + b
    if told is not None:
        given = given + weights[f"{name}.sentence"] @ told
    r = sigmoid(given[:units] + U[:units] @ h)
    z = sigmoid(given[units : 2 * units] + U[units:] @ h)
    candidate = np.tanh(given[2 * units :] + (r * (V @ h) if after else V @ (r * h)))
    return (1 - z) * h + z * candidate


def loss(weights, triples, every, after):
    """- sum over triples, both neighbours, their words and end marks, of log P."""
    names = ("reader.embedding", "decoders.output", "decoders.bias")
    embedding, V, c = (weights[name] for name in names)
    units = V.shape[1]
    total = 0j
    for before, centre, behind in triples:
        sentence = np.zeros(units, dtype=complex)
        for word in centre:
            sentence = next_state(weights, "reader.gru", embedding[word], sentence, None, after)
        for name, neighbour in (("decoders.before", before), ("decoders.after", behind)):
            h = np.zeros(units, dtype=complex) if every else sentence
            x = np.zeros(embedding.shape[1], dtype=complex)
            for word in [*neighbour, 0]:
                h = next_state(weights, name, x, h, sentence if every else None, after)
                scores = V @ h + c
                highest = scores.real.max()
                total -= scores[word] - highest - np.log(np.exp(scores - highest).sum())
                x = embedding[word]
    return total


def loss_and_gradient(weights, triples, every, after):
    held = {name: array.astype(complex) for name, array in weights.items()}
    gradient = {name: np.zeros(array.shape) for name, array in weights.items()}
    for name, array in held.items():
        for place in np.ndindex(array.shape):
            plain = array[place]
            array[place] = plain + 1j * TINY
            gradient[name][place] = loss(held, triples, every, after).imag / TINY
            array[place] = plain
    return loss(held, triples, every, after).real, gradient
