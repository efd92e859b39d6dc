"""The fast tests and the smoke suite's scores under several arithmetics of one processor.

    python -m tests.portable [--only NAME ...]          # a table; finished parts stay
    python -m tests.portable --quick                    # what continuous integration runs
    python -m tests.portable --reference SEEDS          # measures what the reference lacks

The smoke suite's inputs have to be in results/smoke, where make portable puts them.
docs/portability.md has the rest.
"""

import argparse
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bench.checks import regression
from bench.checks.regression import PLAIN, by_name, cells_of, identity_of, judged, name_of
from bench.datasets.tasks import expand_tasks, scored_cells
from bench.results import provenance
from bench.runs import config
from bench.runs.plan import Plan, read_plan
from bench.runs.run import PlannedRun
from bench.utils import interrupts
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json

# Each by what it sets. On other processors than x86-64 the variables change nothing.
THREADS = "OMP_NUM_THREADS"
OLD = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}
ARITHMETICS = {
    PLAIN: {},
    "oldest": OLD,
    "torch-default": {"ATEN_CPU_CAPABILITY": "default"},
    "torch-avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "mkl-compatible": {"MKL_CBWR": "COMPATIBLE"},
    "onednn-sse41": {"ONEDNN_MAX_CPU_ISA": "SSE41"},
    "two-threads": {THREADS: "2"},
}

# The part of both that notices another arithmetic soonest, in 100 seconds on two cores.
QUICK_TESTS = [
    *(f"tests/methods/test_{name}.py" for name in ("conformance", "consert", "flow", "whitening")),
    *(f"tests/evaluation/test_{name}.py" for name in ("classifier", "geometry")),
    *(f"tests/training/test_{name}.py" for name in ("mapped", "second_implementation")),
    "tests/models/test_packed_forward.py",
]
FLOW = "untrained[pooler=avg_first_last]+flow[source=world]"
QUICK_RUNS = ["untrained[pooler=avg]", FLOW, "simcse"]

ROOT = Path(__file__).resolve().parent.parent
SMOKE, REFERENCE = ROOT / "results" / "smoke", ROOT / "results" / "reference" / "smoke.json"
OUT, REFERENCE_RUNS = ROOT / "results" / "portable", ROOT / "results" / "reference-runs"
CORES = os.cpu_count() or 1


def environment(name: str) -> dict[str, str]:
    """The environment of an arithmetic; variables that the caller sets himself are left out."""
    own = {key: value for key, value in os.environ.items() if key not in (*OLD, THREADS)}
    return own | {THREADS: "1"} | ARITHMETICS[name]


def threads_of(name: str) -> int:
    return int(ARITHMETICS[name].get(THREADS, 1))


def run_tests(name: str, folder: Path, chosen: Sequence[str] = ()) -> dict[str, Any]:
    """Run the fast tests: how many passed, and which failed."""
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "tests.xml"
    words = ["-m", "not slow and not reported", "-n", str(CORES), "--dist", "worksteal"]
    words += ["--benchmark-disable", "-q", f"--junitxml={report}"]
    with open(folder / "tests.log", "w") as log:
        command = [sys.executable, "-m", "pytest", *words, *chosen]
        subprocess.run(command, cwd=ROOT, env=environment(name), stdout=log, stderr=log)
    passed, failed = 0, []
    for case in ElementTree.parse(report).iter("testcase"):
        marks = {child.tag for child in case} & {"skipped", "failure", "error"}
        passed += not marks
        if marks - {"skipped"}:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
    return {"passed": passed, "failed": failed}


def plan_of(name: str) -> Plan:
    """The smoke suite's plan, under an arithmetic."""
    content = config.load(ROOT / "config" / "smoke.yaml")
    return config.plan(content.changed(recipe={**content.recipe, "threads": threads_of(name)}))


