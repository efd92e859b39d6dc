"""ESimCSE and DCLR as cases: their second models are tables of vectors, filled from each batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from methods.base import Step, Tokens, Views
from tests.support.method_cases import Case


class Table(nn.Module):
    """A transformer whose vector of sentence number i is row i of its only weight."""

    pooler = None

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = nn.Parameter(vectors.detach().clone())


class FakeContext:
    """The part of a Context that the two methods use; a sentence's only token is its number."""

    device, seed = "cpu", 3
    fresh: str | None = None
    tokenizer: Any = None
    load_encoder: Any = None

    def __init__(self, vectors: Tensor) -> None:
        self.backbone = Table(vectors)

    def tokens(self) -> Sequence[Sequence[int]]:
        return [[row] for row in range(len(self.backbone.vectors))]

    def copy_backbone(self, fresh: str | None = None) -> Table:
        self.fresh = fresh
        return Table(self.backbone.vectors)

    def states(self, tokens: Tokens, model: Table) -> tuple[list[Tensor], None]:
        return [model.vectors[[row for (row,) in tokens]].unsqueeze(1)], None

    def embed(self, views: Sequence[Tokens], model: Table) -> Views:
        assert not model.training
        return Views([self.states(view, model)[0][0][:, 0] for view in views], lambda layer: ())


@dataclass(frozen=True, eq=False)
class QueueCase(Case):
    """A case of steps: `prepare` before the first one, `before_loss`, the loss, `after_loss`."""

    def build(self) -> Any:
        method = super().build()
        plain, context = type(method).loss, None

        def loss(self: Any, views: Views, step: Step) -> Tensor:
            nonlocal context
            first, second = views.vectors
            if context is None:
                context = FakeContext(second)
                self.begin(context)
            context.backbone.vectors.data = first.detach().clone()
            for part in self.slots:
                # It judges a batch by its first view.
                if getattr(part, "complement", None) is not None:
                    part.complement.model.vectors.data = first.detach().clone()
            step = replace(step, rows=range(len(first)))
            self.train()
            for part in self.slots:
                part.before_loss(context, context.tokens(), step)
            value = plain(self, views, step)
            with torch.no_grad():
                self.after_loss(context, step)
            return value

        method.__class__ = type(type(method).__name__, (type(method),), {"loss": loss})
        return method
