"""Write the generated tables of documents: python -m tools.documents [docs/FIGURE.png].

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`; NAME is a key of `TABLES`.
With paths, the figures of these names are drawn there, of `FIGURES`.
"""

import inspect
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import pandas as pd
from matplotlib.figure import Figure
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bench.cli import lists
from bench.datasets.tasks import STS_TASKS, TRANSFER_TASKS
from bench.judge import stage
from bench.judge.world import SCORES, SEEDS
from bench.judged.rows import Judged
from bench.registry.methods import format_value, method_classes
from bench.report.figures import style
from bench.report.figures.compared import DIFFERENCES, Strip, figure_of_rows
from bench.report.formats import difference_text, score_text
from bench.report.leaderboard import IN_DEV, shown_leaderboard
from bench.results.records import Counts
from bench.results.suite_results import read_results
from bench.runs.naming import planned_text
from bench.runs.plan import PrintedRow
from bench.runs.run import Recipe, read_runs
from bench.runs.suite import ClaimEntry, Compare, EncoderEntry, MethodEntry, Suite
from methods.base import Contrastive, Method, Transform
from tools import commands, printed_gains
from tools.printed_gains import BACKBONES

ROOT = Path(__file__).parents[1]
WIKI_MINI = ROOT / "results" / "wiki-mini"
NAMES = (
    "README.md",
    "docs/reference/configuration.md",
    "docs/reference/commands.md",
    "docs/explanation/error-rates.md",
    "docs/explanation/findings.md",
    "docs/reference/lists.md",
    "docs/explanation/spread.md",
    "docs/explanation/toy-data.md",
)
DOCUMENTS = [ROOT / name for name in NAMES]
# Names of several of these; without a name for all.
GROUPS = {
    BACKBONES: "",
    BACKBONES[:2]: "BERT",
    BACKBONES[2:]: "RoBERTa",
    BACKBONES[::2]: "base",
    BACKBONES[1::2]: "large",
}
LEADERBOARDS = {"STS": "sts", "transfer": "transfer"}
MINUS = "Minus baseline"

_CONTENT = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PAIRS, SMOKE, EXAMPLES = _CONTENT.values()


def answers_figure() -> Figure:
    """Five gains with their intervals, and the verdict on each claim."""
    panel, strips = "98 % intervals of five claims", []
    for verdict, (mean, half_width) in EXAMPLES.items():
        interval = [mean - half_width, mean, mean + half_width]
        strips.append(Strip(panel, "", verdict, [(interval, 0, DIFFERENCES)], verdict))
    note = "Solid: no gain. Dotted: the margin, one point."
    figure = figure_of_rows(strips, "The words of a claim", [note], "gain in points")
    for value, line in enumerate(("-", ":")):
        figure.axes[0].axvline(value, color=style.GREY, lw=1, ls=line, zorder=1)
    return figure


def performance_figure() -> Figure:
    """How much longer other programs take for the same training."""
    table = pd.read_csv(ROOT / "docs" / "explanation" / "performance.csv")
    looks = {"transformers' Trainer": style.OFFICIAL, "sentence-transformers": style.PAPER_LOOK}
    strips = []
    for (quantity, case), rows in table[table["unit"] == "times ours"].groupby(
        ["quantity", "case"], sort=False
    ):
        if quantity in ("step", "cycle"):
            marks = [
                ([float(row.value)], 0, looks[row.program] | {"label": row.program})
                for row in rows.itertuples()
            ]
            strips.append(Strip(f"a {quantity}", case, "", marks))
    title = "The same training of SimCSE takes 1.4 to 3.2 times as long in other programs"
    notes = ["A cycle is 125 steps and one selection. The line is the time of sentbench."]
    figure = figure_of_rows(strips, title, notes, "seconds, as a multiple of sentbench's")
    for panel in figure.axes:
        panel.axvline(1, color=style.GREY, lw=1, zorder=1)
    return figure


# Tables


@cache
def stored(suite: str) -> Judged:
    return stage.read_suite(ROOT / "results" / suite)


def wiki_mini() -> Judged:
    return stored("wiki-mini")


def leaderboard_table(suite: str, leaderboard: str, columns: Sequence[str] = ()) -> pd.DataFrame:
    """The systems of a leaderboard that have scores on all planned tasks, as its leaderboard shows
    them: name, n, and `columns`, by default the column that sums up the leaderboard."""
    judged = stored(suite)
    row = judged.suite.leaderboard(leaderboard)
    systems = [system for system in judged.leaderboard_systems(leaderboard) if system.averages]
    table = pd.DataFrame(shown_leaderboard(judged.suite, row, systems).rows)
    return table[["Method", "n", *(columns or [row.overall])]]


def probing_table() -> pd.DataFrame:
    tasks = wiki_mini().suite.leaderboard("xprobe").planned.tasks
    return leaderboard_table("wiki-mini", "xprobe", tasks)


def scores_table() -> pd.DataFrame:
    """STS and transfer averages, and their differences to SimCSE."""
    leaderboards = []
    for title, leaderboard in LEADERBOARDS.items():
        table = leaderboard_table("wiki-mini", leaderboard, ["Avg", MINUS])
        names = {"n": f"n, {title}", "Avg": title, MINUS: f"{title} minus SimCSE"}
        leaderboards.append(table.rename(columns=names))
    return leaderboards[0].merge(leaderboards[1], on="Method", how="left")


def verdicts_line() -> str:
    """How many claims of the small backbone have each verdict, by leaderboard."""
    lines = []
    for title, leaderboard in LEADERBOARDS.items():
        systems = wiki_mini().leaderboard_systems(leaderboard)
        counts = Counter(system.verdict for system in systems if system.verdict)
        texts = [f"{count} {verdict}" for verdict, count in counts.most_common()]
        lines.append(f"Of {counts.total()} claims on {title}: {', '.join(texts)}.")
    return " ".join(lines)


