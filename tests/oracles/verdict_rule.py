"""The rule of docs/statistics.md for many draws at once, restated in numpy, and how often it errs.

python -m tests.oracles.verdict_rule    # writes the tables and the figure of docs/statistics.md
"""

import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from bench.datasets.tasks import STS_TASKS
from bench.reported import FOLDER, prior_sd

Array = NDArray[Any]
BACKBONES = ("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large")
TASKS = (*STS_TASKS, "Avg")
# Seeds to which the simulated suites are grown: normal draws, and the public ones, of which there
# are 50, drawn without replacement.
MOST_GROWN, MOST_PUBLIC = 150, 20
DOCUMENT = Path(__file__).parents[2] / "docs" / "statistics.md"


class Answers(NamedTuple):
    """Both answers for each draw, as arrays of one shape."""

    inside: Array
    outside: Array
    p: Array
    lower: Array


def answers(
    printed: Array, ours: Array, tolerance: float, prior: float | None, first: int | None = None
) -> Answers:
    """Answer both questions; the last axis of `ours` holds the seeds, of which those after the
    `first` were added after a look."""
    n, weight = ours.shape[-1], 0 if prior is None else 5
    mean, variance, df = ours.mean(-1), ours.var(-1, ddof=1), n - 1 + weight
    pooled = (weight * (prior or 0) ** 2 + (n - 1) * variance) / df
    sd = np.sqrt(np.maximum(variance, pooled))
    distance, error = np.abs(mean - printed), sd / np.sqrt(n)
    level = 0.05 if first is None or n <= first else 0.005 * first / n
    return Answers(
        distance + stats.t.isf(level, df) * error <= tolerance,
        distance - stats.t.isf(level / 2, df) * error > tolerance,
        2 * stats.t.sf(distance / (sd * np.sqrt(1 + 1 / n)), df),
        mean < printed,
    )


def holm_rejects(p: Array) -> Array:
    """Which of each row of p values Holm's method rejects at 5 %."""
    order = np.argsort(p, axis=-1)
    ranked = np.take_along_axis(p, order, -1)
    rejected = np.logical_and.accumulate(ranked < 0.05 / np.arange(p.shape[-1], 0, -1), axis=-1)
    out = np.empty_like(rejected)
    np.put_along_axis(out, order, rejected, -1)
    return out


@cache
def public_seeds(backbone: str) -> Array:
    """Scores of 50 public seeds, (50, 8), with the tasks in the order of `TASKS`."""
    seeds = pd.read_csv(FOLDER / "seeds.csv").query("split == 'test' and backbone == @backbone")
    return seeds.pivot(index="run", columns="task", values="value")[list(TASKS)].to_numpy()


@cache
def moments(backbone: str) -> tuple[Array, Array]:
    """Mean of the public seeds, (8,), and a root of their covariance, (8, 8)."""
    seeds = public_seeds(backbone)
    values, vectors = np.linalg.eigh(np.cov(seeds.T))
    return seeds.mean(0), vectors * np.sqrt(np.maximum(values, 0))


def documented(label: str, columns: int) -> list[list[float]]:
    """The rates of each row of docs/statistics.md with a label and a number of columns."""
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = re.findall(rf"^\| {label} \| (.*) \|$", text, re.MULTILINE)
    rates = [[float(rate) / 100 for rate in row.split(" | ")] for row in rows]
    return [row for row in rates if len(row) == columns]


def draws(
    rng: np.random.Generator, backbone: str, n: int, count: int, normal: bool, scale: float = 1.0
) -> Array:
    """Averages of `count` times n runs: public ones without replacement, or normal draws with
    their mean and `scale` times their standard deviation."""
    seeds = public_seeds(backbone)[:, -1]
    if normal:
        return rng.normal(seeds.mean(), scale * seeds.std(ddof=1), (count, n))
    picked = np.argsort(rng.random((count, len(seeds))), axis=1)[:, :n]
    return seeds.mean() + scale * (seeds[picked] - seeds.mean())


def rows_of(count: int) -> list[str]:
    """The backbones of the rows of a paper."""
    return [BACKBONES[row % len(BACKBONES)] for row in range(count)]


