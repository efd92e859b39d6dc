"""The verdicts on printed values and on comparisons, their symbols, and the constants of the rule
(docs/reference/rule.md)."""

from typing import Any, Literal

LEVEL = 0.02  # of each look; three looks bound an error rate by 6 %
LOOKS = (1, 2, 4)  # times N, the seeds that were planned before the first score
FEWEST_SEEDS = 3  # the smallest N
ITEMS_LEVEL = 0.05  # of a test over test items, which is made once

# --- The claim of a gain over a baseline ---

ClaimVerdict = Literal[
    "better", "better, gain below the margin", "worse", "gain below the margin", "open"
]

# Better and worse hold at other seeds. Of two systems without seeds, higher and lower hold on other
# test items, and say nothing of another training.
PairVerdict = Literal[ClaimVerdict, "higher", "lower"]

CLAIM_SYMBOLS: dict[Any, str] = {
    "better": "⇑", "better, gain below the margin": "⇑<", "worse": "⇓",
    "gain below the margin": "<", "open": "?",
}  # fmt: skip
COMPARISON_SYMBOLS: dict[PairVerdict, str] = {**CLAIM_SYMBOLS, "higher": "△", "lower": "▽"}

CLAIM_MEANINGS: dict[Any, str] = {
    "better": "the claimed gain is above 0",
    "better, gain below the margin": "the claimed gain is above 0, and below its margin",
    "worse": "the claimed gain is below 0",
    "gain below the margin": "the claimed gain is below its margin, and may be 0",
}
_OVER_ITEMS = "on other test items, at 5 %; nothing is said of other trainings"
COMPARISON_MEANINGS: dict[PairVerdict, str] = {
    **CLAIM_MEANINGS,
    "open": "not decided",
    "higher": _OVER_ITEMS,
    "lower": _OVER_ITEMS,
}

# What decides: seeds of both; seeds of one and the other's only score; seeds of one and classifier
# seeds of the other; test items; or, without stored items, nothing.
Pairing = Literal["paired", "one-sample", "Welch", "items", "deterministic"]

# --- The verdict on a printed number ---

# A printed difference of averages that the suite claims has the answers of its claim.
PrintedVerdict = Literal[
    "reproduced",
    "consistent",
    "lower",
    "higher",
    ClaimVerdict,
    "diverged",
    "not comparable",
    "not run",
]

VERDICT_SYMBOLS: dict[PrintedVerdict, str] = {
    "reproduced": "=",
    "consistent": "≈",
    "lower": "↓",
    "higher": "↑",
    **CLAIM_SYMBOLS,
    "diverged": "×",
    "not comparable": "≠",
    "not run": "–",
}

# Shown on the page beside the symbols.
VERDICT_MEANINGS: dict[PrintedVerdict, str] = {
    "reproduced": "our mean is within the tolerance of the printed number",
    "consistent": "our mean is outside the tolerance, but a single run of ours could have "
    "scored the printed number (≈ 1/12: one in 12 reaches it)",
    "lower": "our mean is below the tolerance, and no single run of ours explains the printed "
    "number",
    "higher": "our mean is above the tolerance, and no single run of ours explains the printed "
    "number",
    **CLAIM_MEANINGS,
    "open": "not decided (? 10: the next look is at 10 seeds; ? alone: there is no further one)",
    "diverged": "at least one of our trainings diverged",
    "not comparable": "ours was measured on another backbone, corpus, data set or recipe",
    "not run": "the suite has no score for it",
}

# The words for a score of the toy data beside the score of the reference machine.
TOY_VERDICTS: dict[PrintedVerdict, str] = {
    "reproduced": "as on the reference machine",
    "consistent": "as with another seed",
    "lower": "lower",
    "higher": "higher",
    "diverged": "diverged",
    "not comparable": "not comparable",
    "not run": "not run",
}

# --- The data of a figure ---

OURS, PRINT, LOG = "ours", "printed", "released log"  # where a point comes from
RANKS = ("nearest", "2nd", "3rd", "4th")  # the series of neighbours in a batch
