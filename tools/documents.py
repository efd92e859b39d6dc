"""Write the generated tables of documents: python -m tools.documents [docs/FIGURE.png].

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`; NAME is a key of `TABLES`.
With paths, the figures of these names are drawn there, of `FIGURES`.
"""

import inspect
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import ceil, comb, sqrt
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from types import MappingProxyType, NoneType
from typing import Any, get_args

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bench.datasets.tasks import STS_TASKS, TRANSFER_TASKS
from bench.judge import stage
from bench.judge.statistics import expected_best
from bench.judge.world import SCORES, SEEDS
from bench.judged.rows import Judged, PairRow, SystemRow
from bench.registry.methods import format_value, method_classes
from bench.report.figures import style
from bench.report.figures.compared import DIFFERENCES, Strip, figure_of_rows, gains_figure
from bench.report.formats import difference_text, score_text
from bench.report.leaderboard import shown_leaderboard
from bench.reported import FOLDER, public_sd
from bench.reported.address import find_rows
from bench.results.records import Counts
from bench.results.suite_results import read_results
from bench.runs.config import ClaimEntry, Compare, EncoderEntry, MethodEntry, Suite
from bench.runs.resolve import resolve
from bench.runs.run import Recipe
from methods.base import Contrastive, Method, Transform

ROOT = Path(__file__).parents[1]
NAMES = (
    "README.md",
    "config/README.md",
    "docs/error-rates.md",
    "docs/findings.md",
    "docs/spread.md",
    "docs/world.md",
)
DOCUMENTS = [ROOT / name for name in NAMES]
BACKBONES = ("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large")
# Names of several of these; without a name for all.
GROUPS = {
    BACKBONES: "",
    BACKBONES[:2]: "BERT",
    BACKBONES[2:]: "RoBERTa",
    BACKBONES[::2]: "base",
    BACKBONES[1::2]: "large",
}
TASKS = (*STS_TASKS, "Avg")
NORMAL = 1.96  # standard deviations of a 95 % interval
# Standard deviations of one run that 95 % of the differences of two runs stay below.
BEYOND = NORMAL * sqrt(2)
BOARDS = {"STS": "sts", "transfer": "transfer"}
CORPUS_ROWS = 1_000_001  # docs/methods.md#batches

_SHOWN = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
OTHER_PAIRS, PAIRS, OWN, SWEEPS, FRONT, EXAMPLES = _SHOWN.values()


# Printed numbers and public runs


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
        own = rng.choice(public(gain.backbone), (gain.runs, draws)).mean(0)
        total += (own - compared[gain.backbone]) / unit
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
    own, compared = (
        {number.backbone: number.value for number in find_rows(source, table, row)
         if number.task == "Avg"}
        for row in pair
    )  # fmt: skip
    return [
        Gain(name, backbone, round(own[backbone] - compared[backbone], 2))
        for backbone in BACKBONES
        if backbone in own and backbone in compared
    ]


@cache
def average_gains() -> list[Gain]:
    """The papers' own gains over SimCSE."""
    found = []
    for method, (source, table, _) in OWN.items():
        found += gains(method, source, table, method, "SimCSE")
    return found


def gains_frame() -> pd.DataFrame:
    """The papers' own gains with their intervals, as `gains_figure` takes them."""
    rows = []
    for gain in average_gains():
        half_width = NORMAL * gain.s0 * sqrt(1 + 1 / gain.runs)
        rows.append((gain.method, gain.backbone, gain.points, half_width, gain.runs))
    return pd.DataFrame(rows, columns=["method", "backbone", "gain", "half_width", "runs"])


def control_of(backbone: str) -> tuple[str, list[str]]:
    """SimCSE with the recipe of GS-InfoNCE's released run, and what differs from SimCSE's own."""
    official = partial(
        resolve, backbone_name=backbone, corpus="wiki1m", data="senteval", seed=42, recipe={}
    )
    own, usual = official("gs-infonce@official").recipe, official("simcse@official").recipe
    # The text of a run leaves out keys that change nothing.
    control = official("simcse@official", keys=own.model_dump(exclude_none=True)).method
    differences = []
    for key, value in own:
        before = getattr(usual, key)
        if value != before:
            before = 0.1 if before is None else before  # dropout is the backbone's own
            differences.append(f"{key.replace('_', ' ')} {value:g}, not {before:g}")
    steps = [ceil(CORPUS_ROWS / recipe.batch_size) for recipe in (own, usual)]
    if steps[0] != steps[1]:
        differences.append("{:,} steps, not {:,}".format(*steps))
    return control, differences


