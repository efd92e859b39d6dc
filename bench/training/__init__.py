"""From a run to a trained encoder: loop, checkpoints, log."""
