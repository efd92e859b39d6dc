"""PromptBERT: what the backbone would say at the mask of a template that quotes the sentence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from methods.base import Context, Contrastive, ContrastiveHyper, Refusal, Step, Tokens, Views, overlay

SENTENCE, MASK = "<sentence>", "<mask>"
ENDINGS = ".?\"'"  # a sentence that ends otherwise is given a period, in the released test script


@dataclass(frozen=True)
class PromptBERTHyper(ContrastiveHyper):
    # Templates of BERT and, below, of RoBERTa: the released script.
    # The first view's, and of what is scored; and the second view's. Too long for a label.
    template: str = field(default=f'This sentence of "{SENTENCE}" means {MASK}.', metadata={"label": False})
    template_2: str = field(default=f'This sentence : "{SENTENCE}" means {MASK}.', metadata={"label": False})
    denoise: bool = True  # training subtracts what the template alone gives
    denoise_scored: bool = False  # scoring subtracts it too
    period: bool = True  # scoring ends a sentence with a period where it has no such mark


@dataclass(frozen=True)
class Prompt:
    """A template's word pieces, special tokens included, before and behind the sentence."""

    before: tuple[int, ...]
    behind: tuple[int, ...]
    place: int  # of the mask, from the end

    @classmethod
    def read(cls, template: str, tokenizer: Any) -> Prompt:
        """A template by the backbone's own tokenizer; its two parts are tokenized apart."""
        parts = template.replace(MASK, tokenizer.mask_token).split(SENTENCE)
        before, behind = tokenizer(parts)["input_ids"]
        behind = behind[1:]
        return cls(tuple(before[:-1]), tuple(behind), behind.index(tokenizer.mask_token_id) - len(behind))

    def __len__(self) -> int:
        return len(self.before) + len(self.behind)

    def around(self, tokens: Tokens) -> list[list[int]]:
        """Sentences, tokenized with special tokens, within the template."""
        return [[*self.before, *row[1:-1], *self.behind] for row in tokens]

    def at_mask(self, states: Tensor, mask: Tensor) -> Tensor:
        """The states (n, width) at the template's mask, of (n, length, width)."""
        return states[torch.arange(len(states), device=states.device), mask.sum(1) + self.place]

    def alone(self, lengths: Tensor, config: Any) -> tuple[list[list[int]], Tensor]:
        """Tokens and positions of the template without a sentence, as if one of each length stood there."""
        first = config.pad_token_id + 1 if config.model_type in ("roberta", "xlm-roberta") else 0
        places = torch.arange(len(self)) + first
        shift = (torch.arange(len(self)) >= len(self.before)).long()
        return [[*self.before, *self.behind]] * len(lengths), places + shift * lengths.cpu().unsqueeze(1)


class PromptEncoder:
    """An Encoder: the state of a transformer's last layer at the mask of a template."""

    kind = "prompt"

    def __init__(self, base: Any, template: str, denoise: bool, period: bool) -> None:
        self.base, self.template, self.denoise, self.period = base, template, denoise, period
        self._prompt = Prompt.read(template, base.tokenizer)

    @property
    def _stored(self) -> dict[str, Any]:
        return {"template": self.template, "denoise": self.denoise, "period": self.period}

    @property
    def identity(self) -> str:
        described = json.dumps([self.base.identity, self._stored], sort_keys=True)
        return f"{self.kind}-{hashlib.sha256(described.encode()).hexdigest()[:16]}"

    def encode(self, sentences: Sequence[str], **_: Any) -> np.ndarray:
        if self.period:
            sentences = [text if not text.strip() or text[-1] in ENDINGS else f"{text}." for text in sentences]
        prompt = self._prompt
        # The sentence's own two special tokens are among those of the template.
        tokens = prompt.around(self.base.tokenize(sentences, room=len(prompt) - 2))
        vectors = self.base.encode_tokens(tokens, pool=lambda states, mask: prompt.at_mask(states[-1], mask))
        if self.denoise and tokens:
            lengths, own = np.unique([len(row) - len(prompt) for row in tokens], return_inverse=True)
            vectors -= self._alone(torch.from_numpy(lengths))[own]
        return vectors

    @torch.inference_mode()
    def _alone(self, lengths: Tensor) -> np.ndarray:
        model = self.base.model
        tokens, positions = self._prompt.alone(lengths, model.config)
        device = next(model.parameters()).device
        training = model.training
        model.eval()
        try:
            ids = torch.tensor(tokens, device=device)
            states = model(input_ids=ids, position_ids=positions.to(device)).last_hidden_state
        finally:
            model.train(training)
        return self._prompt.at_mask(states, torch.ones_like(ids)).float().cpu().numpy()

    def save(self, folder: Path) -> dict[str, Any]:
        return self._stored

    @classmethod
    def load(cls, folder: Path, stored: dict[str, Any], *, base: Any, **_: Any) -> PromptEncoder:
        return cls(base, stored["template"], stored["denoise"], stored["period"])


