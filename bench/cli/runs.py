"""Commands for the runs of a suite: plan them, make them, see how far they are, fetch inputs."""

from __future__ import annotations

import shlex
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Annotated

from bench.cli.parameters import (
    CORPORA_HELP,
    DATA_HELP,
    Mode,
    SuiteFolder,
    Tasks,
    Yes,
    arg,
    command,
    one_of,
    opt,
    parse_tasks,
)
from bench.cli.start import DEVICES, RESULTS, start
from bench.runs import ANALYSES, STAGES
from bench.utils.errors import UserError, did_you_mean, errors_of

Stages = Annotated[list[str], opt("Only these stages.", **one_of(STAGES))]


@command()
def plan(
    config: Annotated[Path | None, opt("A configuration.", "FILE.yaml")] = None,
    suite: Annotated[str | None, opt("A suite of the project: config/NAME.yaml.", "NAME")] = None,
    seeds: Annotated[int | None, opt("Seeds 1 to N, not the configuration's.", "N", min=1)] = None,
    out: Annotated[Path | None, opt("Write the plan here.", "FILE.json")] = None,
    lost: Annotated[
        bool, opt("With --out: the plan there is lost; rows with scores get no planned seeds.")
    ] = False,
    device: Annotated[str | None, opt("Predict hours on it, and disk.", **one_of(DEVICES))] = None,
    contamination: Annotated[
        bool, opt("Count test items that stand in corpora and dev sets.", name="--contamination")
    ] = False,
) -> None:
    """Check a configuration, plan its suite, predict hours and disk, or count contamination.

    Without further options it is only checked. The plan lists all runs of the suite with their
    settings. The configuration is given by one of --config and --suite.
    """
    from bench.report.formats import rendered
    from bench.runs import config as configurations

    if (config is None) == (suite is None):
        raise UserError("give exactly one of --config, --suite")
    file = config or _shipped(suite or "")
    content = configurations.load(file)
    if seeds:
        content = configurations.reseeded(content, range(1, seeds + 1))
    with errors_of(f"configuration {file}"):
        planned = configurations.plan(content)
    if out:
        planned = planned.write(out, lost)
    if device:
        from bench.stages.cost import forecast, work_of

        costs = forecast(planned, work_of(planned.runs), device, RESULTS)
        print(rendered("cost.txt", **costs))
    if contamination:
        from bench.stages.contamination import report as report_contamination

        print(report_contamination(planned))
    print(rendered("planned.txt", plan=planned))


@command(context_settings={"ignore_unknown_options": True})
def run(
    suite: Annotated[str, arg("A configuration, or a suite of the project.", "FILE.yaml")],
    options: Annotated[list[str] | None, arg("An option or a target.", "SNAKEMAKE_OPTION")] = None,
    yes: Yes = False,
) -> int:
    """Run a suite in the working folder.

    Prints hours, disk and device, and asks if it is long. Starts Snakemake, whose options and
    targets can follow: --cores 2, --resources gpu=8, -n to only plan. Results are in results/NAME
    and figures/NAME; the same command again continues.
    """
    from bench.runs import config as configurations

    if suite.startswith("-"):
        raise UserError(f"name the configuration before {suite}: run FILE.yaml {suite} ...")
    # A name without a suffix is of a shipped suite, unless a file here has that name.
    file = Path(suite) if Path(suite).suffix or Path(suite).is_file() else _shipped(suite)
    # Checked here first: Snakemake would add a traceback to an error. It also prints the warnings.
    with errors_of(f"configuration {file}"), redirect_stderr(StringIO()):
        suite_plan = configurations.plan(
            configurations.validate(configurations.read(file), file.parent)
        )
        suite_plan.after(RESULTS / suite_plan.suite / "plan.json")
    return start(file, suite_plan, options or [], yes)


def _shipped(suite: str) -> Path:
    """The configuration of a suite that is shipped with the project."""
    from bench.runs import SUITES

    shipped = {path.stem: path for path in SUITES.glob("*.yaml")}
    if suite not in shipped:
        raise UserError(
            f"unknown suite '{suite}'{did_you_mean(suite, shipped)}; name the file of another"
        )
    return shipped[suite]


