"""What a run is, and how a configuration becomes runs."""

from typing import Literal, get_args

STAGES = ("train", "score", "analyse")  # of a run, in this order

# Measurements of a run's encoder besides scores (bench/stages/analyse.py).
Analysis = Literal["alignment", "layers", "tokens", "in-batch", "cosines", "memory", "nearest"]
ANALYSES: tuple[str, ...] = get_args(Analysis)
