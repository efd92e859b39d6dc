"""Runs, and the configurations that list them."""

from pathlib import Path
from typing import Literal, get_args

# The configurations of the project; a link, so that an installed package has them.
SUITES = (Path(__file__).parents[1] / "workflow" / "config").resolve()

# The stages of a run in their order, and the folders of a suite with their results.
STAGES = {"train": "trained", "score": "scores", "analyse": "analyses"}

# Measurements of a run's encoder besides scores (bench/stages/analyse.py).
AnalysisName = Literal["alignment", "layers", "tokens", "in-batch", "cosines"]
ANALYSES: tuple[str, ...] = get_args(AnalysisName)
