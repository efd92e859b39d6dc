"""PromptBERT: SimCSE's loss between the mask states of two templates around one sentence, each less
the state of the template alone at the same positions (docs/reference/methods.md#promptbert)."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from methods.base import (
    Context,
    Contrastive,
    Field,
    Step,
    Tokens,
    Views,
    fingerprint,
    model_validator,
    text_list,
    to_device,
    training_mode,
)

SENTENCE, MASK = "<sentence>", "<mask>"
ENDINGS = ".?\"'"  # the released test script adds a period to sentences with another ending

Value = TypeVar("Value")
# Such as templates, which are too long for a label.
Unlabelled = Annotated[Value, Field(json_schema_extra={"label": False})]


@dataclass(frozen=True)
class Prompt:
    """The tokens of a template before and after the sentence, including special tokens."""

    before: tuple[int, ...]
    behind: tuple[int, ...]
    mask: int  # position of the last mask, counted from the end

    @classmethod
    def read(cls, template: str, tokenizer: Any) -> Self:
        parts = template.replace(MASK, tokenizer.mask_token).split(SENTENCE)
        before, behind = tokenizer(parts)["input_ids"]
        # Without the special tokens around the sentence.
        before, behind = before[:-1], behind[1:]
        mask = -1 - behind[::-1].index(tokenizer.mask_token_id)
        return cls(tuple(before), tuple(behind), mask)

    def __len__(self) -> int:
        return len(self.before) + len(self.behind)

    def around(self, tokens: Tokens) -> list[list[int]]:
        """Insert sentences, tokenized with special tokens, into the template."""
        return [[*self.before, *row[1:-1], *self.behind] for row in tokens]

    def at_mask(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return the states (n, width) at the last mask, from states (n, length, width)."""
        return states[torch.arange(len(states), device=states.device), mask.sum(1) + self.mask]

    def alone(
        self, lengths: Tensor, config: Any, from_zero: bool
    ) -> tuple[list[list[int]], Tensor]:
        """Return tokens and positions of the template, as around sentences of each length."""
        # On the host: `PromptBERT._alone` moves the positions.
        positions = torch.arange(len(self)) + (0 if from_zero else first_position(config))
        behind = (torch.arange(len(self)) >= len(self.before)).long()
        positions = positions + behind * lengths.cpu().unsqueeze(1)
        return [[*self.before, *self.behind]] * len(lengths), positions


def first_position(config: Any) -> int:
    """Return the position of the first token; in RoBERTa, the position of padding is before it."""
    roberta = config.model_type in ("roberta", "xlm-roberta")
    return config.pad_token_id + 1 if roberta else 0


@dataclass(eq=False)
class PromptEncoder:
    """An Encoder: the state of a transformer's last layer at the last mask of a template."""

    kind: ClassVar[str] = "prompt"

    base: Any
    template: str
    denoise: bool
    period: bool
    space: bool = False
    from_zero: bool = False

    @cached_property
    def _prompt(self) -> Prompt:
        return Prompt.read(self.template, self.base.tokenizer)

    def save(self, folder: Any = None) -> dict[str, Any]:
        stored = {"template": self.template, "denoise": self.denoise, "period": self.period}
        # Only if they are set: the identity without them is what it was before they were added.
        if self.space:
            stored["space"] = True
        if self.from_zero:
            stored["from_zero"] = True
        return stored

    @property
    def identity(self) -> str:
        described = json.dumps([self.base.identity, self.save()], sort_keys=True)
        return fingerprint(self.kind, described, {})

    @classmethod
    def load(cls, folder: Any, stored: Any, *, base: Any, **_: Any) -> Self:
        return cls(base, **stored)

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        sentences = text_list(sentences)
        if self.period:
            sentences = [
                text if not text.strip() or text[-1] in ENDINGS else f"{text}."
                for text in sentences
            ]
        if self.space:
            sentences = [f" {text}" for text in sentences]
        prompt = self._prompt
        # The template already includes the two special tokens of the sentence.
        tokens = prompt.around(self.base.tokenize(sentences, room=len(prompt) - 2))
        vectors = self.base.encode_tokens(
            tokens, pool=lambda states, mask: prompt.at_mask(states[-1], mask)
        )
        if self.denoise and tokens:
            # On the host: token ids are made of the lengths.
            inner = [len(row) - len(prompt) for row in tokens]
            lengths, inverse = np.unique(inner, return_inverse=True)
            vectors -= self._alone(torch.from_numpy(lengths))[inverse]
        return vectors

    @torch.inference_mode()
    def _alone(self, lengths: Tensor) -> np.ndarray:
        model = self.base.model
        tokens, positions = self._prompt.alone(lengths, model.config, self.from_zero)
        ids = torch.tensor(tokens, device=next(model.parameters()).device)
        with training_mode(model, False):
            output = model(input_ids=ids, position_ids=positions.to(ids.device))
        states = output.last_hidden_state
        return self._prompt.at_mask(states, torch.ones_like(ids)).float().cpu().numpy()


