"""Coverage: which printed numbers have a recipe, a place in a plan, a score of ours, and a
verdict."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import pandas as pd

from bench.datasets.metrics import METRICS
from bench.datasets.tasks import Key, expand_tasks, scored_cells
from bench.judge.reproduction import Cell, judge, select
from bench.judge.verdict import VERDICT_SYMBOLS
from bench.report.formats import markdown, templates
from bench.reported import LABEL, SOURCES
from bench.reported.address import row_name
from bench.reported.number import numbers
from bench.results.suite_results import NOT_SCORED, RunResults, SuiteResults, read_suite
from bench.runs import config
from bench.runs.plan import Plan
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError, listed
from bench.utils.files import write_text


def planned_scores(run: PlannedRun) -> set[Key]:
    """The keys of `RunResults.scores` that a planned run will have, given data sets with their
    usual splits."""
    if run.skip:
        return set()
    measured = {*run.analyses} if run.seed is None else {*run.analyses, ""}  # "": the training
    return scored_cells(expand_tasks(run.tasks)) | {
        (*metric.cell, name)
        for name, metric in METRICS.items()
        if metric.value and metric.analysis in measured
    }


def planned_suite(plans: Sequence[Plan]) -> SuiteResults:
    """Several plans as one suite in which nothing has run."""
    runs = [RunResults(run, "missing", NOT_SCORED, "", {}) for plan in plans for run in plan.runs]
    name = listed(plan.suite for plan in plans)
    return SuiteResults(plans[0].model_copy(update={"suite": name}), runs)


def coverage_of_numbers(suite: SuiteResults, cells: Iterable[Cell]) -> pd.DataFrame:
    """Every printed number, in the order of print, with its state in a suite that has `cells`:
    `targets` are the ids of the planned runs that are scored on it, and it is `planned` if every
    side of a difference has such runs."""
    scored = {run.plan.id: planned_scores(run.plan) for run in suite.runs}
    lines = {cell.number: cell.ours for cell in cells}
    rows = []
    for number in numbers():
        sides = []
        for text in filter(None, (number.run, number.minus)):
            ids = [run.plan.id for run in select(suite, text, number.our_backbone)]
            sides.append([run_id for run_id in ids if number.key in scored[run_id]])
        rows.append(asdict(number) | {
            "measures": number.is_measurement,
            "targets": tuple(chain(*sides)),
            "planned": bool(sides) and all(sides),
            "n": lines[number].n if number.is_measurement else 0,
            "verdict": lines[number].verdict.kind if number.run else "",
        })  # fmt: skip
    return pd.DataFrame(rows)


STAGES = ["printed", "measures", "recipe", "planned", "run"]


def coverage(numbers: pd.DataFrame) -> pd.DataFrame:
    """How many numbers (of `coverage_of_numbers`) of each printed table reach each of `STAGES` and
    have each verdict; tables in the order of print."""
    counted = numbers.assign(printed=True, recipe=numbers["run"] != "", run=numbers["n"] > 0)
    for kind in VERDICT_SYMBOLS:
        counted[kind] = numbers["verdict"] == kind
    tables = counted.groupby(["source", "table"], sort=False)
    return tables[[*STAGES, *VERDICT_SYMBOLS]].sum().reset_index()


def without_recipe() -> pd.DataFrame:
    """The printed rows without a recipe: the columns `LABEL`, `reason`, `measures` and `numbers`
    (how many)."""
    names = [*LABEL, "reason", "measures"]
    left_out = [
        (*number.label, number.reason, number.is_measurement)
        for number in numbers()
        if not number.run
    ]
    rows = pd.DataFrame(left_out, columns=names).groupby(names, sort=False)
    return rows.size().reset_index(name="numbers")


def render_coverage(
    suite_dir: Path | None, configs: Sequence[Path] = config.PAPERS, out: Path | None = None
) -> str:
    """The `report` of a suite, or of planned configurations with nothing run."""
    plans = [] if suite_dir else [config.plan(config.load(path)) for path in configs]
    suite = read_suite(suite_dir) if suite_dir else planned_suite(plans)
    return report(suite, judge(suite), out)


def report(suite: SuiteResults, cells: Iterable[Cell], out: Path | None = None) -> str:
    """The coverage of all printed numbers by a suite that has `cells`, as text; in Markdown it is
    also written to `out`."""
    if out and out.suffix != ".md":
        raise UserError(f"--out is '{out}'; its extension must be .md")
    numbers, left_out = coverage_of_numbers(suite, cells), without_recipe()
    for rows in (numbers, left_out):
        rows["row"] = list(map(row_name, rows["method"], rows["variant"]))
    counts = coverage(numbers)
    kinds = [kind for kind in VERDICT_SYMBOLS if counts[kind].any()]
    columns = [*STAGES, *kinds]
    total = pd.DataFrame([{"source": "all", "table": ""} | counts[columns].sum().to_dict()])
    shown = pd.concat([counts[["source", "table", *columns]], total]).astype(str)
    shown = shown.rename(columns=VERDICT_SYMBOLS)
    caption = (
        f"Printed numbers of {len(SOURCES)} papers and versions of papers in suite "
        f"{suite.plan.suite}."
    )
    below = templates().get_template("coverage.txt").render(
        kinds=kinds, symbols=VERDICT_SYMBOLS, left_out=left_out,
        missing=left_out.loc[left_out["measures"], "numbers"].sum(),
        measures=counts["measures"].sum(),
        unplanned=numbers[(numbers["run"] != "") & ~numbers["planned"]],
    )  # fmt: skip
    if out:
        items = re.sub("^( *)(?=.)", r"\1* ", below, flags=re.MULTILINE)
        write_text(out, f"{markdown(shown, caption)}\n{items}")
    return "\n".join([caption, "", shown.to_string(index=False), "", below.rstrip()])
