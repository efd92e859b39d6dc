"""The embedded world: a small generated language whose sentences have a known meaning
(docs/world.md).

`build(out, seed)` writes a data folder in SentEval's layout and a training corpus.
"""

from bench.world.build import build

__all__ = ["build"]