class PromptBERT(Contrastive):
    """The mask state of templates as sentence vector."""

    name = "promptbert"
    title = "PromptBERT"
    reference = "Jiang et al. 2022, arXiv 2201.04337; code kongds/Prompt-BERT@690ba6e"

    class Hyper(Contrastive.Hyper):
        # Templates of BERT (RoBERTa: below), from the released script.
        template: Unlabelled[str] = f'This sentence of "{SENTENCE}" means {MASK}.'
        """of the first view and of scoring: `<sentence>`, then `<mask>`"""
        template_2: Unlabelled[str] = f'This sentence : "{SENTENCE}" means {MASK}.'
        """of the second view"""
        denoise: bool = True
        """subtract the template's own state in training"""
        denoise_scored: bool = False
        """subtract that state in scoring"""
        # To sentences that end with none of ENDINGS.
        period: bool = True
        """whether a period is added in scoring"""
        space: Unlabelled[bool] = False
        """a space before a scored sentence"""
        # On RoBERTa, too, whose sentences begin at 2.
        from_zero: Unlabelled[bool] = False
        """template alone begins at position 0"""

        @property
        def templates(self) -> list[str]:
            """Templates of both views, and of a method's extras, if it has any."""
            return [self.template, self.template_2]

        @model_validator(mode="after")
        def _check_templates(self) -> Self:
            for template in self.templates:
                before, *behind = template.split(SENTENCE)
                if len(behind) != 1 or MASK in before or MASK not in behind[0]:
                    raise ValueError(
                        f"a template needs {SENTENCE} once, then {MASK}, not '{template}'"
                    )
            return self

    # The released script, for both backbones: batch size 256, learning rate 1e-5, one epoch,
    # selection every 125 steps, 32 tokens per sentence, or 34 with the special tokens that the
    # recipe counts.
    _roberta = {
        "template": f"This sentence : '{SENTENCE} ' means{MASK}.",
        "template_2": f"The sentence : '{SENTENCE} ' means{MASK}.",
        "space": True,
        "from_zero": True,
    }
    official = {
        "*": {"batch_size": 256, "learning_rate": 1e-5, "max_length": 34},
        "roberta-base": _roberta,
        "roberta-large": _roberta,
    }
    # The paper says nothing of these.
    _silent = {**_roberta, "space": False, "from_zero": False}
    paper = {
        "*": {**official["*"], "period": False},
        "roberta-base": _silent,
        "roberta-large": _silent,
    }

    @classmethod
    def needs_dropout(cls, hyper: Hyper) -> bool:
        return hyper.template == hyper.template_2

    def prepare(self, context: Context) -> None:
        self.prompts = [Prompt.read(text, context.tokenizer) for text in self.hyper.templates]

    def step_loss(self, context: Context, step: Step) -> Tensor:
        tokens = step.take(context.tokens())
        extras = self.read_batch(context, tokens, step)
        lists = [*self.views(context, tokens, step), *chain.from_iterable(extras.values())]
        # Extras of the method written first have its third template, extras of others the second.
        prompts = self.prompts[:2]
        for name, rows in extras.items():
            prompts += [self.prompts[-1 if name == self.name else 1]] * len(rows)
        wrapped = [prompt.around(rows) for prompt, rows in zip(prompts, lists, strict=True)]
        # Interleaved, as in `Context.embed`: the sequences of a sentence are consecutive.
        states, mask = context.states(list(chain.from_iterable(zip(*wrapped, strict=True))))
        pairs = zip(prompts, wrapped, strict=True)
        alone = [self._alone(context, prompt, rows) for prompt, rows in pairs]

        def at_layer(layer: int) -> list[Tensor]:
            vectors = []
            for index, (prompt, bias) in enumerate(zip(prompts, alone, strict=True)):
                rows = slice(index, None, len(prompts))
                state = prompt.at_mask(states[layer][rows], mask[rows])
                vectors.append(context.head(state - bias(layer) if bias else state))
            return vectors

        vectors = at_layer(len(states) - 1)
        remaining = iter(vectors[2:])
        by_name = {name: [next(remaining) for _ in rows] for name, rows in extras.items()}
        return self.loss(Views(vectors[:2], lambda layer: at_layer(layer)[:2], by_name), step)

    def _alone(
        self, context: Context, prompt: Prompt, wrapped: Tokens
    ) -> Callable[[int], Tensor] | None:
        """Return a function from a layer to the template's states; None without denoising."""
        if not self.hyper.denoise:
            return None
        # On the host: token ids are made of the lengths; the index is moved.
        inner = torch.tensor([len(row) - len(prompt) for row in wrapped])
        lengths, inverse = inner.unique(return_inverse=True)
        tokens, positions = self._template_alone(context, prompt, lengths)
        inputs: dict[str, Any] = {}
        if positions is not None:
            inputs["position_ids"] = to_device(positions, context.device)
        states, mask = context.states(tokens, **inputs)
        inverse = to_device(inverse, context.device)
        return lambda layer: prompt.at_mask(states[layer], mask)[inverse]

    def _template_alone(
        self, context: Context, prompt: Prompt, lengths: Tensor
    ) -> tuple[list[list[int]], Tensor | None]:
        """Return tokens and positions (None: the backbone's) of the template alone."""
        return prompt.alone(lengths, context.backbone.config, self.hyper.from_zero)

    def encoder(self, context: Context) -> PromptEncoder:
        hyper = self.hyper
        options = hyper.denoise_scored, hyper.period, hyper.space, hyper.from_zero
        return PromptEncoder(context.encoder(), hyper.template.strip(), *options)
