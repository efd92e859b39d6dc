"""Commands that check methods, devices and whole suites."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.parameters import Command, Suite, arg, exactly_one, opt, whole_number
from bench.utils.errors import UserError, did_you_mean

app = typer.Typer()


@app.command(cls=Command)
def reference(
    suite: Suite,
    reference: Annotated[
        Path | None,
        opt(
            "The reference distribution; by default results/reference/<suite>.json.",
            metavar="FILE.json",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check that the suite is within the reference.")
    ] = False,
    arithmetics: Annotated[
        list[Path] | None,
        opt(
            "Update the reference with the suite and these, one per arithmetic.",
            metavar="FOLDER ...",
        ),
    ] = None,
) -> None:
    """Check a suite against a reference, or update one.

    A reference is a distribution of scores over seeds and processors. An update keeps the runs that
    the reference already has. Exactly one of --check and --arithmetics is needed.
    """
    from bench.checks import regression

    exactly_one(check=check, arithmetics=arithmetics or None)
    if not reference:
        reference = Path("results", "reference", f"{suite.resolve().name}.json")
        if not reference.is_file():
            raise UserError(f"{reference} does not exist; name another file with --reference")
    if not arithmetics:
        print(regression.check(suite, reference))
    else:
        regression.write(suite, arithmetics, reference)


@app.command("check-method", cls=Command)
def check_method(file: Annotated[Path, arg("A file with methods.", metavar="FILE.py")]) -> int:
    """Check a file of methods against their contract.

    Prints one line per clause. The exit status is 1 if one does not hold.
    """
    from bench.checks.method_contract import check

    faults = 0
    for clause in check(file):
        print(clause, flush=True)
        faults += bool(clause.fault)
    print(f"{faults} {'fault' if faults == 1 else 'faults'}" if faults else "all hold")
    return int(faults > 0)


@app.command("gpu-day", cls=Command)
def gpu_day(
    parts: Annotated[
        list[str] | None,
        opt("Only these parts: losses, timing, graphs, classifiers, smoke.", metavar="PART ..."),
    ] = None,
    out: Annotated[Path, opt("The folder of the results.", metavar="FOLDER")] = Path(
        "results/gpu-day"
    ),
) -> int:
    """Test and measure everything on a GPU, in about 20 minutes.

    Compares losses and scores with those of processors, and times trainings of published shapes and
    classifiers. Prints a page with the results, which `plan` predicts from. Nothing is downloaded.
    The exit status is 1 if something failed.
    """
    from bench.checks.gpu_day import PARTS, Day, measure
    from bench.checks.gpu_page import page
    from bench.runs import config
    from bench.stages import gpu_lease

    for part in parts or ():
        if part not in PARTS:
            raise UserError(f"unknown part '{part}'{did_you_mean(part, PARTS)}")
    with gpu_lease.lease() as device:
        if device == "cpu":
            raise UserError("no GPU is visible; gpu-day tests and measures one")
        content = config.read(config.SUITES / "smoke.yaml")
        del content["stand_ins"]  # of tables; needs pandas, which a bare machine lacks
        suite = config.validate(content)
        plan = config.plan(suite, config.planned(suite))
        day = Day(out, plan, Path("results", "reference", "smoke.json"), device)
        faults = measure(day, parts or list(PARTS))
    print(page(out), *(f"fault: {fault}" for fault in faults), sep="\n")
    return int(bool(faults))


@app.command(cls=Command)
def timing(
    shape: Annotated[
        list[str],
        arg(
            "bert-base, bert-base-float32, bert-large, roberta-base, roberta-large, toy",
            metavar="SHAPE",
        ),
    ],
    steps: Annotated[int, opt("Steps to time, a multiple of 125.", **whole_number("steps"))] = 500,
) -> None:
    """Time training on published model shapes on this device.

    Uses random weights and generated sentences, so nothing is downloaded. 125 further steps before
    them are not timed.
    """
    from bench.checks.timing import find_shape, report, time_shape
    from bench.stages import gpu_lease

    shapes = {name: find_shape(name) for name in shape}
    with gpu_lease.lease() as device:
        for name, one in shapes.items():
            print(report(time_shape(name, one, steps, device)), flush=True)
