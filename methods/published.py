"""Published checkpoints, as their authors trained them (docs/reference/methods.md#published)."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from methods.base import (
    LABEL,
    MODEL,
    PROMPT_NAME,
    TEXT,
    Context,
    Count,
    Field,
    HyperParameters,
    Method,
    Pooler,
    field_validator,
    model_validator,
)  # fmt: skip


class Published(Method):
    """A checkpoint as its authors trained it."""

    name = "published"
    title = "Published checkpoint"
    reference = "the checkpoint's authors"

    class Hyper(HyperParameters):
        # The default is an unsupervised SimCSE checkpoint, scored as by its authors (b.10).
        model: str = Field(
            "princeton-nlp/unsup-simcse-bert-base-uncased", json_schema_extra=LABEL | MODEL
        )
        """what is scored, of safetensors weights"""
        pooler: Pooler | None = Field("cls_before_pooler", json_schema_extra=LABEL)
        """none: the checkpoint's own"""
        prompt: str | None = Field(None, json_schema_extra=TEXT)
        """by name or text, `""` for none; none: the default"""
        normalize: bool = False
        """scale vectors to length 1"""
        template: str | None = Field(None, json_schema_extra=TEXT)
        """text around `<sentence>`; none: no text"""
        dims: Count | None = None
        """first dimensions of vectors that are kept; none: all"""
        dtype: Literal["float32", "bfloat16"] = "float32"
        """of weights and states"""

        @field_validator("prompt", "template", mode="before")
        @classmethod
        def _strip_word(cls, value: Any) -> Any:
            # Spaces around a word, as in [prompt = query], are no part of it.
            is_text = isinstance(value, str)
            if is_text and (not value.strip() or PROMPT_NAME.fullmatch(value.strip())):
                return value.strip()
            return value

        @model_validator(mode="after")
        def _check_prompt(self) -> Self:
            if self.pooler and PROMPT_NAME.fullmatch(self.prompt or ""):
                raise ValueError(
                    f"a pooler uses only the transformer of '{self.model}', without prompts by "
                    "name; write pooler=none, or the text of the prompt"
                )
            return self

    trained = False
    backbone_free = True

    @classmethod
    def version_of(cls, hyper: Mapping[str, Any]) -> int:
        # In version 1, a mean was taken over the tokens of the sentence, without the template, and
        # our own forward pass ran in bfloat16.
        by_library = hyper.get("template") or hyper.get("dtype") == "bfloat16"
        return 2 if by_library else cls.version

    def encoder(self, context: Context) -> Any:
        options = dict(self.hyper)
        return context.load_encoder(options.pop("model"), **options)
