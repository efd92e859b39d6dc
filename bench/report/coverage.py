"""Coverage: which printed numbers have a recipe, a place in a plan, a score of ours, and a
verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bench.comparison.reproduction import cells, select
from bench.comparison.verdict import VERDICT_SYMBOLS
from bench.datasets.tasks import expand_tasks, scored_cells
from bench.report.formats import csv, markdown
from bench.report.tables import row_name
from bench.reported import LABEL, MEASURES, SOURCES, mapped
from bench.results.suite_results import Key, RunResults, SuiteResults, read_suite
from bench.runs import config
from bench.utils.errors import UserError
from bench.utils.files import write_text

# The suites that plan the recipes. The second needs Chinese evaluation data, which cannot be
# downloaded.
CONFIGS = tuple(config.SCHEMA.with_name(name) for name in ("paper.yaml", "chinese.yaml"))


def planned_scores(plan: Mapping[str, Any]) -> set[Key]:
    """The keys of `RunResults.scores` that a planned run will have, given data sets with their
    usual splits."""
    tasks = expand_tasks(plan.get("tasks", ("sts",)))  # plans of earlier versions have no "tasks"
    return set() if plan.get("skip") else scored_cells(tasks) | set(_other_cells(plan))


def _other_cells(plan: Mapping[str, Any]) -> Iterator[Key]:
    if plan["seed"] is not None:
        yield "STS-B", "dev", "best_step"
    if "alignment" in plan.get("analyses", ()):
        yield "uniformity", "", "uniformity"


def planned_suite(plans: Sequence[Mapping[str, Any]]) -> SuiteResults:
    """Several plans (contents of `plan.json`) as one suite in which nothing has run."""
    runs = [
        RunResults(run, "missing", "no scores in this suite", "", {})
        for plan in plans
        for run in plan["runs"]
    ]
    return SuiteResults(
        " and ".join(plan["suite"] for plan in plans),
        plans[0]["data"],
        plans[0].get("stand_ins") or {},
        runs,
    )


def coverage_of_numbers(suite: SuiteResults, all_cells: pd.DataFrame | None = None) -> pd.DataFrame:
    """Every printed number, in the order of print, with its state in a suite.

    Args:
        suite: the suite.
        all_cells: `cells(suite)`, if it has been computed.

    Returns:
        The columns of `mapped`, and `measures` (False for hyper-parameters); `targets` (tuple: ids
        of the planned runs that are scored on it, of both sides of a difference); `planned`
        (whether every side has such runs); `n` (number of our values); `verdict` (empty without a
        recipe).
    """
    numbers = mapped()
    numbers["measures"] = numbers["metric"].isin(MEASURES)
    keys = {run.plan["id"]: planned_scores(run.plan) for run in suite.runs}
    targets, planned = [], []
    for number in numbers.to_dict("records"):
        backbone = number["suite_backbone"] or number["backbone"]
        key = (
            number["task"],
            number["suite_split"] or number["split"],
            MEASURES.get(number["metric"], ("",))[0],
        )
        sides = [
            [run.plan["id"] for run in select(suite, text, backbone) if key in keys[run.plan["id"]]]
            for text in (number["run"], number["minus"])
            if text
        ]
        targets.append(tuple(name for side in sides for name in side))
        planned.append(bool(sides) and all(sides))
    numbers["targets"], numbers["planned"] = targets, planned
    judged = cells(suite) if all_cells is None else all_cells
    numbers["n"], numbers["verdict"] = 0, ""
    numbers.loc[numbers["measures"], ["n", "verdict"]] = judged[["n", "verdict"]].to_numpy()
    numbers.loc[numbers["run"] == "", "verdict"] = ""
    return numbers


def coverage(suite: SuiteResults, all_cells: pd.DataFrame | None = None) -> pd.DataFrame:
    """How many numbers of each printed table have a recipe, are planned and have run; tables in the
    order of print.

    Returns:
        Columns: `source`, `table`, and the counts `printed`, `measures` (all but hyper-parameters),
        `recipe`, `planned`, `run`, and one column per verdict (a key of `VERDICT_SYMBOLS`), over
        the numbers with a recipe.
    """
    return _counts(coverage_of_numbers(suite, all_cells))


def _counts(all_numbers: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for (source, table), numbers in all_numbers.groupby(["source", "table"], sort=False):
        row = {
            "source": source,
            "table": table,
            "printed": len(numbers),
            "measures": sum(numbers["measures"]),
        }
        row |= {
            "recipe": sum(numbers["run"] != ""),
            "planned": sum(numbers["planned"]),
            "run": sum(numbers["n"] > 0),
        }
        verdicts = Counter(numbers["verdict"])
        rows.append(row | {kind: verdicts[kind] for kind in VERDICT_SYMBOLS})
    return pd.DataFrame(rows)


def without_recipe() -> pd.DataFrame:
    """The printed rows without a recipe: the columns `LABEL`, `reason`, `measures` and `numbers`
    (how many)."""
    numbers = mapped().query("run == ''")
    numbers["measures"] = numbers["metric"].isin(MEASURES)
    return (
        numbers.groupby([*LABEL, "reason", "measures"], sort=False)
        .size()
        .reset_index(name="numbers")
    )


def _merged(suites: Sequence[SuiteResults]) -> SuiteResults:
    """Several suites as one. If several have the same run, one with scores is taken.

    Raises:
        UserError: suites have different stand-ins for one printed backbone.
    """
    stand_ins: dict[str, str] = {}
    for suite in suites:
        for printed, own in suite.stand_ins.items():
            if stand_ins.setdefault(printed, own) != own:
                raise UserError(
                    f"{stand_ins[printed]} and {own} both stand in for {printed}; pass their suites in separate calls"
                )
    by_id: dict[str, RunResults] = {}
    for run in (run for suite in suites for run in suite.runs):
        if run.plan["id"] not in by_id or by_id[run.plan["id"]].status == "missing":
            by_id[run.plan["id"]] = run
    return SuiteResults(
        " and ".join(one.name for one in suites), suites[0].data, stand_ins, list(by_id.values())
    )


def _share(left_out: pd.DataFrame, measures: int) -> str:
    missing = left_out.loc[left_out["measures"], "numbers"].sum()
    return (
        f"{missing} of the {measures} printed numbers that measure something have no recipe: "
        f"{100 * missing / measures:.1f} %."
    )


def _shown(counts: pd.DataFrame) -> pd.DataFrame:
    """`coverage` as texts, with a last line of sums; verdicts that do not occur are left out."""
    kinds = [kind for kind in VERDICT_SYMBOLS if counts[kind].any()]
    numbers = counts[["printed", "measures", "recipe", "planned", "run", *kinds]]
    total = pd.DataFrame([{"source": "all", "table": ""} | numbers.sum().to_dict()])
    shown = pd.concat([counts[["source", "table", *numbers]], total]).astype(str)
    return shown.rename(columns={kind: VERDICT_SYMBOLS[kind] for kind in kinds})


def _left_out(left_out: pd.DataFrame) -> Iterator[str]:
    """Lines of text: each reason, and below it the rows without a recipe for that reason."""
    for reason, rows in left_out.groupby("reason", sort=False):
        yield f"{reason}: {rows['numbers'].sum()}"
        for (source, table), group in rows.groupby(["source", "table"], sort=False):
            names = dict.fromkeys(row_name(row.method, row.variant) for row in group.itertuples())
            yield f"  {source}, {table}: {group['numbers'].sum()} ({', '.join(names)})"


def _unplanned(numbers: pd.DataFrame) -> Iterator[str]:
    """Lines of text: the rows that have a recipe but no planned run."""
    unplanned = numbers[(numbers["run"] != "") & ~numbers["planned"]]
    for (source, table, method, backbone, variant, run, minus), rows in unplanned.groupby(
        [*LABEL, "run", "minus"], sort=False
    ):
        where = (
            f"{source}, {table}, {row_name(method, variant)}, {backbone}, {', '.join(rows['task'])}"
        )
        yield f"  {where}: {run}" + (f" minus {minus}" if minus else "")


def render_coverage(
    suites: Sequence[Path], configs: Sequence[Path] = CONFIGS, out: Path | None = None
) -> str:
    """The coverage of all printed numbers, as text.

    Args:
        suites: folders of suites.
        configs: configurations that are planned, with nothing run, if there are no `suites`.
        out: also write a file: .md has the same content in Markdown, .csv a row per printed number.

    Raises:
        UserError: a suite or configuration is invalid, or `out` has another extension.
    """
    if out and out.suffix not in (".md", ".csv"):
        raise UserError(f"--out is '{out}'; its extension must be .md or .csv")
    if suites:
        suite = _merged([read_suite(folder) for folder in suites])
    else:
        suite = planned_suite([config.plan(config.load(path)) for path in configs])
    numbers, left_out = coverage_of_numbers(suite), without_recipe()
    counts = _counts(numbers)
    shown = _shown(counts)
    caption = (
        f"Printed numbers of {len(SOURCES)} papers and versions of papers in suite {suite.name}."
    )
    legend = "Verdicts on those with a recipe: " + "; ".join(
        f"{symbol} {kind}" for kind, symbol in VERDICT_SYMBOLS.items() if symbol in shown.columns
    )
    unplanned = list(_unplanned(numbers))
    below = [
        f"{legend}.", "", _share(left_out, int(counts["measures"].sum())), "", "Without a recipe:",
        *_left_out(left_out), "", "With a recipe but not planned:", *(unplanned or ["  none"])
    ]  # fmt: skip
    if out and out.suffix == ".csv":
        write_text(out, csv(numbers.assign(targets=numbers["targets"].map(" ".join))))
    elif out:
        items = [
            f"{'  ' * line.startswith('  ')}* {line.strip()}" if line else "" for line in below
        ]
        write_text(out, markdown(shown, caption) + "\n" + "\n".join(items) + "\n")
    return "\n".join([caption, "", shown.to_string(index=False), "", *below])
