"""Figures: printed averages beside ours, the suite's leaderboards, comparisons, and the papers'
figures redrawn from our scores."""
