"""DeCLUTR: spans of one document are each other's positives, and masked-language training goes on beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.base import Context, HyperParameters, Method, Refusal, Shape, Step, Tokens, nt_xent

# Beta(4, 2) and Beta(2, 4) of section 3.2 are the fourth and the second of five sorted uniform draws.
DRAWS, ANCHOR, POSITIVE = 5, 3, 1
MASKED, REPLACED = 0.8, 0.1  # of the pieces to be predicted; the others stay (Devlin et al. 2019)


@dataclass(frozen=True)
class DeCLUTRHyper(HyperParameters):
    temperature: float = 0.05  # section 4.1
    anchors: int = 2  # spans of a document, section 4.1
    positives: int = 2  # spans around an anchor, section 4.1
    shortest: int = 32  # words of a span, section 3.2
    longest: int = 512
    document: int = 2048  # words of the shortest document, section 4.1: 2 * anchors * longest
    masked: float = 0.15  # share of an anchor's pieces that are to be predicted (Devlin et al. 2019)
    language: float = 1.0  # weight of the masked-language loss, section 3.3; 0 leaves masks and head away
    average: bool = False  # the contrastive loss is the mean over 2 * anchors * documents terms, not their sum


class DeCLUTR(Method):
    """NT-Xent between a span of a document and the mean of spans near it, plus masked-language loss (methods.md b.9).

    An item is a document of at least `document` words; a batch of N gives anchors * N anchors and as many means of
    positives, each of which is to find its partner among all others: -log e^{s(e_i,e_j)/t} / sum_{k != i}
    e^{s(e_i,e_k)/t}. The paper sums these, the released code averages them (`average`), and so weighs the
    masked-language loss 2 * anchors * N times as much.

    Where a span lies is read off the released code: words are what white space divides (the paper says tokens), and the
    backbone cuts a span that it cannot take; an anchor stands anywhere in one of the document's windows of `longest`
    words, and that window and its neighbours are closed to the next anchor (the paper: anchors are 2 * longest apart);
    a positive may begin from its own length before the anchor's start up to the anchor's end, within the document.
    Anchors are encoded with their masks, in the pass that predicts them; positives are encoded without.

    It departs from its authors in corpus (theirs is OpenWebText), in selection (they keep the last weights), in weight
    decay (theirs spares biases and layer norms) and in that the learning rate falls to 0 (theirs to a 32nd).
    """

    name = "declutr"
    title = "DeCLUTR"
    reference = "Giorgi et al. 2021, arXiv 2006.03659; code JohnGiorgi/DeCLUTR@b78ac57"
    Hyper = DeCLUTRHyper
    # Slanted triangular, cut fraction 0.1 (section 4.1), is warm-up over a tenth and then linear. The paper trains one
    # to three epochs with 16 documents, on up to four GPUs; the released configuration has 4 documents.
    paper = {
        "*": {"batch_size": 16, "learning_rate": 5e-5, "weight_decay": 0.1, "warmup": 0.1, "pooler": "avg"},
    }
    official = {"*": {**paper["*"], "batch_size": 4, "average": True}}

    def __init__(self, hyper: DeCLUTRHyper, shape: Shape) -> None:
        super().__init__(hyper, shape)
        self.language_head: nn.Module | None = None
        self.documents: Sequence[range] = ()

    @classmethod
    def check(cls, hyper: DeCLUTRHyper) -> None:
        if hyper.temperature <= 0:
            raise Refusal(f"'declutr' needs temperature > 0, not {hyper.temperature}")
        if hyper.anchors < 1 or hyper.positives < 1:
            raise Refusal(
                f"'declutr' needs at least one anchor and one positive, not {hyper.anchors} and {hyper.positives}"
            )
        if not 1 <= hyper.shortest <= hyper.longest:
            raise Refusal(f"'declutr' has no spans of {hyper.shortest} to {hyper.longest} words")
        if hyper.document < 2 * hyper.anchors * hyper.longest:
            raise Refusal(
                f"'declutr' finds {hyper.anchors} anchors of up to {hyper.longest} words in documents of at least "
                f"{2 * hyper.anchors * hyper.longest} words, not of {hyper.document}"
            )
        if not 0 < hyper.masked < 1 or hyper.language < 0:
            raise Refusal(
                f"'declutr' needs masked between 0 and 1 and language >= 0, not {hyper.masked} and {hyper.language}"
            )

    def prepare(self, context: Context) -> None:
        sentences = context.sentences()
        self.documents = [rows for rows in context.documents() if len(_words(sentences, rows)) >= self.hyper.document]
        if not self.documents:
            raise Refusal(
                f"'declutr' finds no document of at least {self.hyper.document} words in this corpus; give document, "
                "longest and shortest for short documents"
            )
        if self.hyper.language:
            self.language_head = context.masked_language_head()

    def items(self, context: Context) -> int:
        return len(self.documents)

    def step_loss(self, context: Context, step: Step) -> Tensor:
        anchors, positives = self.spans(context.sentences(), step)
        tokens = context.tokenize(anchors)
        guesses = None
        if self.language_head is None:
            vectors = context.embed([tokens]).vectors[0]
        else:
            tokens, rows, places, targets = self.mask(tokens, context.tokenizer, step)
            views = context.embed([tokens], whole=True)
            vectors = views.vectors[0]
            states = views.states[-1][rows, places].to(vectors.dtype)
            guesses = self.language_head(states), targets.to(vectors.device)
        near = context.embed([context.tokenize(positives)]).vectors[0]
        return self.loss(vectors, near, guesses)

    def spans(self, sentences: Sequence[str], step: Step) -> tuple[list[str], list[str]]:
        """Anchors of the step's documents, and the positives of each in turn."""
        anchors, positives = [], []
        generator = step.generator("spans")
        for item in step.rows:
            words = _words(sentences, self.documents[item])
            for anchor, around in sample_spans(len(words), self.hyper, generator):
                anchors.append(" ".join(words[anchor]))
                positives += [" ".join(words[span]) for span in around]
        return anchors, positives

    def mask(self, tokens: Tokens, tokenizer: Any, step: Step) -> tuple[Tokens, Tensor, Tensor, Tensor]:
        """The tokens with masks; row, place and former token of each that is to be predicted."""
        lengths = torch.tensor([len(row) for row in tokens])
        flat = torch.tensor([token for row in tokens for token in row])
        ordinary = ~torch.isin(flat, torch.tensor(tokenizer.all_special_ids))
        chosen = ordinary & (torch.rand(len(flat), generator=step.generator("predicted")) < self.hyper.masked)
        fate = torch.rand(len(flat), generator=step.generator("masked"))
        other = torch.randint(len(tokenizer), (len(flat),), generator=step.generator("replaced"))
        seen = torch.where(chosen & (fate < MASKED), tokenizer.mask_token_id, flat)
        seen = torch.where(chosen & (fate >= 1 - REPLACED), other, seen)
        rows = torch.repeat_interleave(lengths)
        places = torch.arange(len(flat)) - (lengths.cumsum(0) - lengths)[rows]
        masked = [row.tolist() for row in seen.split(lengths.tolist())]
        return masked, rows[chosen], places[chosen], flat[chosen]

    def loss(self, anchors: Tensor, positives: Tensor, guesses: tuple[Tensor, Tensor] | None) -> Tensor:
        """The scalar to minimise.

        Args:
            anchors, positives: (n, d) and (n * positives, d), those of one anchor in a row.
            guesses: logits (m, vocabulary) and true pieces (m) where pieces are predicted.
        """
        means = positives.unflatten(0, (len(anchors), -1)).mean(1)
        loss = nt_xent(anchors, means, self.hyper.temperature, "mean" if self.hyper.average else "sum")
        if guesses is None or not len(guesses[1]):
            return loss
        return loss + self.hyper.language * F.cross_entropy(*guesses)