def answers_figure() -> Figure:
    """Five gains with their intervals, and the word that each claim gets."""
    strips = []
    for word, (mean, half_width) in EXAMPLES.items():
        interval = [mean - half_width, mean, mean + half_width]
        strips.append(
            Strip(
                "98 % intervals of five claims",
                "",
                word,
                [(interval, 0, DIFFERENCES)],
                word != "open",
            )
        )
    note = "Solid: no gain. Dotted: the margin, one point."
    figure = figure_of_rows(strips, "The words of a claim", [note], "gain in points")
    for value, line in enumerate(("-", ":")):
        figure.axes[0].axvline(value, color=style.GREY, lw=1, ls=line, zorder=1)
    return figure


# Tables


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
    others = [gain for gain in gains if gain.backbone != "roberta-base"]
    return (
        f"Seeds alone give gains that are as large in all with a probability of "
        f"{together(gains):.1g}, each counted in s0; of {together(others):.1g} without "
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
        of_seeds = expected_best(runs, count) + expected_best(-runs, count)
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


@cache
def wiki_mini() -> Judged:
    return stage.read_suite(ROOT / "results" / "wiki-mini")


@cache
def compared(baseline: str) -> dict[tuple[str, ...], PairRow]:
    """Comparisons of the small backbone by board, task, method and setting."""
    pairs = stage.compared(wiki_mini(), baseline)
    return {(pair.board, pair.task, pair.method, pair.setting): pair for pair in pairs}


def minus(pair: PairRow) -> str:
    """The difference with its interval, and the word of a claim."""
    word = f", {pair.verdict.replace('the margin', '1.0')}" if pair.verdict else ""
    return difference_text(pair.difference, pair.half_width) + word


def scored(board: str) -> list[SystemRow]:
    """The systems of a board that have scores on all planned tasks, best average first."""
    systems = [system for system in wiki_mini().board_systems(board) if system.averages]
    return sorted(systems, key=lambda system: fmean(system.averages), reverse=True)


def scores_table(names: Mapping[str, str] = MappingProxyType({})) -> pd.DataFrame:
    """STS and transfer averages of systems, by default all, and their differences to SimCSE."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for title, board in BOARDS.items():
        for system in scored(board):
            if names and system.method not in names:
                continue
            name, score = (system.method, system.setting), system.score("Avg")
            label = names.get(system.method, system.label)
            seeds = "–" if score.sd is None else str(score.n)  # no system has a single seed
            row = rows.setdefault(name, {"method": label, "seeds": seeds})
            if row["seeds"] != seeds:
                row["seeds"] += f" ({seeds})"
            row[title] = score_text(score.mean, score.sd)
            pair = compared("simcse").get((board, "Avg", *name))
            row[f"{title} minus SimCSE"] = minus(pair) if pair else "–"
    return pd.DataFrame(rows.values())


def front_table() -> pd.DataFrame:
    """The systems of `FRONT`, in cells that do not break at their ±."""
    space = "\N{NO-BREAK SPACE}"
    return scores_table(FRONT).replace(" ± ", f"{space}±{space}", regex=True)


def answers_line() -> str:
    """How many claims of the small backbone have each answer, by board."""
    lines = []
    for title, board in BOARDS.items():
        pairs = [pair for key, pair in compared("simcse").items() if key[:2] == (board, "Avg")]
        found = Counter(pair.verdict for pair in pairs if pair.verdict)
        answers = [f"{count} {word}" for word, count in found.most_common()]
        lines.append(f"Of {found.total()} claims on {title}: {', '.join(answers)}.")
    return " ".join(lines)


def probing_table() -> pd.DataFrame:
    table = []
    tasks = wiki_mini().suite.board("xprobe").planned.tasks
    for system in scored("xprobe"):
        row = {"method": system.label, "seeds": system.score(tasks[0]).n}
        for task in tasks:
            score = system.score(task)
            row[task.removeprefix("xprobe-")] = score_text(score.mean, score.sd)
        table.append(row)
    return pd.DataFrame(table)


def pairs_table() -> pd.DataFrame:
    rows = []
    for board, method, baseline in PAIRS:
        cell = board.lower(), "Avg"
        family = [pair for key, pair in compared(baseline).items() if key[:2] == cell]
        (pair,) = (pair for pair in family if method in (pair.method, pair.label))
        difference = difference_text(pair.difference, pair.half_width)
        rows.append({"A": f"`{method}`", "B": f"`{baseline}`", "tasks": board, "A - B": difference})
    return pd.DataFrame(rows)


def kinds_table(board: str) -> pd.DataFrame:
    """A leaderboard of the suite `spread`: over seeds, templates and seeds of the classifiers."""
    judged = stage.read_suite(ROOT / "results" / "spread")
    row, systems = judged.suite.board(board), judged.board_systems(board)
    shown = shown_leaderboard(judged.suite, row, systems, short=True)
    columns = ["Method", "n", row.overall, *list(shown.columns)[-2:]]
    return pd.DataFrame(shown.rows)[columns]


def classifiers_table() -> pd.DataFrame:
    """Standard deviations over seeds of the classifiers, and over seeds of the training."""
    scores = pd.read_csv(ROOT / "docs" / "classifier-seeds.csv")
    wide = scores.pivot_table("value", ["mode", "task", "aggregation"], "model", sort=False)
    wide["the second minus the first"] = wide.iloc[:, 1] - wide.iloc[:, 0]
    spreads = wide.groupby(["mode", "task"], sort=False).std().stack().unstack("task")
    trained = {
        system.label: {score.task: score.sd for score in system.scores}
        for system in wiki_mini().board_systems("transfer")
        if system.corpus and system.n > 3
    }
    training = pd.DataFrame.from_dict(trained, "index")
    spreads.loc[("test", "seeds of the training, SimCSE"), :] = training.loc["SimCSE"]
    spreads.loc[("test", f"median of {len(trained)} methods"), :] = training.median()
    columns = [*TRANSFER_TASKS, "Avg"]
    return spreads[columns].map("{:.2f}".format).reset_index(names=["mode", "vectors"])


def dev_table() -> pd.DataFrame:
    """The test items that stand in the dev sets of wiki-mini's trainings."""
    found: dict[str, dict[str, Counts]] = {}
    for result in read_results(ROOT / "results" / "wiki-mini").runs:
        if result.run.selection:
            found.setdefault(" or ".join(result.run.selection), result.provenance.contamination)
    rows = []
    for task in (*STS_TASKS, "MRPC"):
        row: dict[str, Any] = {"test set": task, "items": f"{found['STS-B'][task].items:,}"}
        for sets, counts in found.items():
            share = 100 * counts[task].in_dev / counts[task].items
            row |= {f"in dev of {sets}": counts[task].in_dev, f"share, {sets}": f"{share:.1f} %"}
        rows.append(row)
    return pd.DataFrame(rows)


def world_table() -> pd.DataFrame:
    """The world's numbers: averages of the runs with both, best first on each backbone."""
    places = ["none", "toy-glove", "toy-bert", "toy-roberta", "toy-chinese"]
    averages = pd.read_csv(SCORES).query("task == 'Avg'")
    rows = []
    for (backbone, run), of_run in averages.groupby(["backbone", "run"], sort=False):
        scores = of_run.set_index("metric")[SEEDS]
        if {"spearman", "accuracy"} <= {*scores.index}:
            name = re.sub(r"\[.{50,}\]", "[...]", run)
            row = {"backbone": backbone, "run": f"`{name}`"}
            for title, metric in (("STS", "spearman"), ("transfer", "accuracy")):
                seeds = scores.loc[metric].dropna()  # a run without a seed has one score
                row[title] = score_text(seeds.mean(), seeds.std() if len(seeds) > 1 else None)
            rows.append((places.index(backbone), -scores.loc["spearman"].mean(), row))
    rows.sort(key=itemgetter(0, 1))
    return pd.DataFrame(row for _, _, row in rows)


def default_text(value: Any) -> str:
    """A default as configurations write it: 3e-5, not 3e-05."""
    return format_value(value).replace("e-0", "e-")


def description(field: FieldInfo) -> str:
    """The text below a field of a model, in one line."""
    return " ".join((field.description or "").split())


def keys_table(model: type[BaseModel]) -> pd.DataFrame:
    """The keys of a model of a configuration."""
    return pd.DataFrame(
        {
            "key": f"`{name}`",
            "required": "yes" if field.is_required() else "no",
            "value": description(field),
        }
        for name, field in model.model_fields.items()
    )


def value_line(name: str, value: Any, meaning: str) -> str:
    """A key with its default; a template, which has spaces, is in docs/methods.md."""
    text = default_text(value)
    if " " in text:
        text = "..."
    return f"  {name}={text}".ljust(30) + f"  {meaning}"


def recipe_lines() -> str:
    fields = Recipe.model_fields.items()
    lines = [value_line(name, field.default, description(field)) for name, field in fields]
    return "\n".join(["```text", *lines, "```"])


def listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def meaning(cls: type[Method], field: FieldInfo) -> str:
    """The description, with what the type and the marks of a hyper-parameter say."""
    text = description(field)
    marks: Any = field.json_schema_extra or {}
    choices = re.findall("'(.+?)'", str(field.annotation))
    # Poolers have a table of their own.
    if 1 < len(choices) < 6 and not all(choice in text for choice in choices):
        if NoneType in get_args(field.annotation):
            choices.append("none")
        text += f": {listed(choices)}"
    if "model" in marks:
        names = ["hub id", "folder"]
        if cls.trained and "language" not in marks:
            names.append("run")
        if "language" in marks or "pooler" in marks:
            names.append("backbone")
        text += f"; {listed(names)}"
    return f"{text}; set in the first part" if "host" in marks else text


def other_values(cls: type[Method], key: str, default: Any) -> list[str]:
    """Values in the method's tables that differ from a default: `1.5: roberta-large official`."""
    backbones: dict[tuple[Any, str], list[str]] = defaultdict(list)  # by value and setting
    official = cls.paper if cls.official is None else cls.official
    for setting, table in (("paper", cls.paper), ("official", official)):
        for name in BACKBONES:
            value = (table.get("*", {}) | table.get(name, {})).get(key, default)
            if value != default and " " not in default_text(value):  # not a template
                backbones[value, setting].append(name)
    texts = set()
    for (value, setting), names in backbones.items():
        words = [GROUPS.get((*names,), ", ".join(names).replace("-uncased", ""))]
        if backbones.get((value, "paper")) != backbones.get((value, "official")):
            words.append(setting)
        texts.add(f"{default_text(value)}: {' '.join(filter(None, words))}")
    return sorted(texts)


def hyper_parameter_lines() -> str:
    """Each hyper-parameter under the class that declares it."""
    lines = ["```text"]
    classes: dict[str, type[Method]] = {"all of the formula": Contrastive, "all maps": Transform}
    for name, method in sorted(method_classes().items()):
        if method.__module__.startswith("methods."):
            classes[name] = method
    for title, cls in classes.items():
        if hasattr(cls.__base__, "name"):
            title += f", besides those of {cls.__base__.name}"
        lines.append(title)
        for key in inspect.get_annotations(cls.Hyper):
            field = cls.Hyper.model_fields[key]
            text, values = meaning(cls, field), other_values(cls, key, field.default)
            if values:
                text += f" ({'; '.join(values)})"
            lines.append(value_line(key, field.default, text))
    return "\n".join([*lines, "```"])


TABLES: dict[str, Callable[[], pd.DataFrame | str]] = {
    "keys": partial(keys_table, Suite),
    "keys of a method": partial(keys_table, MethodEntry),
    "keys of a comparison": partial(keys_table, Compare),
    "keys of a claim": partial(keys_table, ClaimEntry),
    "keys of an encoder": partial(keys_table, EncoderEntry),
    "recipe": recipe_lines,
    "hyper-parameters": hyper_parameter_lines,
    "spread": spread_table,
    "gains": gains_table,
    "gains together": together_line,
    "other gains": other_gains_table,
    "best of k": best_table,
    "sweeps": sweeps_table,
    "controls": controls_table,
    "wiki-mini": scores_table,
    "wiki-mini in short": front_table,
    "wiki-mini answers": answers_line,
    "wiki-mini probing": probing_table,
    "wiki-mini pairs": pairs_table,
    "spread of STS": partial(kinds_table, "sts"),
    "spread of MRPC": partial(kinds_table, "transfer"),
    "classifier seeds": classifiers_table,
    "dev sets": dev_table,
    "world": world_table,
}


def markdown(table: pd.DataFrame | str) -> str:
    if isinstance(table, str):
        return table
    rows = [table.columns, ["---"] * table.shape[1], *table.fillna("").to_numpy()]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def current(text: str) -> str:
    """The text with each generated table written again."""

    def table(match: re.Match[str]) -> str:
        start, name, end = match.groups()
        if name not in TABLES:  # a simulation of tests/oracles
            return match[0]
        return f"{start}\n\n{markdown(TABLES[name]())}\n\n{end}"

    pattern = r"(<!-- generated: ([\w -]+?) -->).*?(<!-- end -->)"
    return re.sub(pattern, table, text, flags=re.DOTALL)


FIGURES: dict[str, Callable[[], Figure]] = {
    "printed-gains": lambda: gains_figure(gains_frame()),
    "statistics": answers_figure,
}

if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        with style.drawing():
            style.save_picture(FIGURES[path.stem](), path)
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        document.write_text(current(text), encoding="utf-8")
