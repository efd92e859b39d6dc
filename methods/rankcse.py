"""RankCSE: InfoNCE plus a divergence between both directions plus a ranking by teachers, of a
community implementation, perceptiveshawty/RankCSE@17c5226 (docs/reference/methods.md#rankcse)."""

import math
from typing import Literal

import torch
from torch import Tensor

from methods.base import (
    BASE_DEPTH,
    Context,
    Contrastive,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    Shape,
    Share,
    Step,
    Terms,
    Tokens,
    cosine,
    frozen_model,
    masked_mean,
    on_diagonal,
    transformer_with,
)

_SIMCSE = "princeton-nlp/unsup-simcse-"
_TEACHER = transformer_with("teacher_pooler")


class RankCSE(Contrastive):
    """SimCSE plus a ranking by teachers."""

    name = "rankcse"
    title = "RankCSE"
    reference = "Liu et al. 2023, arXiv 2305.16726"

    class Hyper(Contrastive.Hyper):
        teacher: str = Field(_SIMCSE + "bert-base-uncased", json_schema_extra=_TEACHER)
        """first teacher"""
        teacher_2: str | None = Field(_SIMCSE + "bert-large-uncased", json_schema_extra=_TEACHER)
        """second or none"""
        teacher_pooler: Literal["cls_before_pooler", "avg"] = "cls_before_pooler"
        """pooler of both teachers"""
        alpha: Share = 0.33
        """share of the first of two teachers"""
        beta: NonNegativeFloat = 1.0
        """coefficient of the consistency"""
        gamma: NonNegativeFloat = 1.0
        """coefficient of the ranking"""
        ranking: Literal["listmle", "listnet"] = "listmle"
        """form of the ranking"""
        tau2: PositiveFloat = 0.05
        """temperature of the student in the ranking"""
        tau3: PositiveFloat = 0.025
        """temperature of the teachers in ListNet"""
        # Of the community code: its consistency is an entropy, and it adds 1e-7 to sums of ListMLE.
        consistency: Literal["divergence", "entropy"] = "divergence"
        """form of the consistency"""
        rank_epsilon: NonNegativeFloat = 0.0
        """addend of the sums of ListMLE"""

    _roberta = {"teacher": _SIMCSE + "roberta-base", "teacher_2": _SIMCSE + "roberta-large"}
    paper = {
        "*": {"batch_size": 128, "learning_rate": 3e-5},  # the community script's
        "roberta-base": _roberta,
        "roberta-large": _roberta,
    }
    _of_ranking = ("teacher", "teacher_2", "teacher_pooler", "ranking", "tau2")
    used_if = {
        **dict.fromkeys(_of_ranking, lambda hyper: hyper.gamma > 0),
        "alpha": lambda hyper: hyper.gamma > 0 and hyper.teacher_2 is not None,
        "tau3": lambda hyper: hyper.gamma > 0 and hyper.ranking == "listnet",
        "rank_epsilon": lambda hyper: hyper.gamma > 0 and hyper.ranking == "listmle",
        "consistency": lambda hyper: hyper.beta > 0,
    }

    teachers_cosines: Tensor | None = None  # of the current batch, (n, n)

    @classmethod
    def clamp_to_backbone(cls, hyper: Hyper, shape: Shape) -> Hyper:
        """Replace the published teachers on backbones for which none are published."""
        changes: dict[str, str | None] = {}
        if shape.depth < BASE_DEPTH and (hyper.teacher_2 or "").startswith(_SIMCSE):
            changes["teacher_2"] = None
        if shape.depth < BASE_DEPTH and hyper.teacher.startswith(_SIMCSE):
            changes |= {"teacher": "backbone", "teacher_pooler": "avg"}
        return hyper.model_copy(update=changes)

    def prepare(self, context: Context) -> None:
        names = [self.hyper.teacher, self.hyper.teacher_2] if self.hyper.gamma else []
        self.teachers = [
            frozen_model(context, name, self.hyper.teacher_pooler) for name in names if name
        ]

    @torch.no_grad()
    def before_loss(self, context: Context, tokens: Tokens, step: Step) -> None:
        """Compute the cosines that the teachers give the sentences of the batch."""
        shares = [self.hyper.alpha, 1 - self.hyper.alpha] if len(self.teachers) == 2 else [1.0]
        cosines = []
        for teacher, share in zip(self.teachers, shares, strict=False):
            states, mask = context.states(tokens, teacher.model.eval())
            vectors = states[-1][:, 0]
            if self.hyper.teacher_pooler == "avg":
                vectors = masked_mean(states[-1], mask)
            cosines.append(share * cosine(vectors, vectors))
        self.teachers_cosines = sum(cosines) if cosines else None  # type: ignore[assignment]

    def terms(self, anchors: Tensor, positives: Tensor, temperature: float, step: Step) -> Terms:
        hyper, cosines = self.hyper, cosine(anchors, positives)
        terms = []
        if hyper.beta:
            transposed = cosines.T  # before the rows: autograd sums gradients in reverse order
            rows = (cosines / temperature).log_softmax(dim=1)
            columns = (transposed / temperature).log_softmax(dim=1)
            agree = divergence if hyper.consistency == "divergence" else negative_entropy
            terms.append((hyper.beta, agree(rows, columns)))
        if self.teachers_cosines is not None:
            student, teachers = cosines / hyper.tau2, self.teachers_cosines.to(cosines)
            if hyper.ranking == "listnet":
                ranking = list_net(student, teachers / hyper.tau3)
            else:
                ranking = list_mle(student, teachers, hyper.rank_epsilon)
            terms.append((hyper.gamma, ranking))
        return terms


