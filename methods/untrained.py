"""A pooler on the raw checkpoint, without training (docs/reference/methods.md#untrained)."""

from typing import Any

from methods.base import LABEL, Context, Field, HyperParameters, Method, Pooler


class Untrained(Method):
    """A pooler on the raw checkpoint."""

    name = "untrained"
    title = "Untrained"
    reference = "Gao, Yao and Chen 2021, arXiv 2104.08821, Table 5"

    class Hyper(HyperParameters):
        # The default reproduces the published 56.70 (docs/reference/methods.md#untrained).
        pooler: Pooler = Field("avg_embedding_last", json_schema_extra=LABEL)
        """see docs/reference/training.md#vectors"""

    trained = False

    def encoder(self, context: Context) -> Any:
        return context.encoder(self.hyper.pooler)
