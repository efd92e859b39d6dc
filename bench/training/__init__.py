"""Training: the loop, its schedule and state, checkpoints and the log."""
