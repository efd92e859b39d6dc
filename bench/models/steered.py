"""Vectors of a decoder's last token, without training (docs/encoders.md#without-training): of an
earlier layer, by contrastive prompting, and by token prepending. The last two change what a layer
receives in the model's own forward pass."""

import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from bench.models.packed_forward import Batch, forward, token_positions
from bench.models.transformer import blank_token
from bench.registry.templates import SENTENCE
from bench.utils.errors import UserError

CONTRAST, PREPEND = r"\s*<contrast>\s*", "<prepend>"
# The order of the marks in a template, by pooler.
ORDERS = {
    "contrast": "(sentence )+contrast( sentence)+",
    "prepend": "prepend( sentence)+",
    "avg_first_last_64": "",  # averages padding, and takes no template
}


def check_marks(pooler: str | None, template: str | None) -> None:
    """Refuse a template whose marks do not fit its pooler, and a contrast of equal texts."""
    usual, text = "" if template is None else "sentence( sentence)*", template or ""
    marks = " ".join(re.findall("<(sentence|contrast|prepend)>", text))
    order = ORDERS.get(str(pooler).partition("-")[0], usual)
    if not re.fullmatch(order, marks) or re.fullmatch(rf"(.*){CONTRAST}\1", text, re.DOTALL):
        raise UserError(
            f"the template {text!r} lacks {SENTENCE}, or does not fit pooler '{pooler}'; write "
            "<contrast> between two texts for contrast-..., <prepend> before the sentence for "
            "prepend-..., and neither for another pooler; avg_first_last_64 takes no template"
        )


def steering(
    model: Any, tokenizer: Any, pooler: str, template: str
) -> tuple[str, list[str], Callable[[Batch], Tensor]]:
    """The text around a sentence, the auxiliary one of contrastive prompting if there is one, and a
    function from a batch to the vectors of a pooler with numbers, (n, d).

    For contrastive prompting, the batch is that of all sentences in their text, then in the
    auxiliary one; the second half of the vectors has no meaning.

    Raises:
        UserError: the model lacks a layer that the pooler names.
    """
    kind, *numbers = pooler.split("-")
    text, *auxiliary = re.split(CONTRAST, template)
    names: list[str] = []
    if kind == "contrast":
        names = [f"layers.{numbers[0]}.self_attn.o_proj"]
    if kind == "prepend":
        place = text.index(PREPEND)
        text = text.replace(PREPEND, blank_token(tokenizer))
        place = tokenizer(text).char_to_token(place)
        # Without a layer the name is one that no model has.
        names = [f"layers.{i}" for i in range(int(numbers[0]), int(numbers[1])) or "-"]
    modules = dict(model.named_modules())
    output = int(numbers[-1]) if numbers else 0
    if (
        not modules.keys() >= {*names}
        or output > getattr(model.config, "num_hidden_layers", 0)
        or (names and int(numbers[0]) >= output)
    ):
        raise UserError(
            f"pooler '{pooler}' names a layer that the {model.config.model_type} does not have, "
            "one without self_attn.o_proj, or one behind its output; name others, or another pooler"
        )

    def steered(batch: Batch) -> Tensor:
        last = token_positions(batch.mask) == batch.mask.sum(1, keepdim=True)

        def change(_: Any, received: tuple[Tensor, ...]) -> None:
            states = received[0]
            if kind == "prepend":
                states[:, place] = states[last]
                return
            normal, auxiliary = states[last].chunk(2)
            difference = normal - auxiliary
            if numbers[1] == "norm":
                difference = F.normalize(difference) * normal.norm(dim=1, keepdim=True)
            else:
                difference = float(numbers[1]) * difference
            states[last] = difference.repeat(2, 1)

        with ExitStack() as hooks:
            for name in names:
                hooks.enter_context(modules[name].register_forward_pre_hook(change))
            return forward(model, batch)[output][last]

    return text, auxiliary, steered
