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
    RESULTS,
    Configuration,
    Mode,
    Suite,
    SuiteOption,
    Tasks,
    Yes,
    arg,
    command,
    one_of,
    opt,
    parse_tasks,
)
from bench.cli.start import DEVICES, start
from bench.runs import ANALYSES, STAGES
from bench.utils.errors import UserError, errors_of

Stages = Annotated[list[str], opt("Only these stages.", **one_of(STAGES))]


@command(epilog="Example: sentbench plan paper --device h200")
def plan(
    file: Configuration,
    out: Annotated[Path | None, opt("Write the plan to this file.", "FILE.json")] = None,
    lost: Annotated[
        bool,
        opt(
            "With --out, write a lost plan again. All seeds of rows with scores then count as "
            "added.",
            name="--lost",
        ),
    ] = False,
    device: Annotated[
        str | None, opt("Predict the hours on this device, and the disk space.", **one_of(DEVICES))
    ] = None,
    contamination: Annotated[
        bool,
        opt("Count the test items that are in corpora and dev sets.", name="--contamination"),
    ] = False,
) -> None:
    """Check a suite's configuration, or plan its runs.

    Without options, the configuration is only checked. The plan lists all runs of the suite with
    their settings.
    """
    from bench.report.formats import rendered
    from bench.runs import config as configurations

    content = configurations.load(file)
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


@command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example: sentbench run smoke --cores 2",
)
def run(
    file: Configuration,
    options: Annotated[
        list[str], arg("Options and targets of Snakemake.", "SNAKEMAKE_OPTION")
    ] = [],
    yes: Yes = False,
) -> int:
    """Run a suite in the working folder.

    This command prints hours, disk and device, asks if it is long, and starts Snakemake. Options of
    Snakemake can follow: --cores 2, --resources gpu=8, or -n to see what would run. Results are in
    results/NAME and figures/NAME. To continue an interrupted suite, give the same command again.
    """
    from bench.runs import config as configurations

    # Checked here first: Snakemake would add a traceback to an error. It also prints the warnings.
    content = configurations.load(file)
    with errors_of(f"configuration {file}"), redirect_stderr(StringIO()):
        suite_plan = configurations.plan(content)
        suite_plan.after(RESULTS / suite_plan.suite / "plan.json")
    return start(file, suite_plan, options, yes)


@command("status", epilog="Example: sentbench status paper")
def show_status(suite: Suite) -> None:
    """Show how far a suite is.

    The command counts the runs that are done, running, failed and left, predicts the hours left,
    and shows the last error and the log of each failed run. It works while a workflow runs.
    """
    from bench.report.formats import rendered
    from bench.stages.status import status

    print(rendered("status.txt", **vars(status(suite))), end="")


@command(epilog="Example: sentbench train sscl toy-bert --corpus world --data world --seed 1")
def train(
    method: Annotated[
        str, arg("A method, as method[key=value,...]+ingredient@paper or @official.", "METHOD")
    ],
    backbone: Annotated[
        str, arg("Its backbone, by name or folder. Some methods need none.", "BACKBONE")
    ] = "none",
    suite: SuiteOption = RESULTS / "by-hand",
    corpus: Annotated[str, opt(f"The training text: {CORPORA_HELP}.", "NAME")] = "",
    data: Annotated[str, opt(f"The evaluation data: {DATA_HELP}.", "NAME")] = "senteval",
    seed: Annotated[int | None, opt("The seed. Methods that train need one.", "N", min=0)] = None,
    recipe: Annotated[
        list[str], opt("Fields of the recipe, such as batch_size=128.", "KEY=VALUE ...")
    ] = [],
    tasks: Tasks = ["sts"],
    analyses: Annotated[
        list[str], opt("Further measurements of the encoder.", **one_of(ANALYSES))
    ] = [],
    mode: Mode = "test",
    stages: Stages = list(STAGES),
) -> None:
    """Train, score and analyse one run, and print its scores.

    A run that is trained is not trained again, but scored and analysed again. An interrupted
    training continues from its checkpoint. If a training diverges or its backbone makes it
    impossible, this is recorded as its result. sentbench show --suite by-hand compares the scores
    of all such runs.
    """
    from bench.cli.evaluate import score_tables
    from bench.results.records import ScoredEncoder, read_scores
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
            print(score_tables([ScoredEncoder(method, records)], data=data, mode=mode))
        print(f"\nScores: {file}")
        if is_shown:
            print(f"Show them again: sentbench show --suite {shlex.quote(str(suite))}")


@command(epilog="Example: sentbench job --suite smoke --stages score")
def job(
    suite: SuiteOption,
    ids: Annotated[list[str], arg("Runs of the plan. By default all.", "ID")] = [],
    stages: Stages = list(STAGES),
    attempt: Annotated[
        int,
        opt("From attempt 2 on, runs that cannot succeed are not tried again.", "N", min=1),
    ] = 1,
) -> None:
    """Train, score and analyse runs of a plan.

    The workflow starts this command. Results that exist are not made again, and an interrupted
    training continues from its checkpoint.
    """
    from bench.stages.jobs import run_job

    run_job(suite, ids, stages, retry=attempt > 1)


@command(epilog="Example: sentbench fetch corpus wiki1m --suite paper --out corpus.json")
def fetch(
    kind: Annotated[str, arg("The kind of input.", **one_of(["data", "corpus", "backbone"]))],
    name: Annotated[
        str,
        arg(f"Data: {DATA_HELP}. Corpus: {CORPORA_HELP}. Backbone: its name or folder.", "NAME"),
    ],
    suite: SuiteOption,
    out: Annotated[Path, opt("Write the description of the input to this file.", "FILE.json")],
    tasks: Annotated[list[str], opt("With data, the tasks that will be scored.", "NAME ...")] = [],
    data: Annotated[
        str, opt("With a corpus, the evaluation data from which it is made.", "NAME")
    ] = "senteval",
) -> None:
    """Download and verify one input of a suite.

    The workflow starts this command. It writes a description of the input.
    """
    from bench.runs import paths
    from bench.utils.files import write_json

    write_json(out, paths.describe_input(kind, name, suite, parse_tasks(tasks), data))