def divergence(rows: Tensor, columns: Tensor) -> Tensor:
    """Return the mean Jensen-Shannon divergence of the rows of two log distributions (n, m)."""
    middle = torch.logaddexp(rows, columns) - math.log(2)
    halves = [(logs.exp() * (logs - middle)).sum(dim=1) for logs in (rows, columns)]
    return torch.stack(halves).mean()


def negative_entropy(rows: Tensor, columns: Tensor) -> Tensor:
    """Return minus the mean entropy of the rows of two log distributions (n, m)."""
    # The community code clamps the log of their mean, never above 0, to at least 1e-7.
    least = 1e-7
    shares = [logs.exp().clamp(min=least) for logs in (rows, columns)]
    return torch.stack([(p * (p.log() - least)).sum(dim=1) for p in shares]).mean()


def list_net(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean cross-entropy of softmax rows off the diagonal, logits (n, n); 0 for one."""
    count = len(student)
    # Every sentence is most similar to itself, so the diagonal says nothing of the ranking.
    off_diagonal = ~on_diagonal(student)
    student = student[off_diagonal].view(count, count - 1)
    teacher = teacher[off_diagonal].view(count, count - 1)
    return -(teacher.softmax(dim=1) * student.log_softmax(dim=1)).sum(dim=1).mean()


def list_mle(student: Tensor, teacher: Tensor, epsilon: float) -> Tensor:
    """Return the mean over rows of -log of the likelihood, under Plackett and Luce with logits
    `student` (n, m), of the order of `teacher`, largest first; `epsilon` is added to sums of
    e^(logit - largest logit)."""
    # Flipped sums: place k is taken among the items from k on.
    order = teacher.argsort(dim=1, descending=True, stable=True)
    logits = student.gather(1, order)
    if epsilon:
        logits = logits - logits.max(dim=1, keepdim=True).values
        remaining = (logits.exp().flip(1).cumsum(dim=1).flip(1) + epsilon).log()
    else:
        remaining = logits.flip(1).logcumsumexp(dim=1).flip(1)
    return (remaining - logits).sum(dim=1).mean()
