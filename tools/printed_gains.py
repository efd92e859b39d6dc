"""The tables and the figure of docs/explanation/findings.md on printed gains: what the seeds of 50
public runs of SimCSE alone make of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import ceil, comb, sqrt
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.report.figures import style
from bench.report.figures.compared import BAND, Mark, Strip, figure_of_rows
from bench.reported import FOLDER, public_sd
from bench.reported.address import find_rows
from bench.runs.resolve import resolve
from bench.utils.files import read_toml

_CONTENT = read_toml(Path(__file__).with_suffix(".toml"))
OWN, SWEEPS = _CONTENT.values()
BACKBONES = ("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large")
NORMAL = 1.96  # standard deviations of a 95 % interval
# Standard deviations of one run that 95 % of the differences of two runs stay below.
BEYOND = NORMAL * sqrt(2)
CORPUS_ROWS = 1_000_001  # docs/reference/training.md#batches
GAIN = style.PRINTED_LOOK | {"color": style.ORANGE, "mew": 2.4, "label": "printed gain"}
SPREAD = BAND | {"label": "95 % interval, by seeds alone"}
GAINS_NOTE = (
    "Grey: the gain ± 1.96 standard deviations of a difference between the runs behind the printed "
    "value (right) and one run of SimCSE, by 50 public runs of SimCSE (hppRC/simple-simcse)."
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


def gains_table() -> pd.DataFrame:
    """A row per backbone: the gains in points and in s0, and the share of pairs of public runs."""
    rows: dict[str, dict[str, str]] = {name: {"backbone": name} for name in BACKBONES}
    for gain in average_gains():
        text = f"{gain.points:.2f}; {gain.points / gain.s0:.1f} s0; {percent(gain.share)}"
        rows[gain.backbone][gain.method] = text
    return pd.DataFrame(rows.values())


def together_line() -> str:
    """How probable the printed gains are by seeds alone, counted in three ways."""
    gains = average_gains()
    besides = [gain for gain in gains if gain.backbone != "roberta-base"]
    return (
        f"If only seeds differed, the summed gains, each divided by s0, would be this large with "
        f"probability {together(gains):.1g}; without roberta-base {together(besides):.1g}; summed "
        f"in points {together(gains, in_points=True):.1g}."
    )


def best_line() -> str:
    """What the best of five public runs by dev score gains over the mean of all runs."""
    texts = []
    for name in BACKBONES:
        gain = best_of(5, public(name), public(name, "STS-B", "dev")) - public(name).mean()
        texts.append(f"{gain:.2f} points on {name}")
    return (
        "The test average of the best of five public runs, chosen by STS-B dev, exceeds the mean "
        f"of all runs by {', '.join(texts)}."
    )


def sweeps_line() -> str:
    """The printed sweeps that few draws of as many public runs of one setting span."""
    texts, others = [], []
    for name, (source, label, method, without) in SWEEPS.items():
        task, split = ("STS-B", "dev") if source == "is-cse" else ("Avg", "test")
        rows = find_rows(source, label, method)
        values = [row.value for row in rows if row.task == task and row.variant != without]
        runs, width = public(rows[0].backbone, task, split), np.ptp(values)
        share = ranging(len(values), runs, width)
        if share < 0.05:
            texts.append(f"{name}: {width:.2f} points, {percent(share)}")
        else:
            others.append(share)
    return (
        f"Of {len(texts) + len(others)} printed sweeps, {len(others)} have a range that "
        f"{percent(min(others))} to {percent(max(others))} of draws of as many public runs of one "
        f"setting reach. The others: {'; '.join(texts)}."
    )


def controls_list() -> str:
    lines = []
    for gain in average_gains():
        if gain.method == "GS-InfoNCE":
            control, differences = control_of(gain.backbone)
            lines.append(f"* {gain.backbone}: {'; '.join(differences)}. Control: `{control}`")
    return "\n".join(lines).replace("e-05", "e-5")
