"""The rule of docs/reference/rule.md for many draws at once, restated in numpy: how often it errs,
and what it finds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from bench.datasets.tasks import STS_TASKS
from bench.reported import FOLDER
from bench.runs import config
from bench.runs.plan import Claim, Plan
from bench.runs.run import Run
from bench.stages.cost import rough_hours, work_of

Array = NDArray[Any]
Generator = np.random.Generator
LEVEL = 0.02  # of a question at a look
LOOKS = (1, 2, 4)  # in planned seeds
FEWEST = 3  # pairs that are tested
BACKBONES = ("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large")
TASKS = (*STS_TASKS, "Avg")


# --- The rule ---


class Estimate(NamedTuple):
    """A mean difference of each claim in points, its standard error and degrees of freedom."""

    mean: Array
    error: Array
    df: Array


def paired(differences: Array) -> Estimate:
    """Of differences (..., seeds). NaN: the baseline diverged; -inf: the method did; either pair
    leaves."""
    there = np.isfinite(differences)
    n = there.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(there, differences, 0).sum(-1) / n
        squares = (np.where(there, differences - mean[..., None], 0) ** 2).sum(-1)
        # Too few pairs have no test.
        error = np.where(n < FEWEST, np.nan, np.sqrt(squares / (n - 1) / n))
    return Estimate(mean, error, n - 1.0)


def welch(ours: Array, others: Array) -> Estimate:
    """Of independent scores (..., seeds)."""
    n, m = ours.shape[-1], others.shape[-1]
    a, b = ours.var(-1, ddof=1) / n, others.var(-1, ddof=1) / m
    df = (a + b) ** 2 / (a**2 / (n - 1) + b**2 / (m - 1))
    return Estimate(ours.mean(-1) - others.mean(-1), np.sqrt(a + b), df)


def holm(p: Array) -> Array:
    """Which p values of a family (..., claims) are rejected; NaN counts and never is."""
    p = np.where(np.isnan(p), 1.0, p)
    order = np.argsort(p, -1)
    steps = np.take_along_axis(p, order, -1) < LEVEL / np.arange(p.shape[-1], 0, -1)
    out = np.empty_like(steps)
    np.put_along_axis(out, order, np.logical_and.accumulate(steps, -1), -1)
    return out


class Looks(NamedTuple):
    """What each look computes, (looks, families, claims): the mean, p against 0, p against the
    margin from below, and whether no seed of the method diverged."""

    mean: Array
    differs: Array
    below: Array
    whole: Array


class Words(NamedTuple):
    """Which claims have a word, (families, claims)."""

    better: Array
    worse: Array
    below: Array


def looks_of(estimates: list[Estimate], margin: Any, whole: Any = True) -> Looks:
    mean, error, df = map(np.stack, zip(*estimates, strict=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        differs = 2 * stdtr(df, -np.abs(mean) / error)
        below = stdtr(df, (mean - margin) / error)
    return Looks(mean, differs, below, np.broadcast_to(whole, mean.shape))


def looks_at(differences: Array, planned: int, margin: Any) -> Looks:
    """The three looks at differences (families, claims, 4 planned)."""
    first = [differences[..., : look * planned] for look in LOOKS]
    whole = np.stack([~np.isneginf(values).any(-1) for values in first])
    return looks_of(list(map(paired, first)), margin, whole)


def words(looks: Looks, at: Array) -> Words:
    """The words of families whose claims stand at these looks, (families, claims)."""
    mean, differs, below, whole = (np.take_along_axis(values, at[None], 0)[0] for values in looks)
    rejected = holm(differs)
    return Words(rejected & (mean > 0) & whole, rejected & (mean < 0), holm(below))


def grown(looks: Looks, growth: str) -> Iterator[Words]:
    """The words after each step: all claims grow `together`; every second one runs `ahead`; or
    only `open` ones grow."""
    at = np.zeros(looks.mean.shape[1:], dtype=int)
    found = words(looks, at)
    yield found
    if growth == "open":
        while (behind := ~np.logical_or.reduce(found) & (at < len(LOOKS) - 1)).any():
            at = at + behind
            found = words(looks, at)
            yield found
        return
    steps = {"together": [(1, 1), (2, 2)], "ahead": [(1, 0), (2, 0), (2, 1), (2, 2)]}
    even = np.arange(at.shape[1]) % 2 == 0
    for step in steps[growth]:
        yield words(looks, np.broadcast_to(np.where(even, *step), at.shape))


# --- False words ---


@cache
def public_seeds(backbone: str) -> Array:
    """Scores of 50 public seeds, (50, 8), with the tasks in the order of `TASKS`."""
    seeds = pd.read_csv(FOLDER / "seeds.csv").query("split == 'test' and backbone == @backbone")
    return seeds.pivot(index="run", columns="task", values="value")[list(TASKS)].to_numpy()


def skewness(values: Array) -> float:
    centred = values - values.mean()
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)


def standardised(backbone: str) -> Array:
    """Public averages with mean 0 and standard deviation 1."""
    averages = public_seeds(backbone)[:, -1]
    return (averages - averages.mean()) / averages.std()


def mixed(rng: Generator, size: tuple[int, ...], share: float, distance: float) -> Array:
    """Normal scores, of which a share is some standard deviations lower."""
    scores = rng.normal(size=size) - distance * (rng.random(size) < share)
    return (scores + share * distance) / (1 + share * (1 - share) * distance**2) ** 0.5


# Scores with mean 0 and standard deviation 1.
KINDS: Mapping[str, Callable[[Generator, tuple[int, ...]], Array]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "t3": lambda rng, size: rng.standard_t(3, size) / 3**0.5,
    "skewed": lambda rng, size: 1 - rng.standard_exponential(size),
    "bimodal": partial(mixed, share=0.2, distance=4.0),
    "collapses": partial(mixed, share=0.1, distance=5.0),
    "bert-large": lambda rng, size: rng.choice(standardised("bert-large-uncased"), size),
}
CLAIMS, PLANNED, GROWTHS = (1, 3, 10, 14), (3, 5, 8), ("together", "ahead", "open")
MARGIN = 2.5  # in standard deviations of a difference


class Rates(NamedTuple):
    """Shares of families with a false word at any look: better or worse where the true difference
    is 0; below where it is the margin; either, where every second claim is at the margin."""

    differs: float
    below: float
    either: float


def false_words(estimates: list[Looks], growth: str = "together") -> Rates:
    """Of the looks where all true differences are 0, where all are the margin, and where every
    second one is."""
    found = []
    for looks, at_margin in zip(estimates, TRUTHS, strict=True):
        false = np.zeros(looks.mean.shape[1], dtype=bool)
        margins = at_margin(looks.mean.shape[2]).astype(bool)
        for better, worse, below in grown(looks, growth):
            false |= np.where(margins, below, better | worse).any(-1)
        found.append(float(false.mean()))
    return Rates(*found)


# Which of some claims have the margin as their true difference; those of the others are 0.
TRUTHS = (np.zeros, np.ones, lambda claims: np.arange(claims) % 2)


def scores_of(
    kind: str, claims: int, seeds: int, draws: int, *, shared: float = 0.5, common: float = 0.0
) -> Array:
    """Differences (draws, claims, seeds) whose means are 0. A share of the variance is the
    baseline's; of a method's own, a part is `common` to all its seeds."""
    rng = np.random.default_rng([claims, seeds, list(KINDS).index(kind)])
    own = KINDS[kind](rng, (draws, claims, seeds))
    if common:
        own = (1 - common) ** 0.5 * own + common**0.5 * rng.normal(size=(draws, claims, 1))
    if not shared:
        return own
    return (1 - shared) ** 0.5 * own - shared**0.5 * KINDS[kind](rng, (draws, 1, seeds))


def rates(
    kind: str,
    claims: int,
    planned: int,
    draws: int,
    *,
    growths: tuple[str, ...] = GROWTHS,
    **given: float,
) -> Rates:
    """The highest rates of the ways to grow."""
    drawn = scores_of(kind, claims, LOOKS[-1] * planned, draws, **given)
    return most(drawn, planned, growths)


def most(drawn: Array, planned: int, growths: tuple[str, ...] = GROWTHS) -> Rates:
    """The highest rates of the ways to grow, of differences whose true means are 0."""
    truths = [MARGIN * truth(drawn.shape[1]) for truth in TRUTHS]
    looks = [looks_at(drawn + truth[:, None], planned, MARGIN) for truth in truths]
    return Rates(*np.max([false_words(looks, growth) for growth in growths], 0).tolist())


def diverging(side: str, claims: int, planned: int, draws: int) -> Rates:
    """Where a tenth of the seeds diverges by chance: of the baseline, or of the methods."""
    drawn = scores_of("normal", claims, LOOKS[-1] * planned, draws)
    rng = np.random.default_rng([claims, planned])
    lost = rng.random((draws, claims if side == "method" else 1, drawn.shape[-1])) < 0.1
    return most(np.where(lost, -np.inf if side == "method" else np.nan, drawn), planned)


def against_untrained(
    claims: int, planned: int, draws: int, spread: float, kind: str = "normal"
) -> Rates:
    """Against a row with five classifier seeds, whose standard deviation is `spread` times that of
    the trained rows, which share nothing with it."""
    drawn = scores_of(kind, claims, LOOKS[-1] * planned, draws, shared=0)
    rng = np.random.default_rng([claims, planned])
    others = spread * rng.normal(size=(draws, 1, 5))
    looks = []
    for truth in TRUTHS:
        ours = drawn + MARGIN * truth(claims)[:, None]
        found = [welch(ours[..., : look * planned], others) for look in LOOKS]
        looks.append(looks_of(found, MARGIN))
    return Rates(*np.max([false_words(looks, growth) for growth in GROWTHS], 0).tolist())


def chosen_late(rows: int, planned: int, draws: int) -> Rates:
    """Where a claim is added, as a family of its own, when the first scores of some rows are known:
    of the highest mean, which is to be better, and of the lowest, which is to be below."""
    drawn = scores_of("normal", rows, LOOKS[-1] * planned, draws)
    found = []
    for sign, truth in zip((1, -1), TRUTHS, strict=False):
        place = (sign * drawn[..., :planned].mean(-1)).argmax(1)
        chosen = np.take_along_axis(drawn, place[:, None, None], 1) + MARGIN * truth(1)
        looks = looks_at(chosen, planned, MARGIN)
        found.append(false_words([looks] * 3))
    return Rates(found[0].differs, found[1].below, np.nan)


# --- Print ---


class Answers(NamedTuple):
    """Both answers on printed numbers, and p of the second."""

    inside: Array
    outside: Array
    p: Array


def answers(printed: Any, ours: Array, tolerance: float) -> Answers:
    """Of seeds (..., n) at a look."""
    n = ours.shape[-1]
    distance, sd = np.abs(ours.mean(-1) - printed), ours.std(-1, ddof=1)
    one, two = (stdtrit(n - 1, 1 - level) * sd / n**0.5 for level in (LEVEL, LEVEL / 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        p = 2 * stdtr(n - 1, -distance / (sd * (1 + 1 / n) ** 0.5))
    return Answers(distance + one <= tolerance, distance - two > tolerance, p)


def accused(found: Answers) -> Array:
    """Which rows of papers (..., rows) are `lower` or `higher`."""
    return found.outside & holm(found.p)


ROWS, TOLERANCE = 8, 1.0


def public_draws(backbone: str, size: tuple[int, ...]) -> Array:
    """Public averages minus their mean, drawn with replacement."""
    averages = public_seeds(backbone)[:, -1]
    rng = np.random.default_rng([*size, BACKBONES.index(backbone)])
    return rng.choice(averages - averages.mean(), size)


def at_looks(printed: Any, ours: Array, planned: int) -> list[Answers]:
    return [answers(printed, ours[..., : look * planned], TOLERANCE) for look in LOOKS]


def print_rates(backbone: str, planned: int, draws: int) -> dict[str, Any]:
    """Of averages whose runs are public ones, at three looks: how often one is `reproduced` whose
    true mean is the tolerance below or above print; how often a paper of 8 rows that prints single
    runs is accused; and how often a row whose true mean is printed is `reproduced` at each look."""
    drawn = public_draws(backbone, (draws, LOOKS[-1] * planned))
    false = {}
    for name, printed in {"above": TOLERANCE, "below": -TOLERANCE}.items():
        found = at_looks(printed, drawn, planned)
        false[name] = float(np.logical_or.reduce([look.inside for look in found]).mean())
    papers = public_draws(backbone, (draws, ROWS, 1 + LOOKS[-1] * planned))
    found = at_looks(papers[..., 0], papers[..., 1:], planned)
    wrong = np.logical_or.reduce([accused(look) for look in found])
    right = [float(look.inside.mean()) for look in at_looks(0.0, drawn, planned)]
    return false | {"accused": float(wrong.any(-1).mean()), "power": right}


# --- Power and hours of a suite's claims ---

NS = (5, 8, 10)
MOST_PLANNED = 60
PAPER = config.SUITES / "paper.yaml"


@cache
def plan_of(path: Path) -> Plan:
    return config.plan(config.load(path))


def rows_of(plan: Plan, claim: Claim) -> list[list[Run]]:
    """The runs of a claim's method and baseline."""
    return [
        [run for run in plan.runs if (run.text, run.backbone) == (text, claim.backbone)]
        for text in (claim.method, claim.baseline)
    ]


