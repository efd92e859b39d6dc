"""The fast tests and the smoke suite's scores under several arithmetics of one processor.

    python -m tests.portable [--only NAME ...] [--tests | --scores]     # a table; done parts stay
    python -m tests.portable --quick                            # what continuous integration runs
    python -m tests.portable --reference SEEDS                  # measures what the reference lacks

The smoke suite's inputs have to be in results/smoke, where make portable puts them.
docs/portability.md has the rest.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.checks.regression import (
    LEAST,
    PLAIN,
    cells_of,
    check,
    judged,
    metric_of,
    movements,
    name_of,
)
from bench.results import provenance
from bench.runs import config
from bench.runs.plan import Plan, read_plan
from bench.utils import interrupts
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from bench.utils.progress import Progress
from tests.support.reference import lacking, write

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
QUICK_RUNS = [
    "untrained[pooler=avg]",
    "untrained[pooler=avg_first_last]+flow[source=world]",
    "simcse",
]

ROOT = Path(__file__).resolve().parent.parent
SMOKE, REFERENCE = ROOT / "results" / "smoke", ROOT / "results" / "reference" / "smoke.json"
OUT, REFERENCE_RUNS = ROOT / "results" / "portable", ROOT / "results" / "reference-runs"
CORES = os.cpu_count() or 1
METRICS = tuple(LEAST)


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
    cases = list(ElementTree.parse(report).iter("testcase"))
    marks = [{child.tag for child in case} & {"skipped", "failure", "error"} for case in cases]
    failed = [
        f"{case.get('classname')}::{case.get('name')}"
        for case, mark in zip(cases, marks, strict=True)
        if mark - {"skipped"}
    ]
    return {"passed": marks.count(set()), "failed": failed}


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
    files = [folder / "scores" / f"{run}.json" for run in ids]
    processes, count = [], max(1, CORES // threads_of(name))
    command = [sys.executable, "-m", "bench", "job", "--suite", str(folder)]
    command += [*ids, "--stages", "train", "score"]
    done = sum(file.is_file() for file in files)
    with Progress(len(files), f"{name}, scores", "run", done) as progress:
        try:
            for share in range(1, count + 1):
                words = [*command, "--share", f"{share}/{count}"]
                with open(folder / f"runs-{share}.log", "a") as log:
                    options = {"cwd": ROOT, "env": environment(name), "stdout": log, "stderr": log}
                    processes.append(subprocess.Popen(words, **options))
            while any(process.poll() is None for process in processes):
                time.sleep(1)
                before, done = done, sum(file.is_file() for file in files)
                progress.advance(done - before)
        finally:
            for process in processes:
                process.terminate()
                process.wait()
    if any(process.returncode for process in processes):
        raise UserError(f"the smoke suite failed under {name}; {folder}/runs-*.log say why")


def kinds_of(folder: Path) -> dict[str, str]:
    """What decides how rounding shows in a run: whether something is trained, and what."""
    kinds = {}
    for run in read_json(folder / "plan.json")["runs"]:
        kind = "trained" if run["trained"] else "not trained"
        kinds[name_of(run)] = "flow" if "+flow" in run["method"] else kind
    return kinds


def row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def head(*names: str) -> list[str]:
    return [row(names), row("---" for _ in names)]


def table(tests: dict[str, dict[str, Any]], suites: dict[str, Path]) -> tuple[str, int]:
    """What each arithmetic gave, as Markdown; how many tests failed and scores were outside."""
    scored = {
        name: cells_of(folder, read_plan(folder / "plan.json").runs)
        for name, folder in suites.items()
    }
    known, faults = read_json(REFERENCE), 0
    columns = "arithmetic|set by|torch|tests passed|failed|scores|outside"
    lines = head(*columns.split("|"))
    for name, settings in ARITHMETICS.items():
        if name not in tests and name not in suites:
            continue
        found, capability, numbers = tests.get(name, {}), "", ["", ""]
        if name in scored:
            cells, made = scored[name]
            capability = next(iter(made.values()))["arithmetic"]["cpu_capability"]
            places = list(judged(cells, known, REFERENCE))
            outside = sum(not low <= value <= high for *_, value, low, high in places)
            numbers, faults = [str(len(places)), str(outside)], faults + outside
        by = " ".join(f"{key}={value}" for key, value in settings.items()) or "nothing"
        failed = len(found["failed"]) if found else ""
        passed = found.get("passed", "")
        lines.append(row([name, by, capability, passed, failed, *numbers]))
    failures = [f"* {name}: `{test}`" for name, found in tests.items() for test in found["failed"]]
    if failures:
        lines, faults = [*lines, "", "Failed:", "", *failures], faults + len(failures)
    if PLAIN in scored:
        told = f"The largest movement of a score from the one under `{PLAIN}`, in points:"
        cells = {name: {"cells": found} for name, (found, *_) in scored.items()}
        lines += ["", told, "", *moved(cells, kinds_of(suites[PLAIN]))]
    return "\n".join(lines) + "\n", faults


def moved(arithmetics: dict[str, Any], kinds: dict[str, str]) -> list[str]:
    """The largest movement of each metric, for each arithmetic and kind of run."""
    largest: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for name, run, cell, points in movements(arithmetics):
        if name != PLAIN:
            of_kind, metric = largest[name, kinds[run]], metric_of(cell)
            of_kind[metric] = max(of_kind.get(metric, 0.0), points)
    order = sorted(largest, key=lambda of: (list(ARITHMETICS).index(of[0]), of[1]))
    return head("arithmetic", "runs", *METRICS) + [
        row([*of, *(f"{largest[of][m]:.3f}" if m in largest[of] else "" for m in METRICS)])
        for of in order
    ]


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
    print(check(folder / "scores", REFERENCE))
    return int(bool(found["failed"]))


def begin(folder: Path) -> None:
    """Remove what was measured with other code."""
    code = provenance.code()
    if (folder / "code.json").is_file() and read_json(folder / "code.json") != code:
        print(f"{folder.name}: was measured with other code, and is measured again")
        shutil.rmtree(folder)
    write_json(folder / "code.json", code)


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
    options = {"--tests": "the tests alone", "--scores": "the scores alone, without a reference"}
    options |= {"--quick": "some of both under the oldest arithmetic"}
    part = parser.add_mutually_exclusive_group()
    for option, meaning in options.items():
        part.add_argument(option, action="store_true", help=meaning)
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
        if not arguments.scores and not (folder / "tests.json").is_file():
            print(f"{name}: tests", flush=True)
            write_json(folder / "tests.json", run_tests(name, folder))
        if not arguments.tests:
            run_scores(name, folder, plan_of(name))
    if arguments.scores:
        return 0
    tested = [name for name in ARITHMETICS if (OUT / name / "tests.json").is_file()]
    scored = [name for name in ARITHMETICS if (OUT / name / "plan.json").is_file()]
    tests = {name: read_json(OUT / name / "tests.json") for name in tested}
    suites = {name: OUT / name for name in scored}
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
