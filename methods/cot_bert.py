"""CoT-BERT: PromptBERT's vectors at the second mask of templates in two steps, less those around
padding, with a negative template (docs/reference/methods.md#cot-bert)."""

from typing import Literal, Self

import torch
from torch import Tensor

from methods.base import (
    Context,
    Count,
    Negatives,
    Step,
    Tokens,
    Views,
    cosine,
    model_validator,
)
from methods.promptbert import MASK, SENTENCE, Prompt, PromptBERT, Unlabelled, first_position

_MEANS = f"means {MASK} , so it can be summarized as {MASK} ."
_OPPOSITE = f"does not mean {MASK} , so it cannot be summarized as {MASK} ."


class CoTBERT(PromptBERT):
    """Prompts in two steps, with a negative template."""

    name = "cot-bert"
    title = "CoT-BERT"
    reference = "Zhang et al. 2024, arXiv 2309.11143; code ZBWpro/CoT-BERT@3aa7bb4"

    class Hyper(PromptBERT.Hyper):
        # Templates of BERT (RoBERTa: below), from the released script.
        template: Unlabelled[str] = f'The sentence of "{SENTENCE}" {_MEANS}'
        """of the anchor and of scoring"""
        template_2: Unlabelled[str] = f'The sentence : "{SENTENCE}" {_MEANS}'
        """of the positive"""
        template_3: Unlabelled[str | None] = f'The sentence : "{SENTENCE}" {_OPPOSITE}'
        """of the negative; none: no negative"""
        # Cosines of positive i and negative j are candidates of anchor i.
        cross: bool = True
        """cosines of positives with negatives are candidates"""
        # "positions": only the sentence's, as PromptBERT.
        denoise_by: Literal["padding", "positions"] = "padding"
        """what stands for the sentence in a subtracted template"""
        # RoBERTa gives padding no positions, so there the released code's are not.
        aligned: bool = False
        """template positions as around words, on RoBERTa"""
        split: Count = 1
        """equal parts of a batch that contrast alone"""

        @property
        def templates(self) -> list[str]:
            added = [] if self.template_3 is None else [self.template_3]
            return super().templates + added

        @model_validator(mode="after")
        def _check_padding(self) -> Self:
            if self.denoise_scored and self.denoise_by == "padding":
                raise ValueError(
                    "padding cannot be subtracted from a scored vector; set denoise_by=positions "
                    "or denoise_scored=false"
                )
            return self

    # The released scripts, the same for both backbones: code-for-BERT/train.py:487-514.
    _recipe = {"batch_size": 256, "learning_rate": 1e-5, "max_length": 34, "drop_last": True}
    # The last blank is a token in training; a scored text is stripped (evaluation.py:228).
    _roberta = {
        "template": f"The sentence of '{SENTENCE} ' {_MEANS} ",
        "template_2": f"The sentence : '{SENTENCE} ' {_MEANS} ",
        "template_3": f"The sentence : '{SENTENCE} ' {_OPPOSITE} ",
        "space": True,
    }
    official = {"*": {**_recipe, "split": 2}, "roberta-base": _roberta, "roberta-large": _roberta}
    # The paper says nothing of these.
    _silent = {**_roberta, "space": False}
    paper = {
        "*": {**_recipe, "split": 1, "period": False, "aligned": True},
        "roberta-base": _silent,
        "roberta-large": _silent,
    }

    @classmethod
    def joins(cls) -> bool:
        return False  # its negatives need its templates

    @classmethod
    def in_parts(cls, hyper: Hyper) -> str | None:
        return f"split={hyper.split}" if hyper.split > 1 else None

    def extras(self, context: Context, tokens: Tokens, step: Step) -> tuple[Tokens, ...]:
        return () if self.hyper.template_3 is None else (tokens,)

    def _template_alone(
        self, context: Context, prompt: Prompt, lengths: Tensor
    ) -> tuple[list[list[int]], Tensor | None]:
        if self.hyper.denoise_by == "positions":
            return super()._template_alone(context, prompt, lengths)
        # On the host: `PromptBERT._alone` moves the positions.
        pad = context.tokenizer.pad_token_id
        tokens = prompt.around([[pad] * (length + 2) for length in lengths.tolist()])
        if not self.hyper.aligned:
            return tokens, None
        positions = torch.arange(max(map(len, tokens))) + first_position(context.backbone.config)
        return tokens, positions.expand(len(tokens), -1)

    def loss(self, views: Views, step: Step) -> Tensor:
        parts = views.split(self.hyper.split)
        return torch.stack([super(CoTBERT, self).loss(part, step) for part in parts]).mean()

    def negatives(self, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        if self.hyper.template_3 is None:
            return []
        (opposites,) = views.extras[self.name]
        negatives = [Negatives(opposites)]
        if self.hyper.cross:
            negatives.append(Negatives(cosines=cosine(self.pairs(views)[1], opposites)))
        return negatives