def power(path: Path, planned: int, draws: int, looks: tuple[int, ...] = LOOKS) -> Array:
    """How often each claim is better if all are true, and below its margin if all gains are 0:
    (looks, 2, claims). Differences are normal, as if the seeds of method and baseline, with the
    standard deviation of public runs, correlated with 0.5."""
    claims = plan_of(path).claims
    sds = np.array([public_seeds(claim.backbone)[:, -1].std(ddof=1) for claim in claims])
    margins, backbones = np.array([claim.margin for claim in claims]), {}
    places = [backbones.setdefault(claim.backbone, len(backbones)) for claim in claims]
    rng, seeds = np.random.default_rng(planned), planned * looks[-1]
    baselines = rng.normal(size=(draws, len(backbones), seeds))[:, places]
    drawn = sds[:, None] * (rng.normal(size=(draws, len(claims), seeds)) - baselines) / 2**0.5
    found = []
    for look in looks:
        zero = paired(drawn[..., : look * planned])
        gained = looks_of([zero._replace(mean=zero.mean + margins)], margins)
        below = looks_of([zero], margins).below[0]
        found.append((holm(gained.differs[0]).mean(0), holm(below).mean(0)))
    return np.array(found)


def needed(path: Path, draws: int) -> list[int | None]:
    """The fewest planned seeds with which the last look finds each claim's gain, and each 0 below
    it, in 80 % of cases; None if more than `MOST_PLANNED`."""
    fewest: list[int | None] = [None] * len(plan_of(path).claims)
    for planned in range(FEWEST, MOST_PLANNED + 1):
        if None in fewest:
            for place, least in enumerate(power(path, planned, draws, LOOKS[-1:])[0].min(0)):
                if fewest[place] is None and least >= 0.8:
                    fewest[place] = planned
    return fewest


def hours(runs: Sequence[Run], place: str) -> float:
    """The order of magnitude of the hours of one of these runs."""
    return rough_hours(work_of(runs[:1]), place)
