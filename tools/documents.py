"""Write the generated tables of documents: python -m tools.documents [docs/FIGURE.png].

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`; NAME is a key of `TABLES`.
With paths, the figures of these names are drawn there, of `FIGURES`.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from textwrap import fill
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from pydantic import BaseModel

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
from bench.utils.files import read_toml
from tools import commands, printed_gains

ROOT = Path(__file__).parents[1]
WIKI_MINI = ROOT / "results" / "wiki-mini"
EXPLANATION = ROOT / "docs" / "explanation"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
METHODS = ROOT / "docs/reference/methods.md"
LEADERBOARDS = {"STS": "sts", "transfer": "transfer"}

_CONTENT = read_toml(Path(__file__).with_suffix(".toml"))
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


def linked(text: str) -> str:
    """A text whose citations of documents are links, as in a document of docs/reference."""
    links = re.sub(r"\bdocs/([\w/-]+/([\w-]+))(\.md[#\w-]*)", r"[\2](../\1\3)", text)
    return links.replace("(../reference/", "(")


def keys_list(model: type[BaseModel]) -> str:
    """The keys of a model of a configuration; fields of a recipe have their defaults."""
    items = []
    for name, field in model.model_fields.items():
        # Defaults as configurations write them: 3e-5, not 3e-05.
        default = format_value(field.default).replace("e-0", "e-")
        key = f"{name}={default}" if model is Recipe else name
        required = " (required)" * field.is_required()
        text = f"* `{key}`{required}: {linked(lists.description(field))}"
        items.append(fill(text, 100, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(items)


@cache
def released() -> pd.DataFrame:
    """Methods beside their released code."""
    return pd.read_csv(ROOT / "docs/reference/released-code.csv", dtype=str, keep_default_na=False)


def hyper_parameters(name: str) -> str:
    """The rows of `sentbench methods NAME`, which the site repeats."""
    rows = lists.hyper_parameters(method_class(name))
    # As code, since a template has marks of HTML.
    return linked(markdown([row | {"value": f"`{row['value']}`"} for row in rows]))


def method_text(name: str) -> str:
    """A method's differences from released code, and interpretations; those that
    docs/reference/training.md or the section itself describes, and details, are not listed."""
    rows = released().query("system == @name and listed == 'yes'")
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