def accused(found: list[Answers]) -> float:
    """Share of papers with a row outside the tolerance that Holm's method rejects."""
    rejected = holm_rejects(np.stack([row.p for row in found], -1))
    return float((rejected & np.stack([row.outside for row in found], -1)).any(-1).mean())


def false_accusations(
    n: int, *, papers: int, rows: int = 8, normal: bool = True, scale: float = 1.0
) -> float:
    """Share of papers with any `lower` or `higher`, where each printed average is one more draw
    from the same runs."""
    rng = np.random.default_rng([n, rows, normal, int(10 * scale)])
    found = []
    for backbone in rows_of(rows):
        drawn = draws(rng, backbone, n + 1, papers, normal, scale)
        found.append(answers(drawn[:, n], drawn[:, :n], 1.0, prior_sd(backbone, "Avg")))
    return accused(found)


def rates(
    backbone: str, n: int, gap: float, *, papers: int, rows: int = 8, normal: bool = True
) -> dict[str, float]:
    """How often the first row of a paper gets each answer.

    The row prints `gap` points more than the true mean; every other row prints one more draw.
    """
    rng = np.random.default_rng([n, rows, normal, int(100 * gap), BACKBONES.index(backbone)])
    first, p = None, []
    for row, name in enumerate([backbone, *rows_of(rows)[1:]]):
        drawn = draws(rng, name, n + 1, papers, normal)
        printed = drawn[:, n] if row else np.full(papers, public_seeds(name)[:, -1].mean() + gap)
        found = answers(printed, drawn[:, :n], 1.0, prior_sd(name, "Avg"))
        first = first or found
        p.append(found.p)
    assert first is not None
    lower = first.outside & first.lower & holm_rejects(np.stack(p, -1))[:, 0]
    return {
        "reproduced": float(first.inside.mean()),
        "outside": float(first.outside.mean()),
        "lower": float(lower.mean()),
    }


def grown(printed: Array, ours: Array, first: int, prior: float | None) -> tuple[Answers, Array]:
    """The answers when seeds are added one at a time, from `first` on, until the mean is found
    within the tolerance or outside, or all seeds of `ours` are used; and the number of seeds."""
    found = answers(printed, ours[:, :first], 1.0, prior)
    seeds = np.full(len(ours), first)
    for n in range(first + 1, ours.shape[-1] + 1):
        is_open = ~(found.inside | found.outside)
        seeds[is_open] = n
        now = answers(printed[is_open], ours[is_open, :n], 1.0, prior, first)
        for old, new in zip(found, now, strict=True):
            old[is_open] = new
    return found, seeds


def false_accusations_of_grown(
    first: int, *, papers: int, rows: int = 8, normal: bool = True
) -> float:
    """`false_accusations`, where each row is grown from `first` seeds."""
    last = MOST_GROWN if normal else MOST_PUBLIC
    rng = np.random.default_rng([first, last, rows, normal])
    found = []
    for backbone in rows_of(rows):
        drawn = draws(rng, backbone, last + 1, papers, normal)
        found.append(grown(drawn[:, last], drawn[:, :last], first, prior_sd(backbone, "Avg"))[0])
    return accused(found)