class PromptBERT(Contrastive):
    """SimCSE's loss between the mask states of two templates around one sentence (methods.md b.18).

    From each view's state what the template alone gives is subtracted, with positions as if the sentence stood there;
    then comes the training head, which scoring leaves out. Sentences of one length share what the template alone gives,
    dropout mask included, and gradient flows through it, as in the released code. Scoring takes the first template; the
    released test script subtracts nothing and ends sentences with a period, and so does `official`. `paper` adds no
    period, for the paper does not speak of it.

    It departs from the released code in selection, which there subtracts and adds no period, unlike the test; on
    RoBERTa, where the template alone is given positions from 0 on while sentences begin at 2; and in that sentence and
    template are tokenized apart when scoring too, which only RoBERTa's tokenizer notices. A template is text with
    <sentence> and behind it <mask>. What a joined part wants encoded stands in the second template.
    """

    name = "promptbert"
    title = "PromptBERT"
    reference = "Jiang et al. 2022, arXiv 2201.04337; code kongds/Prompt-BERT@690ba6e"
    Hyper = PromptBERTHyper
    # The released script, for both backbones: batch size 256, 1e-5, one epoch, selection every 125 steps, 32 word
    # pieces of the sentence, which are 34 with the special tokens that the recipe counts.
    _roberta = {
        "template": f"This sentence : '{SENTENCE} ' means{MASK}.",
        "template_2": f"The sentence : '{SENTENCE} ' means{MASK}.",
    }
    official = {
        "*": {"batch_size": 256, "learning_rate": 1e-5, "max_length": 34},
        "roberta-base": _roberta,
        "roberta-large": _roberta,
    }
    paper = overlay(official, {"*": {"period": False}})

    @classmethod
    def check(cls, hyper: PromptBERTHyper) -> None:
        super().check(hyper)
        for template in (hyper.template, hyper.template_2):
            before, *behind = template.split(SENTENCE)
            if len(behind) != 1 or MASK in before or behind[0].count(MASK) != 1:
                raise Refusal(f"a template of 'promptbert' has {SENTENCE} once and behind it {MASK}, not '{template}'")

    def prepare(self, context: Context) -> None:
        super().prepare(context)
        self.prompts = [Prompt.read(text, context.tokenizer) for text in (self.hyper.template, self.hyper.template_2)]

    def step_loss(self, context: Context, step: Step) -> Tensor:
        corpus = context.tokens()
        tokens = [corpus[row] for row in step.rows]
        named = {part.name: part.extras(tokens, step) for part in self.slots}
        rows = [*self.views(tokens, step), *(extra for extras in named.values() for extra in extras)]
        prompts = [self.prompts[min(row, 1)] for row in range(len(rows))]
        wrapped = [prompt.around(row) for prompt, row in zip(prompts, rows, strict=True)]
        states, mask = context.states([each[i] for i in range(len(tokens)) for each in wrapped])
        alone = [self._alone(context, prompt, each) for prompt, each in zip(prompts, wrapped, strict=True)]

        def at_layer(layer: int) -> list[Tensor]:
            found = []
            for row, (prompt, noise) in enumerate(zip(prompts, alone, strict=True)):
                vectors = prompt.at_mask(states[layer][row :: len(rows)], mask[row :: len(rows)])
                found.append(context.head(vectors - noise[layer] if noise else vectors))
            return found

        vectors = at_layer(len(states) - 1)
        remaining = iter(vectors[2:])
        extras = {name: [next(remaining) for _ in lists] for name, lists in named.items()}
        return self.loss(Views(vectors[:2], lambda layer: at_layer(layer)[:2], extras), step)

    def _alone(self, context: Context, prompt: Prompt, wrapped: Tokens) -> list[Tensor]:
        """What the template alone gives in each layer, for each of its sentences; nothing where it is not wanted."""
        if not self.hyper.denoise:
            return []
        lengths, own = torch.tensor([len(row) - len(prompt) for row in wrapped]).unique(return_inverse=True)
        tokens, positions = prompt.alone(lengths, context.backbone.config)
        states, mask = context.states(tokens, position_ids=positions.to(context.device))
        return [prompt.at_mask(layer, mask)[own.to(layer.device)] for layer in states]

    def encoder(self, context: Context) -> PromptEncoder:
        hyper = self.hyper
        return PromptEncoder(context.encoder(), hyper.template, hyper.denoise_scored, hyper.period)
