"""DeCLUTR: NT-Xent between a span of a document and the mean of spans near it, plus masked-language
loss; an item is a document of at least `document` word pieces
(docs/reference/methods.md#declutr)."""

from collections.abc import Iterator
from typing import Annotated, Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from methods.base import (
    Context,
    Count,
    Field,
    HyperParameters,
    Method,
    NonNegativeFloat,
    PositiveFloat,
    Refusal,
    Step,
    Tokens,
    model_validator,
    nt_xent,
    to_device,
)

# Beta(4, 2) and Beta(2, 4) of section 3.2 are the distributions of the fourth and second of five
# sorted uniform draws.
DRAWS, ANCHOR, POSITIVE = 5, 3, 1
MaskedShare = Annotated[float, Field(gt=0, lt=1)]
# Shares of the predicted tokens; the others stay unchanged (Devlin et al. 2019).
MASKED, REPLACED = 0.8, 0.1


class DeCLUTR(Method):
    """Nearby spans of a document as positives."""

    name = "declutr"
    title = "DeCLUTR"
    version = 2  # word pieces, optimiser, schedule and last batch of the released code
    reference = "Giorgi et al. 2021, arXiv 2006.03659; code JohnGiorgi/DeCLUTR@b78ac57"

    class Hyper(HyperParameters):
        # Sections 3.2 (spans), 3.3 (weight), 4.1 (others); share of tokens: Devlin et al. 2019.
        temperature: PositiveFloat = 0.05
        """divisor of the cosines"""
        anchors: Count = 2
        """anchor spans per document"""
        positives: Count = 2
        """positive spans per anchor"""
        shortest: Count = 32
        """least word pieces of a span"""
        # At least one between two special ones.
        longest: int = Field(512, ge=3)
        """most word pieces of a span"""
        document: int = 2048
        """least of a document, >= 2 x anchors x longest"""
        masked: MaskedShare = 0.15
        """share of anchors' tokens to predict"""
        # 0 uses neither masks nor head.
        language: NonNegativeFloat = 1.0
        """weight of the prediction; 0: none"""
        # There are 2 * anchors * documents.
        average: bool = False
        """mean of the contrastive terms, not sum"""

        @model_validator(mode="after")
        def _check_lengths(self) -> Self:
            least = 2 * self.anchors * self.longest
            if self.shortest > self.longest or self.document < least:
                raise ValueError(
                    "'shortest' should be at most 'longest', and 'document' at least 2 x anchors x "
                    f"longest = {least}, not {self.shortest} and {self.document}"
                )
            return self

    # training_config/declutr.jsonnet:57-84; the paper states rate, decay and schedule (section
    # 4.1). It trains one to three epochs with 16 documents on up to four GPUs; the released
    # configuration has 4 documents.
    _recipe = {
        "learning_rate": 5e-5,
        "epsilon": 1e-6,
        "bias_correction": False,
        "weight_decay": 0.1,
        "decay_biases": False,
        "schedule": "slanted",
        "warmup": 0.1,  # the cut fraction
        "drop_last": True,
        "pooler": "avg",
    }
    paper = {"*": {**_recipe, "batch_size": 16}}
    official = {"*": {**_recipe, "batch_size": 4, "average": True}}
    used_if = {"masked": lambda hyper: hyper.language > 0}

    @classmethod
    def reads(cls, hyper: Hyper) -> str:
        return "documents"

    def prepare(self, context: Context) -> None:
        least = self.hyper.document
        long = (pieces for pieces in word_pieces(context) if len(pieces) >= least)
        # On the host: word pieces, of which spans are cut, and their texts are tokenized.
        self.documents = [torch.tensor(pieces, dtype=torch.int32) for pieces in long]
        if not self.documents:
            raise Refusal(
                f"'declutr' finds no document of at least {least} word pieces in this corpus; "
                "give document, longest and shortest for short documents"
            )
        self.language_head = context.masked_language_head() if self.hyper.language else None

    def items(self, context: Context) -> int:
        return len(self.documents)

    def step_loss(self, context: Context, step: Step) -> Tensor:
        anchors, positives = self.spans(context.tokenizer, step)
        tokens = context.tokenize(anchors, self.hyper.longest)
        guesses = None
        if self.language_head is None:
            vectors = context.embed([tokens]).vectors[0]
        else:
            tokens, *predicted = masked_pieces(tokens, context.tokenizer, self.hyper.masked, step)
            views = context.embed([tokens], all_tokens=True)
            vectors = views.vectors[0]
            rows, positions, targets = (to_device(ids, vectors.device) for ids in predicted)
            states = views.states[-1][rows, positions].to(vectors.dtype)
            guesses = context.apply(self.language_head, states), targets
        tokens = context.tokenize(positives, self.hyper.longest)
        return self.loss(vectors, context.embed([tokens]).vectors[0], guesses)

    def spans(self, tokenizer: Any, step: Step) -> tuple[list[str], list[str]]:
        """Return the texts of the anchors of a step, and of their positives in the same order."""
        anchors, positives = [], []
        generator = step.generator("spans")
        for pieces in step.take(self.documents):
            for anchor, spans in sample_spans(len(pieces), self.hyper, generator):
                anchors.append(_text(pieces[anchor], tokenizer))
                positives += [_text(pieces[span], tokenizer) for span in spans]
        return anchors, positives

    def loss(
        self, anchors: Tensor, positives: Tensor, guesses: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        """Return the loss of anchors (n, d), of their positives (n * positives, d), anchor by
        anchor, and of predicted tokens: logits (m, vocabulary) and truth (m)."""
        means = positives.unflatten(0, (len(anchors), -1)).mean(1)
        reduction = "mean" if self.hyper.average else "sum"
        loss = nt_xent(anchors, means, self.hyper.temperature, reduction)
        if guesses is None or not len(guesses[1]):
            return loss
        return loss + self.hyper.language * F.cross_entropy(*guesses)


def masked_pieces(
    tokens: Tokens, tokenizer: Any, share: float, step: Step
) -> tuple[list[list[int]], Tensor, Tensor, Tensor]:
    """Predict tokens that are not special, each with chance `share`; return the masked sequences,
    and row, position and original of each predicted token (m)."""
    # On the host, beside draws of a stream; the caller moves what it needs.
    pieces = torch.tensor([token for row in tokens for token in row])
    count, lengths = len(pieces), [len(row) for row in tokens]
    ordinary = ~torch.isin(pieces, torch.tensor(tokenizer.all_special_ids))
    predicted = ordinary & (torch.rand(count, generator=step.generator("predicted")) < share)
    # One draw decides between the mask (80 %), a random piece (10 %) and the piece itself (10 %).
    draws = torch.rand(count, generator=step.generator("masked"))
    random = torch.randint(len(tokenizer), (count,), generator=step.generator("replaced"))
    masked = torch.where(predicted & (draws < MASKED), tokenizer.mask_token_id, pieces)
    masked = torch.where(predicted & (draws >= 1 - REPLACED), random, masked)
    sequences = [row.tolist() for row in masked.split(lengths)]
    by_sequence = pad_sequence(predicted.split(lengths), batch_first=True)
    rows, positions = by_sequence.nonzero(as_tuple=True)
    return sequences, rows, positions, pieces[predicted]


def sample_spans(
    count: int, hyper: DeCLUTR.Hyper, generator: torch.Generator
) -> list[tuple[slice, list[slice]]]:
    """Return anchors in a document of `count` word pieces, each with its positives, as slices."""

    def whole(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=generator))

    def length(rank: int) -> int:
        draws = torch.rand(DRAWS, generator=generator, dtype=torch.float64)
        share = draws.sort().values[rank].item()
        return int(share * (hyper.longest - hyper.shortest) + hyper.shortest)

    # Anchors start in windows of `longest` pieces, never in neighbouring windows.
    windows = list(range(0, count - hyper.longest + 1, hyper.longest))
    spans = []
    for remaining in range(hyper.anchors, 0, -1):
        size = length(ANCHOR)
        # With few windows an anchor in the middle would leave none; only the outermost are used.
        scarce = len(windows) < remaining * remaining
        end = len(windows) - 1
        index = whole(0, 1) * end if scarce else whole(0, end)
        start = windows[index] + whole(0, hyper.longest - size)
        del windows[max(0, index - 1) : index + 2]
        positives = []
        for _ in range(hyper.positives):
            span = length(POSITIVE)
            # It may overlap the anchor, contain it or adjoin it (section 3.2).
            begin = whole(max(0, start - span), min(start + size, count - span))
            positives.append(slice(begin, begin + span))
        spans.append((slice(start, start + size), positives))
    return spans


def word_pieces(context: Context) -> Iterator[list[int]]:
    """Yield the word pieces of each document, without special tokens."""
    sentences = context.sentences()
    for rows in context.documents():
        words = [word for row in rows for word in sentences[row].split()]
        # A space, so that RoBERTa's first word is one like the others (dataset_reader.py:175).
        text = f" {' '.join(words)}"
        pieces = context.tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)
        yield pieces["input_ids"]


def _text(pieces: Tensor, tokenizer: Any) -> str:
    # The clean-up of Transformers 3, which the released code ran with. Version 5 no longer applies
    # it to RoBERTa.
    text = tokenizer.decode(pieces.tolist(), clean_up_tokenization_spaces=False)
    return str(tokenizer.clean_up_tokenization(text))
