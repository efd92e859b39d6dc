"""The tables and the figure of docs/explanation/findings.md on printed gains: what the seeds of 50
public runs of SimCSE alone make of them."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import ceil, comb, sqrt
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.datasets.tasks import STS_TASKS
from bench.report.figures import style
from bench.report.figures.compared import BAND, Mark, Strip, figure_of_rows
from bench.reported import FOLDER, public_sd
from bench.reported.address import find_rows
from bench.runs.resolve import resolve

_CONTENT = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
OTHER_PAIRS, OWN, SWEEPS = _CONTENT.values()
BACKBONES = ("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large")
TASKS = (*STS_TASKS, "Avg")
NORMAL = 1.96  # standard deviations of a 95 % interval
# Standard deviations of one run that 95 % of the differences of two runs stay below.
BEYOND = NORMAL * sqrt(2)
CORPUS_ROWS = 1_000_001  # docs/reference/training.md#batches
GAIN = style.PRINTED_LOOK | {"color": style.ORANGE, "mew": 2.4, "label": "printed gain"}
SPREAD = BAND | {"label": "± 95 %, by the seeds alone"}
GAINS_NOTE = (
    "Grey: the gain ± 1.96 standard deviations of the difference of the runs behind print (right) "
    "and one run of SimCSE, with the spread of 50 public runs of SimCSE (hppRC/simple-simcse)."
)


@cache
def public(backbone: str, task: str = "Avg", split: str = "test") -> np.ndarray:
    """The scores of 50 public runs of SimCSE, in the order of the runs."""
    seeds = pd.read_csv(FOLDER / "seeds.csv").sort_values("run")
    runs = seeds.query("backbone == @backbone and task == @task and split == @split")
    return runs["value"].to_numpy()


def best_of(k: int, values: Sequence[float], by: Sequence[float]) -> float:
    """The mean, over all draws of k different runs, of the value of the best one by `by`."""
    ordered = np.asarray(values)[np.argsort(by, kind="stable")]
    total = sum(value * comb(place, k - 1) for place, value in enumerate(ordered))
    return float(total / comb(len(ordered), k))


def expected_best(k: int, values: Sequence[float]) -> float:
    """The mean, over all draws of k different runs, of the highest value."""
    return best_of(k, values, values)


def ranging(k: int, values: Sequence[float], least: float) -> float:
    """The share of all draws of k different runs whose values span at least `least`."""
    ordered = np.sort(values)
    nearer = np.searchsorted(ordered, ordered + least - 1e-9) - np.arange(len(ordered)) - 1
    return 1 - sum(comb(int(count), k - 1) for count in nearer) / comb(len(ordered), k)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def together(gains: Sequence["Gain"], in_points: bool = False, draws: int = 100_000) -> float:
    """The probability that seeds alone give gains that are as large in all, where each printed
    number is one run (SSCL: the mean of three) and the gains on a backbone have one run of SimCSE
    in common. Runs are drawn from the public ones; gains are counted in s0, or in points."""
    rng = np.random.default_rng(0)
    compared = {backbone: rng.choice(public(backbone), draws) for backbone in BACKBONES}
    total, printed = np.zeros(draws), 0.0
    for gain in gains:
        unit = 1.0 if in_points else gain.s0
        means = rng.choice(public(gain.backbone), (gain.runs, draws)).mean(0)
        total += (means - compared[gain.backbone]) / unit
        printed += gain.points / unit
    return float((total >= printed).mean())


@dataclass(frozen=True)
class Gain:
    """A printed gain in the STS average over another row of its table, in points."""

    method: str
    backbone: str
    points: float

    @property
    def s0(self) -> float:
        """The standard deviation of public runs of SimCSE."""
        return public_sd(self.backbone, "Avg") or 0.0

    @property
    def runs(self) -> int:
        """The runs of the method behind the printed number; SSCL prints means of three."""
        return 3 if self.method == "SSCL-SimCSE" else 1

    @property
    def share(self) -> float:
        """The share of all pairs of public runs of SimCSE that are at least as far apart."""
        return ranging(2, public(self.backbone), self.points)

    def cells(self) -> dict[str, str]:
        return {
            "backbone": self.backbone,
            "gain": f"{self.points:.2f}",
            "gain / s0": f"{self.points / self.s0:.1f}",
            "pairs": percent(self.share),
        }


def gains(name: str, source: str, table: str, *pair: str) -> list[Gain]:
    """The gains of the first row of a pair over the second, on each backbone of both."""
    values, compared = (
        {number.backbone: number.value for number in find_rows(source, table, row)
         if number.task == "Avg"}
        for row in pair
    )  # fmt: skip
    return [
        Gain(name, backbone, round(values[backbone] - compared[backbone], 2))
        for backbone in BACKBONES
        if backbone in values and backbone in compared
    ]


@cache
def average_gains() -> list[Gain]:
    """The papers' own gains over SimCSE."""
    rows = []
    for method, (source, table, _) in OWN.items():
        rows += gains(method, source, table, method, "SimCSE")
    return rows