def sample_spans(count: int, hyper: DeCLUTRHyper, generator: torch.Generator) -> list[tuple[slice, list[slice]]]:
    """Anchors in a document of `count` words, each with its positives."""

    def whole(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=generator))

    def length(rank: int) -> int:
        share = torch.rand(DRAWS, generator=generator, dtype=torch.float64).sort().values[rank].item()
        return int(share * (hyper.longest - hyper.shortest) + hyper.shortest)

    windows = list(range(0, count - hyper.longest + 1, hyper.longest))
    found = []
    for left in range(hyper.anchors, 0, -1):
        # An anchor in the middle of few windows would leave none: then only the outermost are open.
        scarce = len(windows) < left * left
        place = whole(0, 1) * (len(windows) - 1) if scarce else whole(0, len(windows) - 1)
        size = length(ANCHOR)
        start = windows[place] + whole(0, hyper.longest - size)
        del windows[max(0, place - 1) : place + 2]
        around = []
        for _ in range(hyper.positives):
            span = length(POSITIVE)
            begin = whole(max(0, start - span), min(start + size, count - span))
            around.append(slice(begin, begin + span))
        found.append((slice(start, start + size), around))
    return found


def _words(sentences: Sequence[str], rows: range) -> list[str]:
    return [word for row in rows for word in sentences[row].split()]
