"""Commands for the runs of a suite: plan, train, score, analyse, and many at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench.cli.parameters import (
    Backbone,
    Command,
    Corpus,
    Method,
    Mode,
    Recipe,
    RunData,
    Seed,
    Suite,
    Tasks,
    exactly_one,
    one_of,
    read_tasks,
)
from bench.results.records import ANALYSES, STAGES
from bench.utils.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from bench.runs.run import Run

MAX_SEEDS = 10_000  # of a plan; more is a typing error

app = typer.Typer()


def _resolve(
    method: str, backbone: str, corpus: str, data: str, seed: int | None, fields: list[str]
) -> Run:
    from bench.runs.resolve import resolve

    recipe: dict[str, Any] = {}
    for field in fields:
        key, equals, value = field.partition("=")
        if not equals:
            raise UserError(f"cannot read '{field}' after --recipe; write key=value")
        if key in recipe:
            raise UserError(f"--recipe has '{key}' twice; keep one")
        recipe[key] = value
    run = resolve(
        method, backbone_name=backbone, corpus=corpus, data=data, seed=seed, recipe=recipe
    )
    if run.trained and run.seed is None:
        raise UserError(f"'{run.text}' is trained, so it needs a seed; add --seed 42")
    return run


@app.command(cls=Command)
def train(
    method: Method,
    backbone: Backbone,
    corpus: Corpus,
    data: RunData,
    suite: Suite,
    seed: Seed = None,
    recipe: Recipe = [],
) -> None:
    """Train one run.

    A run whose training has finished is not trained again. An interrupted training continues from
    its checkpoint.
    """
    from bench.runs import paths
    from bench.stages import gpu_lease
    from bench.stages.jobs import train_run
    from bench.utils.files import write_json

    run = _resolve(method, backbone, corpus, data, seed, recipe)
    if not run.trained:
        raise UserError(f"'{run.text}' has no training; use the command score")
    with gpu_lease.lease() as device:
        result = train_run(run, suite, device)
    write_json(paths.trained_file(suite, run.id), result)
    print(f"{run.id}: {result['outcome']['status']}")


@app.command(cls=Command)
def score(
    method: Method,
    backbone: Backbone,
    corpus: Corpus,
    data: RunData,
    suite: Suite,
    seed: Seed = None,
    recipe: Recipe = [],
    tasks: Tasks = ["sts"],
    mode: Mode = "test",
) -> None:
    """Score one run on the suite's tasks."""
    from bench.runs import paths
    from bench.stages import gpu_lease
    from bench.stages.jobs import score_run

    run = _resolve(method, backbone, corpus, data, seed, recipe)
    with gpu_lease.lease() as device:
        score_run(run, suite, read_tasks(tasks), mode, paths.scores_file(suite, run.id), device)


@app.command(cls=Command)
def analyse(
    method: Method,
    backbone: Backbone,
    corpus: Corpus,
    data: RunData,
    suite: Suite,
    analyses: Annotated[list[str], typer.Option(**one_of(ANALYSES), help="What to measure.")],
    seed: Seed = None,
    recipe: Recipe = [],
) -> None:
    """Measure properties of one run's encoder other than scores.

    Examples are alignment and uniformity, or the similarity of layers and tokens.
    """
    from bench.runs import paths
    from bench.stages import gpu_lease
    from bench.stages.jobs import analyse_run

    run = _resolve(method, backbone, corpus, data, seed, recipe)
    with gpu_lease.lease() as device:
        analyse_run(run, suite, analyses, paths.analyses_file(suite, run.id), device)


