"""Labels of runs in tables."""

# The end of the label of an encoder that a configuration lists, which the suite has not trained.
OUTSIDE = " (outside encoder)"


def is_outside(label: str) -> bool:
    """Whether a row of this label is of an outside encoder, which has no setting."""
    return label.endswith(OUTSIDE)