def rates_of_grown(
    backbone: str,
    first: int,
    gap: float,
    *,
    papers: int,
    last: int = MOST_GROWN,
    known: bool = True,
) -> dict[str, float]:
    """How often a row whose mean is `gap` points from print gets each answer, and its mean number
    of seeds, if it is grown from `first` seeds to at most `last`; without a prior if its spread is
    not `known`."""
    name = BACKBONES.index(backbone)
    rng = np.random.default_rng([first, True, int(100 * gap), name])
    drawn = draws(rng, backbone, MOST_GROWN, papers, normal=True)[:, :last]
    printed = np.full(papers, public_seeds(backbone)[:, -1].mean() + gap)
    found, seeds = grown(printed, drawn, first, prior_sd(backbone, "Avg") if known else None)
    return {
        "reproduced": float(found.inside.mean()),
        "outside": float(found.outside.mean()),
        "seeds": float(seeds.mean()),
    }


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def tables(papers: int) -> dict[str, str]:
    """The tables of docs/statistics.md as Markdown, by name."""

    def false(n: int, **given: Any) -> str:
        return percent(false_accusations(n, papers=papers, **given))

    def false_grown(n: int, **given: Any) -> str:
        return percent(false_accusations_of_grown(n, papers=papers, **given))

    rows: dict[str, list[dict[str, Any]]] = {"false": [], "power": []}
    rows |= {"grown": [], "grown-inside": []}
    for n in (3, 5, 8, 10, 20):
        scaled = {f"normal, {scale:g} x spread": false(n, scale=scale) for scale in (1, 1.5, 2)}
        row = {"n": n, "public seeds": false(n, normal=False), **scaled}
        rows["false"].append(row | {"public seeds, 28 rows": false(n, rows=28, normal=False)})
    for backbone, n, gap in [
        *(("bert-base-uncased", 8, gap) for gap in (0, 0.5, 1, 2, 3, 5)),
        *(("bert-base-uncased", 5, gap) for gap in (0, 3, 5)),
        *((backbone, 5, 8) for backbone in BACKBONES),
        ("bert-large-uncased", 3, 10),
        ("bert-large-uncased", 20, 0),
        ("bert-large-uncased", 40, 0),
    ]:
        found = rates(backbone, n, gap, papers=papers)
        found["lower, 28 rows"] = rates(backbone, n, gap, papers=papers, rows=28)["lower"]
        row = {"backbone": backbone, "n": n, "print is higher by": f"{gap:g}"}
        rows["power"].append(row | {name: percent(share) for name, share in found.items()})
    for normal, first in product((False, True), (3, 5, 8)):
        row = {"draws": "normal" if normal else "public seeds", "first seeds": first}
        row |= {"not grown": false(first, normal=normal)}
        row |= {"grown": false_grown(first, normal=normal)}
        row |= {"grown, 28 rows": false_grown(first, rows=28, normal=normal)}
        rows["grown"].append(row)
    for backbone, first in product(BACKBONES, (3, 5, 8, 20)):
        row = {"backbone": backbone, "first seeds": first}
        for gap, known in ((1, True), (1, False), (0, True)):
            alone, grown = (
                rates_of_grown(backbone, first, gap, papers=4 * papers, last=last, known=known)
                for last in (first, MOST_GROWN)
            )
            name = f"{gap}" if known else f"{gap}, no prior"
            for answer in ("reproduced", "outside") if gap else ("reproduced",):
                row[f"{name}: {answer}"] = f"{percent(alone[answer])} → {percent(grown[answer])}"
        row["0: seeds"] = f"{grown['seeds']:.1f}"
        rows["grown-inside"].append(row)
    return {
        name: pd.DataFrame(table).to_markdown(index=False, disable_numparse=True)
        for name, table in rows.items()
    }


def draw(path: Path, papers: int) -> None:
    """Draw how often an average on bert-base gets each verdict, by gap and number of seeds."""
    from matplotlib import pyplot

    gaps = np.arange(0, 6.01, 0.25)
    figure, panels = pyplot.subplots(1, 3, figsize=(9, 2.8), sharey=True, layout="constrained")
    titles = {"reproduced": "reproduced", "outside": "outside the tolerance", "lower": "lower"}
    for n in (3, 5, 8, 20):
        found = [rates("bert-base-uncased", n, gap, papers=papers) for gap in gaps]
        for panel, name in zip(panels, titles, strict=True):
            panel.plot(gaps, [100 * each[name] for each in found], label=f"{n} seeds")
    for panel, title in zip(panels, titles.values(), strict=True):
        panel.set(title=title, xlabel="printed - true mean, in points", ylim=(0, 101))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("% of draws")
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=120)


def replace_tables(text: str, new: dict[str, str]) -> str:
    """`text` with each table between `<!-- generated: name -->` and `<!-- end -->` replaced."""
    for name, table in new.items():
        pattern = rf"(<!-- generated: {name} -->\n\n).*?(\n\n<!-- end -->)"
        text = re.sub(pattern, lambda at, new=table: at[1] + new + at[2], text, flags=re.DOTALL)
    return text


PAPERS = 5_000

if __name__ == "__main__":
    DOCUMENT.write_text(
        replace_tables(DOCUMENT.read_text(encoding="utf-8"), tables(PAPERS)), encoding="utf-8"
    )
    draw(DOCUMENT.parent / "verdicts.png", PAPERS // 5)