@app.command(cls=Command)
def plan(
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.yaml", help="A configuration.")
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A suite shipped with the project: config/NAME.yaml."),
    ] = None,
    text: Annotated[
        str | None, typer.Option("--json", metavar="TEXT", help="A configuration as JSON text.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", help="Seeds 1 to N instead of those of the configuration."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write the plan here.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Predict the hours on an a100, h100, h200, or on the cpu of this machine.",
        ),
    ] = None,
    gpus: Annotated[
        int, typer.Option(metavar="N", help="Number of devices that share the runs.")
    ] = 1,
) -> None:
    """Write the plan of a suite, or predict its duration.

    The plan lists all runs of the suite with their settings. The configuration is given by exactly
    one of --config, --suite and --json.
    """
    from bench.runs import config as configurations
    from bench.utils.files import write_json

    exactly_one(config=config, suite=suite, json=text)
    try:
        content = (
            json.loads(text)
            if text is not None
            else configurations.load(config or _shipped(suite or ""))
        )
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(
            f"--json is not JSON: {error}; write the text itself, or name a file with --config"
        ) from None
    configurations.validate(content)
    if seeds is not None and not 1 <= seeds <= MAX_SEEDS:
        raise UserError(f"--seeds is {seeds}; write how many, 1 to {MAX_SEEDS}")
    if not (out or device):
        raise UserError(
            "plan has nothing to do; add --out FILE.json to write it, or --device NAME to predict hours"
        )
    if seeds:
        content = configurations.reseeded(content, range(1, seeds + 1))
    if out:
        write_json(out, configurations.plan(content))
    if device:
        from bench.runs.cost import report

        print(report(content, configurations.planned(content), device, gpus, Path("results")))


def _shipped(suite: str) -> Path:
    """The configuration of a suite that is shipped with the project."""
    from bench.runs import config

    shipped = {
        path.stem: path for path in config.SCHEMA.parent.glob("*.yaml") if path != config.SCHEMA
    }
    if suite not in shipped:
        hint = did_you_mean(suite, shipped)
        raise UserError(f"unknown suite '{suite}'{hint}; name the file of another with --config")
    return shipped[suite]


@app.command(cls=Command)
def runs(
    suite: Suite,
    share: Annotated[
        str, typer.Option(metavar="K/N", help="Every N-th run, from the K-th on.")
    ] = "1/1",
    text: Annotated[
        str | None,
        typer.Option(
            "--json", metavar="TEXT", help="A plan as JSON text, instead of the suite's plan.json."
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ID ...", help="Only these runs of the plan.")
    ] = None,
    stages: Annotated[list[str], typer.Option(**one_of(STAGES), help="Only these stages.")] = list(
        STAGES
    ),
    together: Annotated[
        int, typer.Option(metavar="N", help="Number of runs that share the device.")
    ] = 1,
) -> int:
    """Train, score and analyse runs of a plan, without a workflow.

    All runs are processed in this process, or several at once with --together.
    """
    from bench.results.readers import read_plan
    from bench.stages import gpu_lease
    from bench.stages.jobs import planned, run_plan
    from bench.utils.progress import Progress

    words = share.split("/")
    if (
        len(words) != 2
        or not all(word.isdecimal() for word in words)
        or not 1 <= int(words[0]) <= int(words[1])
    ):
        raise UserError(f"--share is '{share}'; write k/n with 1 <= k <= n")
    if together < 1:
        raise UserError(
            f"--together is {together}; write how many runs share the device, at least 1"
        )
    try:
        content = json.loads(text) if text else read_plan(suite / "plan.json")
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(
            f"--json is not JSON: {error}; write the text itself, not a file's name"
        ) from None
    entries = planned(content, int(words[0]), int(words[1]), only or [])
    with gpu_lease.lease() as device:
        if (processes := min(together, len(entries))) > 1:
            from bench.stages.together import run_together

            common = [
                "runs",
                "--suite",
                str(suite),
                "--stages",
                *stages,
                *(["--json", text] if text else []),
                "--only",
            ]
            return run_together(
                [
                    [*common, *(entry["id"] for entry in entries[first::processes])]
                    for first in range(processes)
                ]
            )
        with Progress(len(entries), "runs", "run") as progress:
            for run in run_plan(suite, content, entries, device, stages):
                progress.advance(note=run.id)
    return 0
