"""PCL: each sentence has a group of augmented positives, which two networks contrast and agree on
(docs/reference/methods.md#pcl)."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from methods.base import (
    BASE_DEPTH,
    Context,
    Contrastive,
    NonNegativeInt,
    Shape,
    Step,
    Tokens,
    at_one_length,
    cosine,
    info_nce,
    stream_seed,
)

SHARE = 0.2  # of the pieces, deleted and repeated: train.py:579, 595
LONGEST = 32  # the script's max_seq_length, which repetitions keep: train.py:602-603


class PCL(Contrastive):
    """Groups of augmented positives, in two networks."""

    name = "pcl"
    title = "PCL"
    reference = "Wu et al. 2022, arXiv 2201.12093; code qiyuw/PeerCL@5e40ea5"

    class Hyper(Contrastive.Hyper):
        # train.py:127-132
        rounds: NonNegativeInt = 2
        """draws of all four augmentations"""
        # train.py:133-144
        group: bool = True
        """contrast the group with other sentences"""
        peer: bool = True
        """a second network, which is trained too"""
        # pcl/models.py:249
        peer_pooler: bool = False
        """the second has the checkpoint's pooler"""
        padded: bool = False
        """the second attends to padding"""

    # README.md:67-73, for the paper was not at hand.
    paper = {"*": {"batch_size": 64}}
    # run_unsup_pcl.sh:13. RoBERTa's checkpoints store no pooler.
    official = {
        "*": {"batch_size": 256, "peer_pooler": True, "padded": True},
        "roberta-base": {"peer_pooler": False},
        "roberta-large": {"peer_pooler": False},
    }
    used_if = dict.fromkeys(("peer_pooler", "padded"), lambda hyper: hyper.peer)

    @classmethod
    def clamp_to_backbone(cls, hyper: Any, shape: Shape) -> Any:
        """Leave out the pooler of small backbones, many of which store none."""
        if shape.depth < BASE_DEPTH:
            return hyper.model_copy(update={"peer_pooler": False})
        return hyper

    def prepare(self, context: Context) -> None:
        if self.hyper.peer:
            self.peer: Any = context.copy_backbone()
            if self.hyper.peer_pooler:
                self.pooler = context.encoder("cls").model.pooler

    def step_loss(self, context: Context, step: Step) -> Tensor:
        tokens = step.take(context.tokens())
        extras = self.read_batch(context, tokens, step)
        extras[self.name] = augmented(tokens, self.hyper.rounds, step)
        views = context.embed([tokens, tokens], extras)
        own = [*views.vectors, *views.extras[self.name]]
        peers: Sequence[Tensor] = ()
        if self.hyper.peer:
            peers = self.peer_vectors(context, [tokens, tokens, *extras[self.name]])
        return sum(self.group_terms(own, peers), self.loss(views, step))

    def peer_vectors(self, context: Context, lists: Sequence[Tokens]) -> Sequence[Tensor]:
        """Return the second network's vectors (n, d) of each list of n sequences."""
        rows: Tokens = [row for tokens in lists for row in tokens]
        if self.hyper.padded:
            rows = at_one_length(rows, context.tokenizer.pad_token_id)
        states, _ = context.states(rows, self.peer)
        pooled = states[-1][:, 0]
        if self.hyper.peer_pooler:
            pooled = context.apply(self.pooler, states[-1])
        return context.head(pooled).chunk(len(lists))

    def group_terms(self, own: Sequence[Tensor], peers: Sequence[Tensor]) -> list[Tensor]:
        """Return what is added to the first network's InfoNCE, from vectors (n, d) of each network:
        of the sentences, then of each of their positives."""
        temperature, terms = self.hyper.temperature, []
        first = group_logits(own, own, temperature)
        if self.hyper.group:
            terms.append(group_contrast(first, len(own) - 1))
        if peers:
            second = group_logits(peers, peers, temperature)
            across = group_logits(own, peers, temperature)
            back = group_logits(peers, own, temperature)
            terms += [disagreement(first, second), disagreement(across, back)]
            terms.append(info_nce(peers[0], peers[1], temperature))
            if self.hyper.group:
                terms.append(group_contrast(second, len(own) - 1))
        return terms


def augmented(tokens: Tokens, rounds: int, step: Step) -> Sequence[Tokens]:
    """Return lists of n sequences: shuffled, reversed, with fewer and with more pieces."""
    # Many small draws, for which torch's generators are slow.
    draw = Random(stream_seed(step.seed, "augmentations", step.index))  # noqa: S311 (no secret)
    # They change the pieces in place.
    changes: tuple[Callable[[list[int]], None], ...] = (
        draw.shuffle, list.reverse, partial(delete, draw), partial(repeat, draw),
    )  # fmt: skip
    lists = []
    for change in changes * rounds:
        rows = []
        for row in tokens:
            pieces = list(row[1:-1])
            change(pieces)
            rows.append([row[0], *pieces, row[-1]])
        lists.append(rows)
    return lists


def delete(draw: Random, pieces: list[int]) -> None:
    """Delete a share of the pieces, of equal ones the first."""
    for _ in range(round(len(pieces) * SHARE)):
        pieces.remove(draw.choice(pieces))


def repeat(draw: Random, pieces: list[int]) -> None:
    """Insert copies of a share of the pieces at any place."""
    for _ in range(min(round(len(pieces) * SHARE), LONGEST - 2 - len(pieces))):
        pieces.insert(draw.randint(0, len(pieces)), draw.choice(pieces))


def group_logits(anchors: Sequence[Tensor], group: Sequence[Tensor], temperature: float) -> Tensor:
    """Return logits (n, k + n - 1) of the sentences of `anchors` with a group: each with its own k
    positives, then with the other sentences."""
    positives = cosine(anchors[0], torch.stack([*group[1:]], dim=1))
    others = cosine(anchors[0], group[0])
    n = len(others)
    # Without the diagonal: between one of its cells and the next stand n cells to keep.
    others = others.flatten()[1:].view(n - 1, n + 1)[:, :-1].reshape(n, n - 1)
    return torch.cat([positives, others], dim=1) / temperature


def group_contrast(logits: Tensor, count: int) -> Tensor:
    """Return the binary cross-entropy of logits (n, m), whose first `count` are positives."""
    labels = torch.zeros_like(logits)
    labels[:, :count] = 1
    # As released, a sigmoid follows the softmax (pcl/models.py:180-182).
    return F.binary_cross_entropy_with_logits(logits.softmax(dim=1), labels)


def disagreement(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the divergence of the softmax of logits (n, m) from that of `targets`, as the mean of
    all cells; both have gradient."""
    first, second = logits.log_softmax(dim=1), targets.log_softmax(dim=1)
    return F.kl_div(first, second, reduction="none", log_target=True).mean()