def run_scores(name: str, folder: Path, plan: Plan, names: Collection[str] | None = None) -> None:
    """Train and score what is left of a plan, or of its runs with these names, with the smoke
    suite's inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (SMOKE / "inputs").is_dir():
        raise UserError(f"{SMOKE / 'inputs'} is missing; make portable makes it")
    if not (folder / "inputs").is_symlink():
        (folder / "inputs").symlink_to(SMOKE / "inputs")
    plan.write(folder / "plan.json")
    ids = [run.id for run in plan.runs if names is None or name_of(run) in names]
    if not ids:
        return
    print(f"{name}: {len(ids)} runs", flush=True)
    processes, count = [], max(1, CORES // threads_of(name))
    command = [sys.executable, "-m", "bench", "job", "--suite", str(folder)]
    command += [*ids, "--stages", "train", "score"]
    try:
        for share in range(1, count + 1):
            words = [*command, "--share", f"{share}/{count}"]
            with open(folder / f"runs-{share}.log", "a") as log:
                options = {"cwd": ROOT, "env": environment(name), "stdout": log, "stderr": log}
                processes.append(subprocess.Popen(words, **options))
        statuses = [process.wait() for process in processes]
    finally:
        for process in processes:
            process.terminate()
            process.wait()
    if any(statuses):
        raise UserError(f"the smoke suite failed under {name}; {folder}/runs-*.log say why")


def table(tests: dict[str, dict[str, Any]], suites: dict[str, Path]) -> tuple[str, int]:
    """What each arithmetic gave, as Markdown; how many tests failed and scores were outside."""
    known, rows = read_json(REFERENCE), []
    failures = [f"* {name}: `{test}`" for name, found in tests.items() for test in found["failed"]]
    faults = len(failures)
    for name, settings in ARITHMETICS.items():
        if name not in tests and name not in suites:
            continue
        by = " ".join(f"{key}={value}" for key, value in settings.items()) or "nothing"
        row = {"arithmetic": name, "set by": by}
        if name in tests:
            found = tests[name]
            row |= {"tests passed": found["passed"], "failed": len(found["failed"])}
        if name in suites:
            plan = read_plan(suites[name] / "plan.json")
            cells, made = cells_of(suites[name], plan.runs)
            row["torch"] = next(iter(made.values()))["arithmetic"]["cpu_capability"]
            places = list(judged(cells, known, REFERENCE))
            outside = sum(not low <= value <= high for *_, value, low, high in places)
            row |= {"scores": len(places), "outside": outside}
            faults += outside
        rows.append(row)
    frame = pd.DataFrame(rows, dtype=object).fillna("")
    lines = [frame.to_markdown(index=False, disable_numparse=True), *failures]
    return "\n\n".join(lines) + "\n", faults


def quick() -> int:
    """A part of the tests and of the smoke suite under the oldest arithmetic; 1 where it fails."""
    folder, name = OUT / "quick", "oldest"
    shutil.rmtree(folder, ignore_errors=True)
    found = run_tests(name, folder, QUICK_TESTS)
    told = f"{name}: {found['passed']} tests passed, {len(found['failed'])} failed"
    print(told, *found["failed"], sep="\n  ")
    plan = plan_of(name)
    runs = [run for run in plan.runs if run.backbone == "toy-bert" and run.seed in (None, 1)]
    runs = [run for run in runs if run.method in QUICK_RUNS]
    run_scores(name, folder / "scores", plan.model_copy(update={"runs": runs}))
    print(regression.check(folder / "scores", REFERENCE))
    return int(bool(found["failed"]))


def begin(folder: Path) -> None:
    """Remove what was measured with other code."""
    code = provenance.code()
    if (folder / "code.json").is_file() and read_json(folder / "code.json") != code:
        print(f"{folder.name}: was measured with other code, and is measured again")
        shutil.rmtree(folder)
    write_json(folder / "code.json", code)


# The reference


def known_of(reference: Path) -> dict[str, Any]:
    """A reference; without a file an empty one."""
    if reference.is_file():
        return read_json(reference)
    return {"runs": {}, "cells": {}, "arithmetics": {}}


def lacking(plan: Plan, reference: Path) -> set[str]:
    """The names of a plan's runs that a reference has to measure: it does not have them, or with
    another identity, other tasks, or another number of seeds. All of them if there is no file."""
    known = known_of(reference)
    names = set()
    for name, runs in by_name(plan).items():
        wanted = {
            f"{task} {metric}": len(runs)
            for task, split, metric in scored_cells(expand_tasks(runs[0].tasks))
            if split == "test" and metric in regression.LEAST
        }
        measured = {cell: len(values) for cell, values in known["cells"].get(name, {}).items()}
        identity = known["runs"].get(name, {}).get("identity")
        if (identity, measured) != (identity_of(runs[0]), wanted):
            names.add(name)
    return names


def write(suite: Path, arithmetics: Sequence[Path], reference: Path) -> None:
    """Update the reference of a suite with many seeds, and of suites with a few seeds, each named
    after its arithmetic.

    Runs that the reference lacks are read from the suites. The others stay as they are, and runs
    that are no longer planned are removed.
    """
    if PLAIN not in [folder.name for folder in arithmetics]:
        raise UserError(f"--only has no arithmetic '{PLAIN}', which the others are compared with")
    plan, known = read_plan(suite / "plan.json"), known_of(reference)
    planned, measured = by_name(plan), lacking(plan, reference)

    def joined(fresh: dict[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
        """The measured runs and the others, in the order of the plan."""
        whole = {name: value for name, value in old.items() if name not in measured} | fresh
        return {name: whole[name] for name in planned if name in whole}

    def measured_runs(folder: Path) -> list[PlannedRun]:
        runs = read_plan(folder / "plan.json").runs
        return [run for run in runs if name_of(run) in measured]

    def scores(folder: Path, old: Mapping[str, Any]) -> dict[str, Any]:
        fresh, _ = cells_of(folder, measured_runs(folder))
        rounded = {
            name: {cell: [round(value, 3) for value in values] for cell, values in cells.items()}
            for name, cells in fresh.items()
        }
        return joined(rounded, old)

    _, provenances = cells_of(suite, measured_runs(suite))
    origins = {
        name: {"identity": identity_of(planned[name][0]), "code": made["code"]}
        | {"processor": regression.processor_of(made)}
        | {"torch": made["versions"]["torch"], "date": made["date"]}
        for name, made in provenances.items()
    }
    old = {name: measure["cells"] for name, measure in known["arithmetics"].items()}
    content = {"runs": joined(origins, known["runs"]), "cells": scores(suite, known["cells"])}
    content["arithmetics"] = {
        folder.name: {"cells": scores(folder, old.get(folder.name, {}))} for folder in arithmetics
    }
    write_json(reference, content)


def measure_reference(seeds: int, arithmetics: Sequence[str]) -> None:
    """Measure what the reference lacks, over many seeds and under each arithmetic, and write it."""
    content = config.load(ROOT / "config" / "smoke.yaml")
    plan = config.plan(config.reseeded(content, range(1, seeds + 1)))
    names = lacking(plan, REFERENCE)
    print("the reference lacks:", *sorted(names) or ["nothing"], sep="\n  ", flush=True)
    begin(REFERENCE_RUNS)
    run_scores(PLAIN, REFERENCE_RUNS / "seeds", plan, names)
    for name in arithmetics:
        run_scores(name, REFERENCE_RUNS / name, plan_of(name), names)
    write(REFERENCE_RUNS / "seeds", [REFERENCE_RUNS / name for name in arithmetics], REFERENCE)


def main() -> int:
    described, names = __doc__.split("\n")[0], list(ARITHMETICS)
    parser = argparse.ArgumentParser(prog="python -m tests.portable", description=described)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--quick", action="store_true", help="some under the oldest arithmetic")
    meaning = "measure what the reference lacks, with so many seeds, and write it"
    part.add_argument("--reference", type=int, metavar="SEEDS", help=meaning)
    arguments = parser.parse_args()
    if arguments.quick:
        return quick()
    if arguments.reference:
        measure_reference(arguments.reference, arguments.only)
        return 0
    for name in arguments.only:
        folder = OUT / name
        begin(folder)
        if not (folder / "tests.json").is_file():
            print(f"{name}: tests", flush=True)
            write_json(folder / "tests.json", run_tests(name, folder))
        run_scores(name, folder, plan_of(name))
    tested = {name: OUT / name / "tests.json" for name in ARITHMETICS}
    tests = {name: read_json(file) for name, file in tested.items() if file.is_file()}
    suites = {name: OUT / name for name in ARITHMETICS if (OUT / name / "plan.json").is_file()}
    text, faults = table(tests, suites)
    (OUT / "portable.md").write_text(text, encoding="utf-8")
    print(text)
    return int(faults > 0)


if __name__ == "__main__":
    try:
        with interrupts.handle_signals():  # its processes end with it
            sys.exit(main())
    except (UserError, interrupts.Stopped) as error:
        sys.exit(f"error: {error}")
