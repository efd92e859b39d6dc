"""Commands for the runs of a suite: plan them, make them, see how far they are."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli.parameters import (
    CORPORA,
    DATA,
    Command,
    Mode,
    Suite,
    Tasks,
    arg,
    exactly_one,
    one_of,
    opt,
    read_json_text,
    read_tasks,
    whole_number,
)
from bench.runs import ANALYSES, STAGES
from bench.utils.errors import UserError, did_you_mean, errors_of
from bench.utils.text import counted

if TYPE_CHECKING:
    from bench.runs.plan import Plan
    from bench.runs.run import PlannedRun

DEVICES = ["a100", "h100", "h200", "cpu"]  # whose hours are predicted
MAX_SEEDS = 10_000  # of a plan; more is a typing error

app = typer.Typer()


@app.command(cls=Command)
def plan(
    config: Annotated[Path | None, opt("A configuration.", metavar="FILE.yaml")] = None,
    suite: Annotated[
        str | None, opt("A suite shipped with the project: config/NAME.yaml.", metavar="NAME")
    ] = None,
    text: Annotated[
        str | None, opt("A configuration as JSON text.", "--json", metavar="TEXT")
    ] = None,
    seeds: Annotated[
        int | None,
        opt(
            "Seeds 1 to N instead of those of the configuration.",
            **whole_number(high=MAX_SEEDS),
        ),
    ] = None,
    out: Annotated[Path | None, opt("Write the plan here.", metavar="FILE.json")] = None,
    device: Annotated[
        str | None,
        opt(
            "Predict the hours on such devices; cpu is that of this machine.",
            **one_of(DEVICES),
        ),
    ] = None,
    gpus: Annotated[int, opt("Number of devices that share the runs.", **whole_number())] = 1,
) -> None:
    """Check a configuration, plan its suite, or predict the hours.

    Without --out and --device it is only checked. The plan lists all runs of the suite with their
    settings. The configuration is given by exactly one of --config, --suite and --json.
    """
    from bench.runs import config as configurations

    exactly_one(config=config, suite=suite, json=text)
    if text is None:
        file = config or _shipped(suite or "")
        with errors_of(f"configuration {file}"):
            content = configurations.read(file)
    else:
        content = read_json_text(text)
    with errors_of(f"configuration {'in --json' if text is not None else file}"):
        planned_suite = configurations.validate(content)
        if seeds:
            planned_suite = configurations.reseeded(planned_suite, range(1, seeds + 1))
        planned = configurations.plan(planned_suite)
    if out:
        planned.write(out)
    if device:
        from bench.stages.cost import report

        print(report(planned_suite, planned.runs, device, gpus, Path("results")))
    elif not out:
        runs = counted(len(planned.runs), "run")
        print(f"{planned_suite.suite}: {runs}; the configuration is valid")


@app.command("next", cls=Command)
def next_seeds(
    suite: Suite,
    hours: Annotated[float, opt("Device hours to spend.", min=0, metavar="N")],
    out: Annotated[
        Path | None,
        opt("Write the configuration with the new seeds here.", metavar="FILE.yaml"),
    ] = None,
    config: Annotated[
        Path | None,
        opt(
            "The suite's configuration; by default config/NAME.yaml, by its name.",
            metavar="FILE.yaml",
        ),
    ] = None,
    device: Annotated[
        str, opt("The device on which hours are predicted.", **one_of(DEVICES))
    ] = "h200",
) -> None:
    """Find the seeds that decide the most open verdicts per hour.

    Open are verdicts `inconclusive`. With --out, a configuration is written that plans the suite
    with these seeds; its tables say that the suite was grown (docs/statistics.md).
    """
    from bench.comparison.next_seeds import grow, report
    from bench.runs import config as configurations
    from bench.runs.plan import read_plan
    from bench.utils.files import write_text

    name = read_plan(suite / "plan.json").suite
    growth = grow(suite, configurations.load(config or _shipped(name)), hours, device)
    print(report(growth))
    if out:
        write_text(out, configurations.dump(growth.config))
        print(f"Written to {out}; run it with: snakemake --cores N --configfile {out}")


@app.command(cls=Command)
def status(
    suite: Suite,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON, with the runs left.")
    ] = False,
) -> None:
    """Show how far a suite is.

    Counts the runs done, running, failed and left, and predicts the hours left. Each failed run has
    its last error and its log. Works while a workflow runs.
    """
    import json
    from dataclasses import asdict

    from bench.stages.status import report
    from bench.stages.status import status as read_status

    suite_status = read_status(suite)
    print(json.dumps(asdict(suite_status), indent=1) if as_json else report(suite_status))


def _shipped(suite: str) -> Path:
    """The configuration of a suite that is shipped with the project."""
    from bench.runs.config import SUITES

    shipped = {path.stem: path for path in SUITES.glob("*.yaml")}
    if suite not in shipped:
        hint = did_you_mean(suite, shipped)
        raise UserError(f"unknown suite '{suite}'{hint}; name the file of another with --config")
    return shipped[suite]


def _share(word: str) -> tuple[int, int]:
    part, _, parts = word.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise UserError(f"--share is '{word}'; write k/n with 1 <= k <= n")
    return int(part), int(parts)


@app.command(cls=Command)
def job(
    suite: Suite,
    ids: Annotated[
        list[str] | None, arg("Runs of the suite's plan; by default all.", metavar="ID")
    ] = None,
    stages: Annotated[list[str], opt("Only these stages.", **one_of(STAGES))] = list(STAGES),
    share: Annotated[str, opt("Every N-th run, from the K-th on.", metavar="K/N")] = "1/1",
    attempt: Annotated[
        int,
        opt(
            "Number of this attempt; from the second on, runs that failed for good are left out.",
            **whole_number(),
        ),
    ] = 1,
    run: Annotated[
        str | None,
        opt(
            "Instead of the plan's runs, method[key=value,...]+ingredient@paper|official.",
            metavar="TEXT",
        ),
    ] = None,
    backbone: Annotated[
        str, opt("With --run: a backbone, or a folder in Hugging Face format.", metavar="NAME")
    ] = "none",
    corpus: Annotated[str, opt(f"With --run: {CORPORA}.", metavar="NAME")] = "",
    data: Annotated[str, opt(f"With --run: {DATA}.", metavar="NAME")] = "senteval",
    seed: Annotated[
        int | None,
        opt("With --run: required for methods that train.", **whole_number(0, 2**63 - 1)),
    ] = None,
    recipe: Annotated[
        list[str],
        opt("With --run: recipe fields that override the method's.", metavar="KEY=VALUE ..."),
    ] = [],
    tasks: Tasks = ["sts"],
    analyses: Annotated[list[str], opt("With --run: what to measure.", **one_of(ANALYSES))] = [],
    mode: Mode = "test",
) -> None:
    """Train, score and analyse the runs of a plan, or one run.

    Results of a plan's runs that exist are not repeated; --run scores and analyses again. An
    interrupted training continues from its checkpoint. A training that diverges, or that its
    backbone makes impossible, is a result.
    """
    from bench.runs.paths import trained_file
    from bench.runs.plan import Plan, read_plan
    from bench.stages.activity import check_retry

    if run is None:
        plan = read_plan(suite / "plan.json")
        chosen = plan.chosen(ids or [], *_share(share))
    else:
        fields = _recipe(recipe)
        chosen = [_described(run, backbone, corpus, data, seed, fields, tasks, analyses)]
        common = {"suite": suite.name, "data": data, "corpus": corpus, "mode": mode}
        plan = Plan.model_validate({**common, "runs": chosen})
    if attempt > 1 and len(chosen) == 1:  # before it waits for a device
        check_retry(suite, chosen[0].id, stages)
    try:
        _process(plan, chosen, stages, suite, attempt, again=run is not None)
    except UserError:
        if ids and stages == ["train"]:
            # A training job of the workflow, which starts no scoring after it. Errors of the
            # scoring are in the status.
            trained = [run for run in chosen if trained_file(suite, run.id).exists()]
            with suppress(UserError):
                _process(plan, trained, ["score", "analyse"], suite, attempt)
        raise


def _recipe(fields: list[str]) -> dict[str, str]:
    recipe: dict[str, str] = {}
    for field in fields:
        key, equals, value = field.partition("=")
        if not equals:
            raise UserError(f"cannot read '{field}' after --recipe; write key=value")
        if key in recipe:
            raise UserError(f"--recipe has '{key}' twice; keep one")
        recipe[key] = value
    return recipe


def _described(
    text: str,
    backbone: str,
    corpus: str,
    data: str,
    seed: int | None,
    recipe: dict[str, str],
    tasks: list[str],
    analyses: list[str],
) -> PlannedRun:
    from bench.runs.resolve import resolve
    from bench.runs.run import PlannedRun

    run = resolve(text, backbone_name=backbone, corpus=corpus, data=data, seed=seed, recipe=recipe)
    if run.trained and run.seed is None:
        raise UserError(f"'{run.method}' is trained, so it needs a seed; add --seed 42")
    if run.trained and not run.corpus:
        raise UserError(f"'{run.method}' is trained, so it needs a corpus; add --corpus wiki1m")
    return PlannedRun(**dict(run), tasks=tuple(read_tasks(tasks)), analyses=tuple(analyses))


def _process(
    plan: Plan,
    runs: list[PlannedRun],
    stages: list[str],
    suite: Path,
    attempt: int,
    again: bool = False,
) -> None:
    """Take runs through stages in this process."""
    from bench.stages.device import lease
    from bench.stages.jobs import run_plan
    from bench.utils.progress import Progress

    with lease() as device, Progress(len(runs), "runs", "run") as progress:
        for run in run_plan(suite, plan, runs, device, stages, attempt > 1, again):
            progress.advance(note=run.id)