def pairs_table() -> pd.DataFrame:
    rows = []
    for leaderboard, method, baseline in PAIRS:
        (pair,) = (
            pair
            for pair in stage.compared(wiki_mini(), planned_text(WIKI_MINI, baseline))
            if (pair.leaderboard, pair.task) == (LEADERBOARDS[leaderboard], "Avg")
            and method in (pair.method, pair.label)
        )
        difference = difference_text(pair.difference, pair.half_width)
        rows.append(
            {"A": f"`{method}`", "B": f"`{baseline}`", "tasks": leaderboard, "A - B": difference}
        )
    return pd.DataFrame(rows)


def classifiers_table() -> pd.DataFrame:
    """Standard deviations over seeds of the classifiers, and over seeds of the training."""
    scores = pd.read_csv(ROOT / "docs" / "explanation" / "classifier-seeds.csv")
    wide = scores.pivot_table("value", ["mode", "task", "aggregation"], "model", sort=False)
    wide["the second minus the first"] = wide.iloc[:, 1] - wide.iloc[:, 0]
    deviations = wide.groupby(["mode", "task"], sort=False).std().stack().unstack("task")
    trained = {
        system.label: {score.task: score.sd for score in system.scores}
        for system in wiki_mini().leaderboard_systems("transfer")
        if system.corpus and system.n > 3
    }
    training = pd.DataFrame.from_dict(trained, "index")
    deviations.loc[("test", "seeds of the training, SimCSE"), :] = training.loc["SimCSE"]
    deviations.loc[("test", f"median of {len(trained)} methods"), :] = training.median()
    columns = [*TRANSFER_TASKS, "Avg"]
    return deviations[columns].map("{:.2f}".format).reset_index(names=["mode", "vectors"])


def dev_table() -> pd.DataFrame:
    """The test items that stand in the dev sets of wiki-mini's trainings."""
    counts_of: dict[str, dict[str, Counts]] = {}
    selections = {run.id: run.selection for run in read_runs(WIKI_MINI / "plan.json").runs}
    for result in read_results(WIKI_MINI).runs:
        selection = selections[result.run.id]
        if selection:
            counts_of.setdefault(" or ".join(selection), result.provenance.contamination)
    rows = []
    for task in (*STS_TASKS, "MRPC"):
        row: dict[str, Any] = {
            "test set": task,
            "items": f"{counts_of['STS-B'][task].items:,}",
        }
        for sets, counts in counts_of.items():
            share = 100 * counts[task].in_dev / counts[task].items
            row |= {f"in dev of {sets}": counts[task].in_dev, f"share, {sets}": f"{share:.1f} %"}
        rows.append(row)
    return pd.DataFrame(rows)


def world_table() -> pd.DataFrame:
    """STS averages of runs of the smoke suite on the reference machine."""
    of_runs = pd.read_csv(SCORES).query("task == 'Avg' and metric == 'spearman'")
    scores = of_runs.query("backbone in ('none', 'toy-bert')").set_index("run").loc[SMOKE, SEEDS]
    rows = []
    for run, seeds in scores.iterrows():
        known = seeds.dropna()  # a run without a seed has one score
        score = score_text(known.mean(), known.std() if len(known) > 1 else None)
        rows.append({"run": f"`{run}`", "STS": score})
    return pd.DataFrame(rows)


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
    """A key with its default; a template, which has spaces, is in docs/reference/methods.md."""
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


TABLES: dict[str, Callable[[], pd.DataFrame | list[dict[str, Any]] | str]] = {
    "commands": commands.table,
    "methods": lists.methods_table,
    "tasks": lists.tasks_table,
    "papers": lists.papers_table,
    "keys": partial(keys_table, Suite),
    "keys of a method": partial(keys_table, MethodEntry),
    "keys of a comparison": partial(keys_table, Compare),
    "keys of a claim": partial(keys_table, ClaimEntry),
    "keys of an encoder": partial(keys_table, EncoderEntry),
    "columns of printed numbers": partial(keys_table, PrintedRow),
    "recipe": recipe_lines,
    "hyper-parameters": hyper_parameter_lines,
    "spread": printed_gains.spread_table,
    "gains": printed_gains.gains_table,
    "gains together": printed_gains.together_line,
    "other gains": printed_gains.other_gains_table,
    "best of k": printed_gains.best_table,
    "sweeps": printed_gains.sweeps_table,
    "controls": printed_gains.controls_table,
    "wiki-mini": scores_table,
    "wiki-mini answers": verdicts_line,
    "wiki-mini probing": probing_table,
    "wiki-mini pairs": pairs_table,
    "spread of STS": partial(leaderboard_table, "spread", "sts", ["Avg", IN_DEV, "Remark"]),
    "spread of MRPC": partial(leaderboard_table, "spread", "transfer", ["MRPC", IN_DEV, "Remark"]),
    "classifier seeds": classifiers_table,
    "dev sets": dev_table,
    "world": world_table,
}


def markdown(content: pd.DataFrame | list[dict[str, Any]] | str) -> str:
    if isinstance(content, str):
        return content
    table = pd.DataFrame(content, dtype=object)  # whole numbers with gaps would become floats
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
    "performance": performance_figure,
    "printed-gains": printed_gains.gains_figure,
    "statistics": answers_figure,
}

if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        with style.drawing():
            style.save_picture(FIGURES[path.stem](), path)
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        document.write_text(current(text), encoding="utf-8")
