"""Published checkpoints, as their authors trained them (docs/methods.md#published)."""

from typing import Any, Literal, Self

from pydantic import model_validator

from methods.base import (
    LABEL,
    MODEL,
    POOLER_PATTERN,
    Context,
    Count,
    Field,
    HyperParameters,
    Method,
)  # fmt: skip


class Published(Method):
    name = "published"
    title = "Published checkpoint"
    reference = "the checkpoint's authors"

    class Hyper(HyperParameters):
        # The default is an unsupervised SimCSE checkpoint, scored as by its authors (b.10).
        model: str = Field(
            "princeton-nlp/unsup-simcse-bert-base-uncased", json_schema_extra=LABEL | MODEL
        )
        """what is scored, of safetensors weights"""
        pooler: str | None = Field(
            "cls_before_pooler", pattern=f"^({POOLER_PATTERN})$", json_schema_extra=LABEL
        )
        """none: the checkpoint's own"""
        prompt: str | None = None
        """by name, `""` for none; none: the default"""
        normalize: bool = False
        """scale vectors to length 1"""
        template: str | None = None
        """text around `<sentence>`, with a pooler; none: no text"""
        dims: Count | None = None
        """first dimensions of vectors that are kept; none: all"""
        dtype: Literal["float32", "bfloat16"] = "float32"
        """of weights and states"""

        @model_validator(mode="after")
        def _check_prompt(self) -> Self:
            if self.prompt and self.pooler:
                raise ValueError(
                    f"a pooler uses only the transformer of '{self.model}', without prompts; "
                    "write pooler=none, or omit 'prompt'"
                )
            return self

    trained = False
    backbone_free = True

    def encoder(self, context: Context) -> Any:
        options = dict(self.hyper)
        return context.load_encoder(options.pop("model"), **options)
