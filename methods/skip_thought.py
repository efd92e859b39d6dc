"""Skip-thought: a GRU encodes a sentence; two more predict the previous and the next sentence from
its state: the uni-skip part of the published system (docs/reference/methods.md#skip-thought)."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from methods.base import (
    Context,
    Count,
    Field,
    HyperParameters,
    Method,
    Refusal,
    Step,
    fingerprint,
    stream,
    text_list,
)

# Ids of the end token, of unknown words, and of the most frequent word [code].
END, UNKNOWN, FIRST = 0, 1, 2


def tokenize(sentence: str) -> list[str]:
    """Return words and punctuation marks in lower case."""
    return re.findall(r"\w+|[^\w\s]", sentence.lower())


def uniform(generator: torch.Generator, *shape: int) -> nn.Parameter:
    """Return weights from [-0.1, 0.1] (paper and code)."""
    # On the host: the training moves the whole module.
    return nn.Parameter(torch.empty(shape).uniform_(-0.1, 0.1, generator=generator))


def _pad(rows: Sequence[Sequence[int]], device: Any) -> tuple[Tensor, Tensor]:
    """Return word ids padded with zeros, (n, length) with length >= 1, and the lengths (n)."""
    # On the host: moved at once. A sentence without words has one id, which its length leaves out.
    ids = pad_sequence([torch.tensor(row or [END]) for row in rows], batch_first=True)
    return ids.to(device), torch.tensor([len(row) for row in rows], device=device)


class GRU(nn.Module):
    """A gated recurrent unit that returns its state after every word.

        r, z = sigmoid(W x + U h + C s)
        c = tanh(W' x + U' (r * h) + C' s)
        h <- (1 - z) h + z c

    The terms C s are present if it decodes a sentence s and sees it at every word. All W have a
    bias. With `reset` "after", U' (r * h) is r * (U' h).
    """

    def __init__(
        self, width: int, units: int, reset: str, seed: int, name: str, conditioned: bool = False
    ) -> None:
        super().__init__()
        self.reset = reset
        draw = partial(stream, seed, "skip-thought", name)
        self.words = uniform(draw("words"), 3 * units, width)
        self.bias = nn.Parameter(torch.zeros(3 * units))
        # Recurrent matrices are orthogonal (paper and code), biases 0 (code).
        generator = draw("recurrent")
        square = [
            nn.init.orthogonal_(torch.empty(units, units), generator=generator) for _ in range(3)
        ]
        self.gates = nn.Parameter(torch.cat(square[:2]))
        self.candidate = nn.Parameter(square[2])
        self.sentence = uniform(draw("sentence"), 3 * units, units) if conditioned else None

    def forward(self, words: Tensor, sentence: Any = None) -> Tensor:
        """Return states (n, length, units) of word vectors (n, length, width)."""
        units = len(self.candidate)
        inputs = F.linear(words, self.words, self.bias)
        state = words.new_zeros(len(words), units)
        if self.sentence is not None:
            inputs = inputs + F.linear(sentence, self.sentence).unsqueeze(1)
        elif sentence is not None:
            state = sentence
        states = []
        parts = inputs.split([2 * units, units], dim=-1)
        for gates, candidate in zip(*(part.unbind(1) for part in parts), strict=True):
            reset, update = (gates + F.linear(state, self.gates)).sigmoid().chunk(2, dim=1)
            if self.reset == "before":
                new = torch.tanh(candidate + F.linear(reset * state, self.candidate))
            else:
                new = torch.tanh(candidate + reset * F.linear(state, self.candidate))
            state = state + update * (new - state)  # (1 - z) h + z c
            states.append(state)
        return torch.stack(states, dim=1)


class Reader(nn.Module):
    """Word vectors and the encoder GRU, the part that is scored."""

    def __init__(self, vocabulary: int, width: int, units: int, reset: str, seed: int = 0) -> None:
        super().__init__()
        self.embedding = uniform(stream(seed, "skip-thought", "embedding"), vocabulary, width)
        self.gru = GRU(width, units, reset, seed, "encoder")

    def embed(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.embedding)

    def forward(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return the states after the last words, (n, units); zero for a sentence without words."""
        ids, lengths = _pad(rows, self.embedding.device)
        states = self.gru(self.embed(ids))
        final_states = states[
            torch.arange(len(rows), device=ids.device), (lengths - 1).clamp(min=0)
        ]
        return final_states * (lengths > 0).unsqueeze(1)


class Decoders(nn.Module):
    """A decoder per neighbour, and their shared output layer."""

    def __init__(self, vocabulary: int, hyper: "SkipThought.Hyper", seed: int) -> None:
        super().__init__()
        every = hyper.condition == "every"
        self.before = GRU(hyper.width, hyper.units, hyper.reset, seed, "before", every)
        self.after = GRU(hyper.width, hyper.units, hyper.reset, seed, "after", every)
        self.output = uniform(stream(seed, "skip-thought", "output"), vocabulary, hyper.units)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def loss(
        self,
        context: Context,
        gru: GRU,
        reader: Reader,
        sentences: Tensor,
        rows: Sequence[Sequence[int]],
    ) -> Tensor:
        """Return the summed -log P of all words and end tokens of the rows."""
        ids, lengths = _pad([[*row, END] for row in rows], sentences.device)
        predicted = torch.arange(ids.shape[1], device=ids.device) < lengths.unsqueeze(1)
        logits = context.apply(self.logits, gru, reader, sentences, ids, predicted)
        return F.cross_entropy(logits, ids[predicted], reduction="sum")

    def logits(
        self, gru: GRU, reader: Reader, sentences: Tensor, ids: Tensor, predicted: Tensor
    ) -> Tensor:
        """Return the logits (m, vocabulary) of the m predicted words of ids (n, length)."""
        words = reader.embed(ids[:, :-1])
        # The first word has no predecessor [code].
        start = words.new_zeros(len(ids), 1, words.shape[-1])
        states = gru(torch.cat([start, words], dim=1), sentences)
        return F.linear(states[predicted], self.output, self.bias)


