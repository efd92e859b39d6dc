"""The rule of docs/statistics.md for many draws at once, restated in numpy, and how often it errs.

python -m tests.oracles.verdict_rule    # writes the tables and the figure of docs/error-rates.md
"""

import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from bench.datasets.tasks import STS_TASKS
from bench.reported import FOLDER, prior_sd

Array = NDArray[Any]
BACKBONES = ("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large")
TASKS = (*STS_TASKS, "Avg")
# Seeds to which the simulated suites are grown: normal draws, and the public ones, of which there
# are 50, drawn without replacement.
MOST_GROWN, MOST_PUBLIC = 150, 20
ADDED = 20  # beyond the planned ones, in `at_the_edge`
DOCUMENT = Path(__file__).parents[2] / "docs" / "error-rates.md"


class Answers(NamedTuple):
    """Both answers for each draw, as arrays of one shape."""

    inside: Array
    outside: Array
    p: Array
    lower: Array


def answers(
    printed: Array, ours: Array, tolerance: float, prior: float | None, planned: int | None = None
) -> Answers:
    """Answer both questions; the last axis of `ours` holds the seeds, by default all `planned`."""
    n, weight = ours.shape[-1], 0 if prior is None else 3
    mean, variance, df = ours.mean(-1), ours.var(-1, ddof=1), n - 1 + weight
    pooled = (weight * (prior or 0) ** 2 + (n - 1) * variance) / df
    sd = np.sqrt(np.maximum(variance, pooled))
    distance, error = np.abs(mean - printed), sd / np.sqrt(n)
    level = 0.05
    if planned not in (None, n):
        level = 0.0025 * min(n, planned) / max(n, planned)
    return Answers(
        distance - stdtrit(df, level) * error <= tolerance,
        distance + stdtrit(df, level / 2) * error > tolerance,
        2 * stdtr(df, -distance / (sd * np.sqrt(1 + 1 / n))),
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
    """The rates of each row of docs/error-rates.md with a label and a number of columns."""
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


def followed(
    printed: Array, ours: Array, planned: int, prior: float | None
) -> tuple[Answers, Array]:
    """The answers of somebody who looks after each seed, from the third on, and stops when the mean
    is found within the tolerance or outside, or all seeds of `ours` are used; and the number of
    seeds."""
    found = answers(printed, ours[:, :3], 1.0, prior, planned)
    seeds = np.full(len(ours), 3)
    for n in range(4, ours.shape[-1] + 1):
        is_open = ~(found.inside | found.outside)
        seeds[is_open] = n
        now = answers(printed[is_open], ours[is_open, :n], 1.0, prior, planned)
        for old, new in zip(found, now, strict=True):
            old[is_open] = new
    return found, seeds


def false_accusations_of_followed(
    planned: int, *, papers: int, rows: int = 8, normal: bool = True
) -> float:
    """`false_accusations`, where each row is followed from three seeds on, and grown."""
    last = MOST_GROWN if normal else MOST_PUBLIC
    rng = np.random.default_rng([planned, last, rows, normal])
    found = []
    for backbone in rows_of(rows):
        drawn = draws(rng, backbone, last + 1, papers, normal)
        prior = prior_sd(backbone, "Avg")
        found.append(followed(drawn[:, last], drawn[:, :last], planned, prior)[0])
    return accused(found)


def at_the_edge(
    backbone: str,
    planned: int,
    *,
    papers: int,
    normal: bool = True,
    scale: float = 1.0,
    known: bool = True,
) -> tuple[Answers, Answers]:
    """The answers where print is exactly the tolerance above the true mean, so that both answers
    are wrong: at the planned seeds, and followed from three seeds to `ADDED` more than planned."""
    rng = np.random.default_rng([planned, normal, int(10 * scale), BACKBONES.index(backbone)])
    drawn = draws(rng, backbone, planned + ADDED, papers, normal, scale)
    printed = np.full(papers, public_seeds(backbone)[:, -1].mean() + 1)
    prior = prior_sd(backbone, "Avg") if known else None
    first = answers(printed, drawn[:, :planned], 1.0, prior)
    return first, followed(printed, drawn, planned, prior)[0]


def seeds_of_followed(backbone: str, planned: int, *, papers: int) -> tuple[float, float]:
    """Of a row whose mean is that of print, followed to at most `MOST_GROWN` seeds: how often it is
    found within the tolerance, and the mean number of seeds."""
    rng = np.random.default_rng([planned, BACKBONES.index(backbone)])
    drawn = draws(rng, backbone, MOST_GROWN, papers, normal=True)
    printed = np.full(papers, public_seeds(backbone)[:, -1].mean())
    found, seeds = followed(printed, drawn, planned, prior_sd(backbone, "Avg"))
    return float(found.inside.mean()), float(seeds.mean())


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def tables(papers: int) -> dict[str, str]:
    """The tables of docs/error-rates.md as Markdown, by name."""

    def false(n: int, **given: Any) -> str:
        return percent(false_accusations(n, papers=papers, **given))

    def false_followed(n: int, **given: Any) -> str:
        return percent(false_accusations_of_followed(n, papers=papers, **given))

    rows: dict[str, list[dict[str, Any]]] = {"false": [], "power": []}
    rows |= {"followed": [], "edge": [], "seeds": []}
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
    for normal, planned in product((False, True), (3, 5, 8)):
        row = {"draws": "normal" if normal else "public seeds", "planned seeds": planned}
        row |= {"one look": false(planned, normal=normal)}
        row |= {"followed": false_followed(planned, normal=normal)}
        row |= {"followed, 28 rows": false_followed(planned, rows=28, normal=normal)}
        rows["followed"].append(row)
    for backbone, planned in product(BACKBONES, (3, 8, 20)):
        row = {"backbone": backbone, "planned": planned}
        for name, given in EDGES.items():
            looks = at_the_edge(backbone, planned, papers=4 * papers, **given)
            once, often = (percent(found.inside.mean()) for found in looks)
            row[f"{name}: reproduced"] = f"{once} → {often}"
            if name == "normal":
                once, often = (percent(found.outside.mean()) for found in looks)
                row[f"{name}: outside"] = f"{once} → {often}"
        rows["edge"].append(row)
    for backbone in BACKBONES:
        row = {"backbone": backbone}
        for planned in (3, 5, 8, 20, 40):
            inside, seeds = seeds_of_followed(backbone, planned, papers=papers)
            row[f"{planned} planned"] = f"{percent(inside)}, {seeds:.1f} seeds"
        rows["seeds"].append(row)
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


# How runs differ from the public ones of which the prior is made.
EDGES: dict[str, dict[str, Any]] = {
    "public seeds": {"normal": False},
    "normal": {},
    "2 x spread": {"scale": 2.0},
    "no prior": {"known": False},
}
PAPERS = 5_000

if __name__ == "__main__":
    DOCUMENT.write_text(
        replace_tables(DOCUMENT.read_text(encoding="utf-8"), tables(PAPERS)), encoding="utf-8"
    )
    draw(DOCUMENT.parent / "verdicts.png", PAPERS // 5)