@command("status")
def show_status(
    suite: SuiteFolder,
    as_json: Annotated[bool, opt("Print everything as JSON.", name="--json")] = False,
) -> None:
    """Show how far a suite is.

    Counts the runs done, running, failed and left, and predicts the hours left. Each failed run has
    its last error and its log. Works while a workflow runs.
    """
    import json
    from dataclasses import asdict

    from bench.report.formats import rendered
    from bench.stages.status import status

    suite_status = status(suite)
    if as_json:
        print(json.dumps(asdict(suite_status), indent=1))
    else:
        print(rendered("status.txt", **vars(suite_status)), end="")


@command()
def train(
    method: Annotated[str, arg("method[key=value,...]+ingredient@paper|official.", "METHOD")],
    backbone: Annotated[str, arg("Name or folder; some methods have none.", "BACKBONE")] = "none",
    suite: SuiteFolder = Path("results/by-hand"),
    corpus: Annotated[str, opt(f"{CORPORA_HELP}.", "NAME")] = "",
    data: Annotated[str, opt(f"{DATA_HELP}.", "NAME")] = "senteval",
    seed: Annotated[int | None, opt("Needed by a training.", "N", min=0)] = None,
    recipe: Annotated[list[str], opt("Fields of the recipe.", "KEY=VALUE ...")] = [],
    tasks: Tasks = ["sts"],
    analyses: Annotated[list[str], opt("What to measure.", **one_of(ANALYSES))] = [],
    mode: Mode = "test",
    stages: Stages = list(STAGES),
) -> None:
    """Train, score and analyse one run, and print its scores.

    A trained run is not trained again, and an interrupted training continues from its checkpoint;
    scores and analyses are made again. A training that diverges, or that its backbone makes
    impossible, is a result. show --suite has the scores of all runs by hand.
    """
    from bench.cli.evaluate import score_tables
    from bench.results.records import read_scores
    from bench.runs.paths import result_file
    from bench.runs.plan import Plan
    from bench.runs.resolve import resolve
    from bench.runs.run import Run
    from bench.runs.text import parse
    from bench.stages.jobs import run_by_hand

    # Fields are read as in the brackets of a method's text, with the same messages.
    ((_, fields),), _ = parse(f"recipe[{','.join(recipe)}]")
    run = resolve(
        method, backbone_name=backbone, corpus=corpus, data=data, seed=seed, recipe=fields
    )
    if run.trained and (seed is None or not run.corpus):
        raise UserError(
            f"'{run.method}' is trained, so it needs a corpus and a seed; "
            "add --corpus wiki1m --seed 42"
        )
    planned_run = dict(run) | {"tasks": parse_tasks(tasks), "analyses": analyses}
    common = {
        "suite": suite.name,
        "data": data,
        "corpus": corpus,
        "mode": mode,
        "runs": [planned_run],
    }
    is_shown = run_by_hand(Plan[Run].model_validate(common), suite, stages)
    if "score" in stages:
        file = result_file(suite, run.id, "score")
        records = read_scores(file).as_written()["records"]
        if records:  # none of a training that diverged
            print(score_tables({method: records}, data=data, mode=mode))
        print(f"\nScores: {file}")
        if is_shown:
            print(f"Show them again: sentbench show --suite {shlex.quote(str(suite))}")


@command()
def job(
    suite: SuiteFolder,
    ids: Annotated[list[str], arg("Runs of the plan; by default all.", "ID")] = [],
    stages: Stages = list(STAGES),
    attempt: Annotated[int, opt("From 2 on, no run that failed for good.", "N", min=1)] = 1,
) -> None:
    """Train, score and analyse runs of a plan, as the workflow does.

    Results that exist are not repeated. An interrupted training continues from its checkpoint. A
    training that diverges, or that its backbone makes impossible, is a result.
    """
    from bench.stages.jobs import run_job

    run_job(suite, ids, stages, retry=attempt > 1)


@command()
def fetch(
    kind: Annotated[str, arg("What the input is.", **one_of(["data", "corpus", "backbone"]))],
    name: Annotated[
        str, arg(f"Data: {DATA_HELP}. Corpus: {CORPORA_HELP}. Or a backbone's name.", "NAME")
    ],
    suite: SuiteFolder,
    out: Annotated[Path, opt("Where the description of the input is written.", "FILE.json")],
    tasks: Annotated[list[str], opt("For data: tasks that will be scored.", "NAME ...")] = [],
    data: Annotated[str, opt("For a corpus derived from data: these.", "NAME")] = "senteval",
) -> None:
    """Fetch and verify one input of a suite, and describe it."""
    from bench.runs import paths
    from bench.utils.files import write_json

    write_json(out, paths.describe_input(kind, name, suite, parse_tasks(tasks), data))
