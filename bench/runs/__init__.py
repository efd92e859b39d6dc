"""Runs, and the configurations that list them."""

from typing import Literal, get_args

# The stages of a run in their order, and the folders of a suite with their results.
STAGES = {"train": "trained", "score": "scores", "analyse": "analyses"}

# Measurements of a run's encoder besides scores (bench/stages/analyse.py).
AnalysisName = Literal["alignment", "layers", "tokens", "in-batch", "cosines"]
ANALYSES: tuple[str, ...] = get_args(AnalysisName)
