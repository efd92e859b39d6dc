"""Write the generated tables of documents: python -m tools.documents [docs/FIGURE.png].

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`; NAME is a key of `TABLES`.
With paths, the figures of these names are drawn there, of `FIGURES`.
"""

import inspect
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path
from textwrap import fill
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
from bench.registry.methods import format_value, method_class, method_classes
from bench.report.figures import style
from bench.report.figures.compared import (
    DIFFERENCES,
    ONE_RUN,
    OUR_MEAN,
    TOLERANCE,
    Mark,
    Strip,
    figure_of_rows,
)
from bench.report.formats import difference_text, score_text
from bench.report.leaderboard import shown_leaderboard
from bench.reported import PAPERS
from bench.reported.audit import FINDING_KINDS, findings
from bench.results.suite_results import read_results
from bench.runs.naming import planned_text
from bench.runs.run import Recipe, read_runs
from bench.runs.suite import Compare, MethodEntry, Suite
from methods.base import SHARED_RECIPE, Contrastive, Method, Transform
from methods.simcse import SimCSE
from tools import commands, printed_gains
from tools.printed_gains import BACKBONES

ROOT = Path(__file__).parents[1]
WIKI_MINI = ROOT / "results" / "wiki-mini"
EXPLANATION = ROOT / "docs" / "explanation"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
METHODS = ROOT / "docs/reference/methods.md"
# Names of several of these; without a name for all.
GROUPS = {
    BACKBONES: "",
    BACKBONES[:2]: "BERT",
    BACKBONES[2:]: "RoBERTa",
    BACKBONES[::2]: "base",
    BACKBONES[1::2]: "large",
}
LEADERBOARDS = {"STS": "sts", "transfer": "transfer"}
# Rows of released-code.csv that docs/reference/training.md describes, or the text of a section,
# and details.
GENERAL_KEYS = ["early_epsilon", "precision"]
GENERAL_POINTS = (
    "Settings|Values|Detail|Shallow|Other backbones|Selection, paper|Vectors of selection|"
    "In the text"
)

_CONTENT = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PAIRS, SMOKE, EXAMPLES = _CONTENT.values()


def rule_figure() -> Figure:
    """The verdict of each kind of interval: of a gain, and of our mean beside a printed value."""
    blue, strips = {"color": style.BLUE}, []
    for verdict, (mean, half) in EXAMPLES["claims"].items():
        marks: list[Mark] = [([mean - half, mean, mean + half], 0, DIFFERENCES)]
        strips.append(Strip("a claim: the gain over the baseline", "", verdict, marks, verdict))
    for verdict, (mean, half, half_of_run) in EXAMPLES["printed"].items():
        marks = [
            ([-1, 1], 0, TOLERANCE),
            ([0], 0, style.PRINTED_LOOK),
            ([mean - half, mean + half], 0, OUR_MEAN | blue),
            ([mean - half_of_run, mean + half_of_run], 0, ONE_RUN | blue),
        ]
        strips.append(Strip("a printed value: our mean minus it", "", verdict, marks, verdict))
    title = "A verdict needs an interval on one side: of no gain, of the margin, of the tolerance"
    note = "Intervals: 98 %. Solid line: no difference. Dotted: the margin of the claim, one point."
    figure = figure_of_rows(strips, title, [note], "points")
    for panel in figure.axes:
        panel.axvline(0, color=style.GREY, lw=1, zorder=1)
    figure.axes[0].axvline(1, color=style.GREY, lw=1, ls=":", zorder=1)
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
def wiki_mini() -> Judged:
    return stage.read_suite(WIKI_MINI)


def verdicts_line() -> str:
    """The claims of the small backbone by leaderboard and verdict; which gain or lose, and how
    much."""
    lines = []
    for title, leaderboard in LEADERBOARDS.items():
        verdicts: dict[str, list[str]] = defaultdict(list)
        for system in wiki_mini().leaderboard_systems(leaderboard):
            if system.verdict:
                size = difference_text(system.difference, system.half_width)
                verdicts[system.verdict].append(f"{system.label} {size}")
        texts = []
        for verdict, systems in verdicts.items():
            decided = f" ({', '.join(systems)})" if verdict in ("better", "worse") else ""
            texts.append(f"{verdict}: {len(systems)}{decided}")
        lines.append(f"* Claims on {title}: {'; '.join(texts)}.")
    return "\n".join(lines)


