"""The words of verdicts and comparisons, their symbols, and the constants that their texts name."""

from typing import Literal

LEVEL = 0.05  # two-sided; the family-wise error rate of a table
FEWEST_SEEDS = 3  # below, no interval and no test
AT_LEAST = f"at least {FEWEST_SEEDS} seeds are needed"  # where no spread is known
MOST_SEEDS = 1000  # limit of every search for a number of seeds

# --- The verdict on a printed number ---

Kind = Literal[
    "reproduced",
    "consistent",
    "lower",
    "higher",
    "inconclusive",
    "diverged",
    "not comparable",
    "not run",
]

VERDICT_SYMBOLS: dict[Kind, str] = {
    "reproduced": "=",
    "consistent": "≈",
    "lower": "↓",
    "higher": "↑",
    "inconclusive": "?",
    "diverged": "×",
    "not comparable": "≠",
    "not run": "–",
}

# Shown on the page beside the symbols.
VERDICT_MEANINGS: dict[Kind, str] = {
    "reproduced": "our mean is within the tolerance of the printed number",
    "consistent": "our mean is outside the tolerance, but a single run of ours could have "
    "scored the printed number (≈ 1/12: one in 12 reaches it)",
    "lower": "our mean is below the tolerance, and no single run of ours explains the printed "
    "number",
    "higher": "our mean is above the tolerance, and no single run of ours explains the printed "
    "number",
    "inconclusive": "too few seeds to say whether our mean is within the tolerance (? 8: 8 seeds "
    f"decide if mean and spread stay as they are, but at least {FEWEST_SEEDS}; more "
    f"than {MOST_SEEDS:,} where it stands alone)",
    "diverged": "at least one of our trainings diverged",
    "not comparable": "ours was measured on another backbone, corpus, data set or recipe",
    "not run": "the suite has no score for it",
}

# The word for a score beside the embedded world's own.
WORLD_WORDS: dict[Kind, str] = {
    "reproduced": "as on the reference machine",
    "consistent": "as with another seed",
    "lower": "lower",
    "higher": "higher",
    "diverged": "diverged",
    "not comparable": "not comparable",
    "not run": "not run",
}

# --- The comparison of a method with a baseline ---

# Better and worse hold at other seeds. Of two systems without seeds, higher and lower hold on other
# test items, and say nothing of another training. Nothing is tested over templates.
Word = Literal["better", "worse", "higher", "lower", "by template", "undecided"]

COMPARISON_SYMBOLS: dict[Word, str] = {
    "better": "↑", "worse": "↓", "higher": "△", "lower": "▽", "by template": "#",
    "undecided": "?",
}  # fmt: skip

# Words that decide nothing: a table gives the reason, and a figure does not stress the row.
UNDECIDED: tuple[Word, ...] = ("undecided", "by template")

# The standing of a system in a column of a leaderboard: the best, one that cannot be told from it,
# or, where these are more than half of the column, either.
Standing = Literal["best", "tied", "open"]

# What decides: seeds of both, seeds of one and the other's only score, test items, a tolerance, or,
# over templates, nothing.
Pairing = Literal["paired", "one-sample", "items", "deterministic", "templates"]

# --- The data of a figure ---

OURS, PRINT, LOG = "ours", "printed", "released log"  # where a point comes from