def control_of(backbone: str) -> tuple[str, list[str]]:
    """SimCSE with the recipe of GS-InfoNCE's released run, and what differs from SimCSE's own."""
    official = partial(
        resolve, backbone_name=backbone, corpus="wiki1m", data="senteval", seed=42, recipe={}
    )
    recipe, usual = official("gs-infonce@official").recipe, official("simcse@official").recipe
    # The text of a run leaves out keys that change nothing.
    control = official("simcse@official", keys=recipe.model_dump(exclude_none=True)).method
    differences = []
    for key, value in recipe:
        before = getattr(usual, key)
        if value != before:
            before = 0.1 if before is None else before  # None: dropout is the backbone's
            differences.append(f"{key.replace('_', ' ')} {value:g}, not {before:g}")
    steps = [ceil(CORPUS_ROWS / size) for size in (recipe.batch_size, usual.batch_size)]
    if steps[0] != steps[1]:
        differences.append("{:,} steps, not {:,}".format(*steps))
    return control, differences


def gains_figure() -> Figure:
    """The papers' own gains: a panel per method and a row per backbone. Gains that seeds alone do
    not explain stand out."""
    strips, undecided = [], 0
    for gain in average_gains():
        half_width = NORMAL * gain.s0 * sqrt(1 + 1 / gain.runs)
        undecided += gain.points < half_width
        ends = [gain.points - half_width, gain.points + half_width]
        marks: list[Mark] = [(ends, 0, SPREAD), ([gain.points], 0, GAIN)]
        text = "1 run" if gain.runs == 1 else f"mean of {gain.runs} runs"
        verdict = "better" if ends[0] > 0 else "open"
        strips.append(Strip(gain.method, gain.backbone, text, marks, verdict))
    title = f"So few runs neither confirm nor refute {undecided} of {len(strips)} printed gains"
    scale = "gain over SimCSE on the STS average (Spearman x 100)"
    figure = figure_of_rows(strips, title, [GAINS_NOTE], scale)
    for panel in figure.axes:
        panel.axvline(0, color=style.GREY, lw=1, zorder=1)
    return figure


def spread_table() -> pd.DataFrame:
    return pd.DataFrame(
        {"backbone": name} | {task: f"{public_sd(name, task):.2f}" for task in TASKS}
        for name in BACKBONES
    )


def gains_table() -> pd.DataFrame:
    return pd.DataFrame({"method": gain.method} | gain.cells() for gain in average_gains())


def together_line() -> str:
    """How probable the printed gains are by seeds alone, counted in three ways."""
    gains = average_gains()
    besides = [gain for gain in gains if gain.backbone != "roberta-base"]
    return (
        f"Seeds alone give gains that are as large in all with a probability of "
        f"{together(gains):.1g}, each counted in s0; of {together(besides):.1g} without "
        f"roberta-base; of {together(gains, in_points=True):.1g} in points."
    )


def other_gains_table() -> pd.DataFrame:
    rows = []
    for pair in OTHER_PAIRS:
        name = " minus ".join(pair)
        for gain in gains(name, "is-cse", "Table 1", *pair):
            rows.append({"A minus B": name} | gain.cells())
    return pd.DataFrame(rows)


def best_table() -> pd.DataFrame:
    rows = []
    for name in BACKBONES:
        test, dev = public(name), public(name, "STS-B", "dev")
        row = {"backbone": name}
        for k in (2, 3, 5, 10):
            row[f"best of {k}"] = f"{best_of(k, test, dev) - test.mean():+.2f}"
        rows.append(row)
    return pd.DataFrame(rows)


def sweeps_table() -> pd.DataFrame:
    table = []
    for name, (source, label, method, without) in SWEEPS.items():
        task, split = ("STS-B", "dev") if source == "is-cse" else ("Avg", "test")
        rows = find_rows(source, label, method)
        values = [row.value for row in rows if row.task == task and row.variant != without]
        backbone, count, width = rows[0].backbone, len(values), np.ptp(values)
        runs = public(backbone, task, split)
        of_seeds = expected_best(count, runs) + expected_best(count, -runs)
        row = {"sweep": name, "backbone": backbone, "settings": count, "range": f"{width:.2f}"}
        row |= {"of seeds": f"{of_seeds:.2f}", "share": percent(ranging(count, runs, width))}
        table.append(row)
    return pd.DataFrame(table)


def controls_table() -> pd.DataFrame:
    rows = []
    for gain in average_gains():
        if gain.method == "GS-InfoNCE":
            control, differences = control_of(gain.backbone)
            row = {"backbone": gain.backbone, "printed gain": f"{gain.points:.2f}"}
            row |= {"GS-InfoNCE's run has": "; ".join(differences), "control": f"`{control}`"}
            rows.append({key: text.replace("e-05", "e-5") for key, text in row.items()})
    return pd.DataFrame(rows)
