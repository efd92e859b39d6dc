"""The fast tests and all methods' scores on the embedded world under several arithmetics.

    python -m tests.portable [--only NAME ...]          # a table; finished parts stay
    python -m tests.portable --quick                    # what continuous integration runs
    python -m tests.portable --numbers                  # measures what world.csv lacks

The inputs have to be in results/all-methods, where make portable puts them. docs/portability.md has
the rest.
"""

import argparse
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd

from bench.datasets.metrics import METRICS
from bench.datasets.tasks import expand_tasks, scored_cells
from bench.judge.world import (
    RUN,
    RUNS,
    SAME_SEED,
    SCORES,
    SEEDS,
    judge_world,
    seedless_identity,
)
from bench.judged.words import WORLD_WORDS
from bench.results import provenance
from bench.results.records import read_scores
from bench.results.suite_results import read_suite
from bench.runs import config
from bench.runs.plan import Plan, read_plan
from bench.runs.run import PlannedRun
from bench.utils import interrupts
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json

# The tolerance of a run without a seed, in the largest movement of any of its scores of a metric
# between arithmetics; `bench.datasets.metrics.Metric.least` is the smallest that counts.
ROOM = 2.0
PLAIN = "plain"  # the default arithmetic of the CPU, which the others are compared with
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
CONFIG, INPUTS = ROOT / "config" / "all-methods.yaml", ROOT / "results" / "all-methods" / "inputs"
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
    """The plan of all methods, under an arithmetic."""
    content = config.load(CONFIG)
    return config.plan(content.changed(recipe={**content.recipe, "threads": threads_of(name)}))


def name_of(run: PlannedRun) -> tuple[str, str]:
    """A run, whatever its seed, as in `RUN`."""
    return run.text, run.backbone