def pairs_list() -> str:
    lines = []
    for leaderboard, method, baseline in PAIRS:
        (pair,) = (
            pair
            for pair in stage.compared(wiki_mini(), planned_text(WIKI_MINI, baseline))
            if (pair.leaderboard, pair.task) == (LEADERBOARDS[leaderboard], "Avg")
            and method in (pair.method, pair.label)
        )
        difference = difference_text(pair.difference, pair.half_width)
        lines.append(f"* `{method}` minus `{baseline}` on {leaderboard}: {difference}")
    return "\n".join(lines)


def simulated(name: str) -> pd.DataFrame:
    """Rates that tests/oracles/rates.py has written, for the seeds that the paper suite plans."""
    rates = pd.read_csv(EXPLANATION / f"{name}.csv", dtype=str)
    return rates[rates["planned"] == "yes"].drop(columns="planned")


def power_table() -> pd.DataFrame:
    return simulated("power").drop(columns=["N", "hours to the first look"])


def deviations_table() -> pd.DataFrame:
    """Scores of the suite `spread` over seeds and templates, of systems with all planned scores."""
    judged, tables = stage.read_suite(ROOT / "results" / "spread"), []
    for name, column in (("sts", "Avg"), ("transfer", "MRPC")):
        systems = [system for system in judged.leaderboard_systems(name) if system.averages]
        shown = shown_leaderboard(judged.suite, judged.suite.leaderboard(name), systems)
        table = pd.DataFrame(shown.rows)[["Method", "n", column]]
        tables.append(table.rename(columns={"n": f"n, {column}"}))
    sts, transfer = tables
    return sts.merge(transfer, on="Method").rename(columns={"Avg": "STS", "n, Avg": "n, STS"})


def audit_list() -> str:
    """How many findings of each kind the audit has in each paper."""
    counts, lines = Counter((finding.kind, finding.source) for finding in findings()), []
    for kind in FINDING_KINDS:
        places = [f"{source} {n}" for (of, source), n in counts.items() if of == kind]
        lines.append(f"* `{kind}`: {', '.join(places) or 'none'}")
    return "\n".join([*lines, f"* all: {counts.total()}"])


def classifiers_table() -> pd.DataFrame:
    """Standard deviations over seeds of the classifiers, and over seeds of the training."""
    scores = pd.read_csv(EXPLANATION / "classifier-seeds.csv").query("mode == 'test'")
    wide = scores.pivot_table("value", ["task", "aggregation"], "model", sort=False)
    wide["the second minus the first"] = wide.iloc[:, 1] - wide.iloc[:, 0]
    deviations = wide.groupby("task", sort=False).std().T
    trained = {
        system.label: {score.task: score.sd for score in system.scores}
        for system in wiki_mini().leaderboard_systems("transfer")
        if system.corpus and system.n > 3
    }
    training = pd.DataFrame.from_dict(trained, "index")
    deviations.loc["training seeds of SimCSE"] = training.loc["SimCSE"]
    deviations.loc[f"training seeds, median of {len(trained)} methods"] = training.median()
    columns = [*TRANSFER_TASKS, "Avg"]
    return deviations[columns].map("{:.2f}".format).reset_index(names="varied")


def dev_line() -> str:
    """The test items that occur in the dev set of STS-B."""
    selections = {run.id: run.selection for run in read_runs(WIKI_MINI / "plan.json").runs}
    counts = next(
        result.provenance.contamination
        for result in read_results(WIKI_MINI).runs
        if selections[result.run.id] == ["STS-B"]
    )
    texts = []
    for task in (*STS_TASKS, "MRPC"):
        in_dev, share = counts[task].in_dev, counts[task].in_dev / counts[task].items
        texts.append(f"{task} {in_dev} ({100 * share:.1f} %)")
    return f"Test items in STS-B dev: {', '.join(texts)}."


def world_list() -> str:
    """STS averages of runs of the smoke suite on the reference machine."""
    of_runs = pd.read_csv(SCORES).query("task == 'Avg' and metric == 'spearman'")
    scores = of_runs.query("backbone in ('none', 'toy-bert')").set_index("run").loc[SMOKE, SEEDS]
    lines = []
    for run, seeds in scores.iterrows():
        known = seeds.dropna()  # a run without a seed has one score
        score = score_text(known.mean(), known.std() if len(known) > 1 else None)
        lines.append(f"* `{run}`: {score}")
    return "\n".join(lines)


def default_text(value: Any) -> str:
    """A default as configurations write it: 3e-5, not 3e-05."""
    return format_value(value).replace("e-0", "e-")


