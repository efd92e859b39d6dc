"""What a run is, and how a configuration becomes runs."""

STAGES = ("train", "score", "analyse")  # of a run, in this order

# Measurements of a run's encoder besides scores (bench/stages/analyse.py).
ANALYSES = ("alignment", "layers", "tokens", "in-batch", "cosines", "memory", "nearest")