def run_scores(name: str, folder: Path, plan: Plan) -> None:
    """Train and score what is left of a plan."""
    folder.mkdir(parents=True, exist_ok=True)
    if not INPUTS.is_dir():
        raise UserError(f"{INPUTS} is missing; make portable makes it")
    if not (folder / "inputs").is_symlink():
        (folder / "inputs").symlink_to(INPUTS)
    plan.write(folder / "plan.json")
    if not plan.runs:
        return
    print(f"{name}: {len(plan.runs)} runs", flush=True)
    processes, count = [], min(len(plan.runs), max(1, CORES // threads_of(name)))
    command = [sys.executable, "-m", "bench", "job", "--suite", str(folder)]
    try:
        for share in range(count):
            ids = [run.id for run in plan.runs[share::count]]  # none of them needs another
            words = [*command, *ids, "--stages", "train", "score"]
            with open(folder / f"runs-{share}.log", "a") as log:
                options = {"cwd": ROOT, "env": environment(name), "stdout": log, "stderr": log}
                processes.append(subprocess.Popen(words, **options))
        statuses = [process.wait() for process in processes]
    finally:
        for process in processes:
            process.terminate()
            process.wait()
    if any(statuses):
        raise UserError(f"runs failed under {name}; {folder}/runs-*.log say why")


def judged(suite: Path) -> tuple[Counter[str], list[str]]:
    """How many scores of a suite have each verdict, and a line for each that is not as on the
    reference machine."""
    counts: Counter[str] = Counter()
    lines = []
    for row in judge_world(read_suite(suite)):
        counts[row.verdict.kind] += 1
        if row.verdict.kind != "reproduced":
            seed = "" if row.seed is None else f", seed {row.seed}"
            score = "no score" if row.score is None else f"{row.score:.2f}"
            place = f"{row.run} on {row.backbone}{seed}, {row.task} {row.metric}: {score}"
            word = WORLD_WORDS[row.verdict.kind]
            lines.append(f"{place} is {word} beside {row.number:.2f} ({row.verdict.reason})")
    return counts, lines


def faults_of(counts: Counter[str]) -> int:
    """How many scores are neither as on the reference machine nor as with another seed."""
    return counts.total() - counts["reproduced"] - counts["consistent"]


def table(tests: dict[str, dict[str, Any]], suites: dict[str, Path]) -> tuple[str, int]:
    """What each arithmetic gave, as Markdown; how many tests failed and scores were outside."""
    rows = []
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
            counts, lines = judged(suites[name])
            row["torch"] = read_suite(suites[name]).runs[0].provenance.arithmetic.cpu_capability
            row |= {"scores": counts.total(), "apart": counts["consistent"]}
            row["outside"] = faults_of(counts)
            failures += [f"* {name}: {line}" for line in lines]
            faults += faults_of(counts)
        rows.append(row)
    frame = pd.DataFrame(rows, dtype=object).fillna("")
    lines = [frame.to_markdown(index=False, disable_numparse=True), *failures]
    return "\n\n".join(lines) + "\n", faults


def quick() -> int:
    """A part of the tests and of all methods under the oldest arithmetic; 1 where it fails."""
    folder, name = OUT / "quick", "oldest"
    shutil.rmtree(folder, ignore_errors=True)
    found = run_tests(name, folder, QUICK_TESTS)
    told = f"{name}: {found['passed']} tests passed, {len(found['failed'])} failed"
    print(told, *found["failed"], sep="\n  ")
    plan = plan_of(name)
    runs = [run for run in plan.runs if run.backbone == "toy-bert" and run.seed in (None, 1)]
    runs = [run for run in runs if run.method in QUICK_RUNS]
    run_scores(name, folder / "scores", plan.model_copy(update={"runs": runs}))
    counts, lines = judged(folder / "scores")
    print(f"{name}: {counts['reproduced']} of {counts.total()} scores as on the reference machine")
    print(*lines, sep="\n")
    return int(bool(found["failed"]) or faults_of(counts) > 0)


def begin(folder: Path) -> None:
    """Remove what was measured with other code."""
    code = provenance.code()
    if (folder / "code.json").is_file() and read_json(folder / "code.json") != code:
        print(f"{folder.name}: was measured with other code, and is measured again")
        shutil.rmtree(folder)
    write_json(folder / "code.json", code)


# The world's numbers

Cells = dict[tuple[str, str], list[float]]  # points of the seeds of a run, by task and metric


def cells_of(suite: Path, runs: Sequence[PlannedRun]) -> Cells:
    """The test scores of the seeds of a run."""
    cells: Cells = defaultdict(list)
    for run in runs:
        for record in read_scores(suite / "scores" / f"{run.id}.json").records:
            if (record.split, record.aggregation) == ("test", "all"):
                cells[record.task, record.metric].append(round(record.value, 3))
    return cells


def by_name(plan: Plan) -> dict[tuple[str, str], list[PlannedRun]]:
    grouped: dict[tuple[str, str], list[PlannedRun]] = defaultdict(list)
    for run in plan.runs:
        grouped[name_of(run)].append(run)
    return grouped


def numbered(run: PlannedRun) -> set[tuple[str, str]]:
    """The tasks and metrics of which a run has a number."""
    return {
        (task, metric)
        for task, split, metric in scored_cells(expand_tasks(run.tasks))
        if split == "test" and metric in METRICS and METRICS[metric].least
    }


def lacking(plan: Plan, scores: Path = SCORES, runs: Path = RUNS) -> set[tuple[str, str]]:
    """The runs of a plan that have no numbers, or numbers of another identity or of other tasks."""
    if not scores.is_file():
        return set(by_name(plan))
    identities = pd.read_csv(runs).set_index(RUN)["identity"].to_dict()
    measured: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for run, backbone, task, metric in pd.read_csv(scores)[[*RUN, "task", "metric"]].to_numpy():
        measured[run, backbone].add((task, metric))
    names = set()
    for name, planned in by_name(plan).items():
        now = seedless_identity(planned[0]), numbered(planned[0])
        if (identities.get(name), measured[name]) != now:
            names.add(name)
    return names


def numbers_of(
    name: tuple[str, str], cells: Cells, arithmetics: Sequence[Cells]
) -> list[list[Any]]:
    """The rows of `SCORES` of a run: of `cells`, of all seeds, and of those of a few seeds under
    each of `arithmetics`, the first of them `PLAIN`."""
    movements: dict[str, float] = defaultdict(float)
    for measured in arithmetics:
        for (task, metric), values in measured.items():
            moved = [abs(a - b) for a, b in zip(values, arithmetics[0][task, metric], strict=True)]
            movements[metric] = max([movements[metric], *moved])
    rows = []
    for (task, metric), values in cells.items():
        tolerance = max(ROOM * movements[metric], METRICS[metric].least)
        tolerance *= SAME_SEED if len(values) > 1 else 1
        padding = [nan] * (len(SEEDS) - len(values))
        rows.append([*name, task, metric, round(tolerance, 3), *values, *padding])
    return rows


def write(
    suite: Path, arithmetics: Sequence[Path], scores: Path = SCORES, runs: Path = RUNS
) -> None:
    """Write the numbers that are lacking from a suite with all seeds, and from suites with a few
    seeds, each named after its arithmetic; those of runs that are not planned any more leave."""
    plan = read_plan(suite / "plan.json")
    planned, measured = by_name(plan), lacking(plan, scores, runs)
    parts = sorted(arithmetics, key=lambda folder: folder.name != PLAIN)
    plans = [by_name(read_plan(folder / "plan.json")) for folder in parts]
    rows, origins = [], []
    for name in planned:
        if name in measured:
            cells = [cells_of(folder, by[name]) for folder, by in zip(parts, plans, strict=True)]
            rows += numbers_of(name, cells_of(suite, planned[name]), cells)
            made = read_scores(suite / "scores" / f"{planned[name][0].id}.json").provenance
            threads = f"{made.device.threads} thread"
            processor = f"{made.device.name} ({made.arithmetic.cpu_capability}, {threads})"
            code, torch = made.code.commit, made.versions["torch"]
            identity = seedless_identity(planned[name][0])
            origins.append([*name, identity, code, processor, torch, made.date])
    for path, columns, fresh in (
        (scores, [*RUN, "task", "metric", "tolerance", *SEEDS], rows),
        (runs, [*RUN, "identity", "commit", "processor", "torch", "date"], origins),
    ):
        table = pd.DataFrame(fresh, columns=columns).set_index(RUN)
        if path.is_file():
            old = pd.read_csv(path).set_index(RUN)
            table = pd.concat([old[~old.index.isin(measured)], table])
        table = pd.concat([table.loc[[name]] for name in planned])
        table.to_csv(path, lineterminator="\n")


def measure_numbers(arithmetics: Sequence[str]) -> None:
    """Measure the numbers that are lacking, over all seeds and under each arithmetic, and write
    them."""
    content = config.load(CONFIG)
    whole = config.plan(config.reseeded(content, range(1, len(SEEDS) + 1)))
    names = lacking(whole)
    print(
        "without numbers:", *(" on ".join(name) for name in sorted(names)), sep="\n  ", flush=True
    )
    begin(REFERENCE_RUNS)

    def part(plan: Plan) -> Plan:
        runs = [run for run in plan.runs if name_of(run) in names]
        return plan.model_copy(update={"runs": runs})

    run_scores(PLAIN, REFERENCE_RUNS / "seeds", part(whole))
    for name in arithmetics:
        run_scores(name, REFERENCE_RUNS / name, part(plan_of(name)))
    whole.write(REFERENCE_RUNS / "seeds" / "plan.json")
    write(REFERENCE_RUNS / "seeds", [REFERENCE_RUNS / name for name in arithmetics])


def main() -> int:
    described, names = __doc__.split("\n")[0], list(ARITHMETICS)
    parser = argparse.ArgumentParser(prog="python -m tests.portable", description=described)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--quick", action="store_true", help="some under the oldest arithmetic")
    part.add_argument("--numbers", action="store_true", help="measure what world.csv lacks")
    arguments = parser.parse_args()
    if arguments.quick:
        return quick()
    if arguments.numbers:
        measure_numbers(arguments.only)
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