def description(field: FieldInfo) -> str:
    """The text below a field of a model, in one line."""
    return " ".join((field.description or "").split())


def linked(text: str) -> str:
    """A text whose citations of documents are links, as in a document of docs/reference."""
    links = re.sub(r"\bdocs/([\w/-]+/([\w-]+))(\.md[#\w-]*)", r"[\2](../\1\3)", text)
    return links.replace("(../reference/", "(")


def keys_list(model: type[BaseModel]) -> str:
    """The keys of a model of a configuration; fields of a recipe have their defaults."""
    items = []
    for name, field in model.model_fields.items():
        key = f"{name}={default_text(field.default)}" if model is Recipe else name
        required = " (required)" * field.is_required()
        text = f"* `{key}`{required}: {linked(description(field))}"
        items.append(fill(text, 100, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(items)


def value_item(name: str, value: Any, meaning: str) -> str:
    """A key with its default; a template, which has spaces, is in the text of its section."""
    text = default_text(value)
    return f"* `{name}={'...' if ' ' in text else text}`: {linked(meaning)}"


def meaning(cls: type[Method], field: FieldInfo) -> str:
    """The description, with what the type and the marks of a hyper-parameter say."""
    text = description(field)
    marks: Any = field.json_schema_extra or {}
    choices = re.findall("'(.+?)'", str(field.annotation))
    # Poolers have a table of their own.
    if 1 < len(choices) < 6 and not all(choice in text for choice in choices):
        if NoneType in get_args(field.annotation):
            choices.append("none")
        text += f": {'/'.join(choices)}"
    if "model" in marks:
        names = ["hub id", "folder"]
        if cls.trained and "language" not in marks:
            names.append("run")
        if "language" in marks or "pooler" in marks:
            names.append("backbone")
        text += f"; {'/'.join(names)}"
    return f"{text}; first part only" if "host" in marks else text


def setting_row(cls: type[Method], setting: str, backbone: str) -> dict[str, Any]:
    """The values of a setting on a backbone, as `bench.runs.choice` finds them."""
    table = cls.paper if setting == "paper" or cls.official is None else cls.official
    return {**table.get("*", {}), **table.get(backbone, table.get(BACKBONES[0], {}))}


def values_text(cls: type[Method], key: str, default: Any, shown: Any) -> str:
    """Values in the method's tables that differ from the one that is shown: ` (1.5: roberta-large
    official)`."""
    backbones: dict[tuple[Any, str], list[str]] = defaultdict(list)  # by value and setting
    names = [*BACKBONES, *(name for name in cls.paper if name not in ("*", *BACKBONES))]
    for setting, name in product(("paper", "official"), names):
        value = setting_row(cls, setting, name).get(key, default)
        if value != shown and " " not in default_text(value):  # not a template
            backbones[value, setting].append(name)
    texts = set()
    for (value, setting), found in backbones.items():
        words = [GROUPS.get((*found,), ", ".join(found).replace("-uncased", ""))]
        if backbones.get((value, "paper")) != backbones.get((value, "official")):
            words.append(setting)
        texts.add(f"{default_text(value)}: {' '.join(filter(None, words))}")
    return f" ({'; '.join(sorted(texts))})" if texts else ""


def recipe_text(cls: type[Method]) -> str:
    """The recipe fields that a method sets, with their values on BERT base and those that differ;
    a batch size and a learning rate only if they are not SimCSE's."""
    row, texts = setting_row(cls, "official", BACKBONES[0]), []
    for key, field in Recipe.model_fields.items():
        value = row.get(key, field.default)
        text = f"`{key}={default_text(value)}`{values_text(cls, key, field.default, value)}"
        usual = values_text(SimCSE, key, field.default, field.default)
        if key not in SHARED_RECIPE[BACKBONES[0]]:
            usual = ""
        if text != f"`{key}={default_text(field.default)}`{usual}":
            texts.append(text)
    return ", ".join(texts) or "SimCSE's"


def key_lines(*classes: type[Method]) -> str:
    """The hyper-parameters that classes declare or set themselves."""
    lines = []
    for cls in classes:
        own = {*inspect.get_annotations(cls.Hyper)}.union(*cls.paper.values())
        for key, field in cls.Hyper.model_fields.items():
            if key in own:
                text = meaning(cls, field) + values_text(cls, key, field.default, field.default)
                lines.append(value_item(key, field.default, text))
    return "\n".join(lines)


@cache
def released() -> pd.DataFrame:
    """Methods beside their released code."""
    return pd.read_csv(ROOT / "docs/reference/released-code.csv", dtype=str, keep_default_na=False)


def hyper_parameters(name: str) -> str:
    """A method's hyper-parameters and recipe, which the site has and `sentbench methods NAME`."""
    cls = method_class(name)
    parts = [key_lines(cls)]
    if hasattr(cls.__base__, "name"):
        parts.insert(0, f"Besides those of {cls.__base__.name}:")
    if cls.trained:
        parts.append(f"Recipe: {recipe_text(cls)}.")
    return "\n\n".join(parts)


def method_text(name: str) -> str:
    """A method's differences from released code, and interpretations; but for the general ones of
    docs/reference/training.md."""
    rows = released().query("system == @name")
    rows = rows[~rows["key"].isin(GENERAL_KEYS) & ~rows["point"].str.match(GENERAL_POINTS)]
    point = rows["point"].mask(rows["moves"] == "yes", "**" + rows["point"] + "**")
    lists = {
        "Differences": (point + ": " + rows["note"])[rows["moves"].isin(["yes", "unknown"])],
        "Interpretations": ("`" + rows["key"] + "`: " + rows["note"])[
            rows["tag"] == "interpretation"
        ],
    }
    parts = ["\n* ".join([f"{title}:\n", *(of + ".")]) for title, of in lists.items() if len(of)]
    return "\n\n".join(parts)


def methods_list() -> str:
    """The methods, with links to their sections in docs/reference/methods.md."""
    sections, heading = {}, ""
    for line in METHODS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if mark := re.match("<!-- generated: method (.+) -->", line):
            sections[mark[1]] = heading
    items = []
    for row in lists.methods_table():
        name = row["name"]
        # Not the paper that has a method in a table of its own.
        author = re.search(r"(?:^|; )([^\d;]+ \d{4})(?!, [^;]*Table)", row["paper"])
        by = f" ({author[1]})" if author else ""
        link = f"[`{name}`](#{anchor(sections[name])})"
        items.append(f"* {link}{by}: {row['idea']}")
    return "\n".join(items)


def tasks_table() -> pd.DataFrame:
    """The tasks of each group, with their test items."""
    tasks = pd.DataFrame(lists.tasks_table())
    tasks["tasks (test items)"] = tasks["name"] + tasks["test items"].map(" ({:,})".format)
    columns = ["group", "protocol", "metric"]
    return tasks.groupby(columns, sort=False)["tasks (test items)"].agg(", ".join).reset_index()


def papers_table() -> pd.DataFrame:
    """The papers, without their tables."""
    papers = pd.DataFrame(lists.papers_table(), dtype=object)
    names = papers["key"].map(lambda key: PAPERS[key]["name"])
    return papers.assign(paper=names)[["key", "paper", "numbers", "with a run"]]


TABLES: dict[str, Callable[[], pd.DataFrame | list[dict[str, Any]] | str]] = {
    "commands": commands.table,
    "methods": methods_list,
    **{f"method {name}": partial(method_text, name) for name in method_classes()},
    "shared hyper-parameters": partial(key_lines, Contrastive, Transform),
    "tasks": tasks_table,
    "papers": papers_table,
    "keys": partial(keys_list, Suite),
    "keys of a method": partial(keys_list, MethodEntry),
    "keys of a comparison": partial(keys_list, Compare),
    "recipe": partial(keys_list, Recipe),
    "gains": printed_gains.gains_table,
    "gains together": printed_gains.together_line,
    "best of k": printed_gains.best_line,
    "sweeps": printed_gains.sweeps_line,
    "controls": printed_gains.controls_list,
    "wiki-mini answers": verdicts_line,
    "wiki-mini pairs": pairs_list,
    "printed verdicts": partial(simulated, "printed-verdicts"),
    "power": power_table,
    "deviations": deviations_table,
    "classifier seeds": classifiers_table,
    "audit": audit_list,
    "dev sets": dev_line,
    "world": world_list,
}


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub forms it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


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
        return "\n\n".join(filter(None, [start, markdown(TABLES[name]()), end]))

    pattern = r"(<!-- generated: ([\w -]+?) -->).*?(<!-- end -->)"
    return re.sub(pattern, table, text, flags=re.DOTALL)


FIGURES: dict[str, Callable[[], Figure]] = {
    "performance": performance_figure,
    "printed-gains": printed_gains.gains_figure,
    "rule": rule_figure,
}

if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        with style.drawing():
            style.save_picture(FIGURES[path.stem](), path)
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        document.write_text(current(text), encoding="utf-8")
