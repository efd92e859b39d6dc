"""Cropping: InfoNCE over two crops of a document or sentence, drawn anew in each epoch; the
released code has other data, so there is no `official` (docs/reference/methods.md#cropping)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from methods.base import Context, Contrastive, Count, Field, Refusal, Step


class Cropping(Contrastive):
    """Two crops of a text as views."""

    name = "cropping"
    title = "Cropping"
    reference = (
        "González-Márquez et al. 2025, arXiv 2508.03453; code berenslab/text-embed-augm@09ac529"
    )

    class Hyper(Contrastive.Hyper):
        unit: Literal["document", "sentence"] = "document"
        """what is cropped"""
        lines: Count = 2
        """successive lines of a document in a crop"""
        longest: int = Field(128, ge=3)
        """word pieces of such a crop, special ones too"""
        cut: float = Field(0.1, ge=0, lt=1)
        """share of words outside a sentence's crop"""

    paper = {"*": {"pooler": "avg", "learning_rate": 2e-5, "warmup": 0.1, "precision": "float32"}}
    used_if = {
        "lines": lambda hyper: hyper.unit == "document",
        "longest": lambda hyper: hyper.unit == "document",
        "cut": lambda hyper: hyper.unit == "sentence",
    }

    @classmethod
    def reads(cls, hyper: Hyper) -> str | None:
        return "documents" if hyper.unit == "document" else None

    @classmethod
    def fixed_positive(cls, hyper: Hyper) -> str | None:
        if hyper.unit == "document":
            return "unit=document"
        return f"cut={hyper.cut:g}" if hyper.cut else None

    def prepare(self, context: Context) -> None:
        if self.hyper.unit == "sentence":
            self.longest = max(map(len, context.tokens()))  # a crop is never longer
            return
        self.longest = self.hyper.longest
        self.documents = [rows for rows in context.documents() if len(rows) > self.hyper.lines]
        if not self.documents:
            raise Refusal(
                f"'cropping' finds no document of more than {self.hyper.lines} lines in this "
                "corpus; set fewer lines"
            )

    def items(self, context: Context) -> int:
        return len(self.documents) if self.hyper.unit == "document" else super().items(context)

    def step_loss(self, context: Context, step: Step) -> Tensor:
        if self.hyper.unit == "sentence" and not self.hyper.cut:
            return super().step_loss(context, step)
        pairs, rows = self.crops(context.sentences(), step)
        step = replace(step, rows=rows)  # parts that join look up a sentence of each item
        tokens = step.take(context.tokens()) if self.parts else ()
        views = [context.tokenize(texts, self.longest) for texts in zip(*pairs, strict=True)]
        return self.loss(context.embed(views, self.read_batch(context, tokens, step)), step)

    def crops(
        self, sentences: Sequence[str], step: Step
    ) -> tuple[list[tuple[str, str]], list[int]]:
        """Return the texts of both crops of each item, and the row of a sentence of it."""
        pairs, rows, generator = [], [], step.generator("crop")
        for item in step.rows:
            if self.hyper.unit == "document":
                units = [sentences[row] for row in self.documents[item]]
                size, row = self.hyper.lines, self.documents[item].start
                # Two different crops, which may overlap.
                starts = torch.randperm(len(units) - size + 1, generator=generator)[:2]
            else:
                units, row = sentences[item].split(), item
                size = min(len(units), max(1, round((1 - self.hyper.cut) * len(units))))
                starts = torch.randint(len(units) - size + 1, (2,), generator=generator)
            first, second = (" ".join(units[start : start + size]) for start in starts.tolist())
            pairs.append((first, second))
            rows.append(row)
        return pairs, rows
