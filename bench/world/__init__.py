"""The embedded world: a small generated language whose sentences have known meaning (docs/world.md).

`build(out, seed)` writes a data folder in SentEval's layout with a training corpus beside it.
"""

from bench.world.build import build

__all__ = ["build"]