class SkipThoughtEncoder:
    """An Encoder: the reader's state after the last word, normalised to length 1."""

    kind = "skip-thought"
    batch = 256  # sentences, sorted by length

    def __init__(self, reader: Reader, words: Sequence[str]) -> None:
        self.reader, self.words, self.arrays = reader, words, reader.state_dict()
        self._numbers = {word: number for number, word in enumerate(words, FIRST)}

    @property
    def identity(self) -> str:
        described = "\n".join([self.reader.gru.reset, *self.words])
        return fingerprint(self.kind, described, self.arrays)

    def number(self, sentence: str) -> list[int]:
        """Return the ids of a sentence's words."""
        return [self._numbers.get(word, UNKNOWN) for word in tokenize(sentence)]

    @torch.inference_mode()
    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        rows = [self.number(sentence) for sentence in text_list(sentences)]
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        vectors = np.zeros((len(rows), len(self.reader.gru.candidate)), dtype=np.float32)
        for start in range(0, len(order), self.batch):
            batch = order[start : start + self.batch]
            states = self.reader([rows[index] for index in batch])
            vectors[batch] = F.normalize(states, dim=1).float().cpu().numpy()
        return vectors

    def save(self, folder: Any) -> dict[str, Any]:
        (folder / "words.txt").write_bytes("\n".join(self.words).encode())
        return {"reset": self.reader.gru.reset}

    @classmethod
    def load(cls, folder: Any, stored: Any, *, device: str, arrays: Any) -> Self:
        vocabulary, width = arrays["embedding"].shape
        reader = Reader(vocabulary, width, len(arrays["gru.candidate"]), stored["reset"])
        reader.load_state_dict(arrays)
        return cls(reader.to(device), (folder / "words.txt").read_bytes().decode().split("\n"))


class SkipThought(Method):
    """A sentence predicts its neighbours."""

    name = "skip-thought"
    title = "Skip-thought"
    reference = "Kiros et al. 2015, arXiv 1506.06726; code ryankiros/skip-thoughts@8fc6ac7"

    class Hyper(HyperParameters):
        # Uni-skip; paper and code.
        units: Count = 2400
        """size of each GRU and of a sentence vector"""
        # Code.
        width: Count = 620
        """size of a word vector"""
        # Paper and code.
        vocabulary: int = Field(20_000, ge=3)
        """words, including two special ids"""
        # Code.
        longest: int = Field(30, ge=2)
        """triples with so long a sentence are left out"""
        # Paper: every, before; code: first, after.
        condition: Literal["every", "first"] = "every"
        """decoders see the sentence at `every` word, or as `first` state"""
        # Of the recurrent matrix.
        reset: Literal["before", "after"] = "before"
        """place of the reset gate"""

    # Paper: batch size 128, clipping at 10, Adam. Code: learning rate, five epochs, constant
    # schedule.
    _recipe = {"learning_rate": 2e-4, "schedule": "constant", "epochs": 5}
    paper = {"*": {**_recipe, "batch_size": 128, "clip": 10.0}}
    official = {
        "*": {**_recipe, "batch_size": 64, "clip": 5.0, "condition": "first", "reset": "after"}
    }
    backbone_free = True

    @classmethod
    def reads(cls, hyper: Hyper) -> str:
        return "documents"

    def prepare(self, context: Context) -> None:
        sentences, hyper = context.sentences(), self.hyper
        counts = Counter(word for sentence in sentences for word in tokenize(sentence))
        # The most frequent words; ties are ordered alphabetically.
        words = sorted(counts, key=lambda word: (-counts[word], word))
        self.words = words[: hyper.vocabulary - FIRST]
        vocabulary = FIRST + len(self.words)
        self.reader = Reader(vocabulary, hyper.width, hyper.units, hyper.reset, context.seed)
        self.decoders = Decoders(vocabulary, hyper, context.seed)
        self.rows = list(map(SkipThoughtEncoder(self.reader, self.words).number, sentences))
        short = [len(row) < hyper.longest for row in self.rows]
        self.centres = [
            row
            for document in context.documents()
            for row in document[1:-1]
            if all(short[row - 1 : row + 2])
        ]
        if not self.centres:
            raise Refusal(
                f"no document has three consecutive sentences of fewer than {hyper.longest} words"
            )

    def items(self, context: Context) -> int:
        return len(self.centres)

    def step_loss(self, context: Context, step: Step) -> Tensor:
        centres, decoders = step.take(self.centres), self.decoders
        sentences = context.apply(self.reader, [self.rows[row] for row in centres])
        before = [self.rows[row - 1] for row in centres]
        after = [self.rows[row + 1] for row in centres]
        loss = decoders.loss(context, decoders.before, self.reader, sentences, before)
        return loss + decoders.loss(context, decoders.after, self.reader, sentences, after)

    def encoder(self, context: Context) -> SkipThoughtEncoder:
        return SkipThoughtEncoder(self.reader, self.words)
