"""The fast tests and all methods' scores on the toy data under several arithmetics.

    python -m tests.portable [--only NAME ...]          # a table; finished parts stay
    python -m tests.portable --quick                    # what continuous integration runs
    python -m tests.portable --numbers                  # measures what world.csv lacks

The inputs have to be in results/all-methods, where make portable puts them.
docs/explanation/toy-data.md#reference-scores has the rest.
"""

import argparse
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bench.datasets.metrics import METRICS
from bench.datasets.tasks import expand_tasks, scored_cells
from bench.judge.world import (
    BACKBONE_RUN,
    RUNS,
    SAME_SEED,
    SCORES,
    SEEDS,
    judge_world,
    seedless_identity,
)
from bench.report.formats import markdown
from bench.report.tables import world_in_short, world_table
from bench.results import provenance
from bench.results.records import read_scores
from bench.results.suite_results import read_results
from bench.runs import config
from bench.runs.plan import Plan
from bench.runs.run import Run, read_runs
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
    inherited = {key: value for key, value in os.environ.items() if key not in (*OLD, THREADS)}
    return inherited | {THREADS: "1"} | ARITHMETICS[name]


def threads_of(name: str) -> int:
    return int(ARITHMETICS[name].get(THREADS, 1))


def run_tests(name: str, folder: Path, chosen: Sequence[str] = ()) -> dict[str, Any]:
    """Run the fast tests: how many passed, and which failed."""
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "tests.xml"
    words = ["-m", "not slow and not nightly and not reported", "-n", str(CORES)]
    words += ["--dist", "worksteal", "--benchmark-disable", "-q", f"--junitxml={report}"]
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


def name_of(run: Run) -> tuple[str, str]:
    """A run, whatever its seed, as in `BACKBONE_RUN`."""
    return run.text, run.backbone


def run_scores(name: str, folder: Path, plan: Plan) -> None:
    """Train and score what is left of a plan."""
    folder.mkdir(parents=True, exist_ok=True)
    if not INPUTS.is_dir():
        raise UserError(f"{INPUTS} is missing; make portable makes it")
    if not (folder / "inputs").is_symlink():
        (folder / "inputs").symlink_to(INPUTS)
    plan.write(folder / "plan.json")
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


def table(out: Path) -> tuple[str, int]:
    """The results of each arithmetic in a folder, as Markdown; how many tests failed and scores are
    neither as on the reference machine nor as with another seed."""
    parts, faults = [], 0
    for name, settings in ARITHMETICS.items():
        folder = out / name
        if not (folder / "plan.json").is_file():
            continue
        tests, suite = read_json(folder / "tests.json"), read_results(folder)
        world = judge_world(suite)
        apart = [row for row in world if row.verdict.kind != "reproduced"]
        faults += len(tests["failed"]) + sum(row.verdict.kind != "consistent" for row in apart)
        kernels = suite.runs[0].provenance.arithmetic.cpu_capability
        head = f"{name} ({settings or 'nothing set'}; torch {kernels}): {world_in_short(world)}; "
        head += f"{tests['passed']} tests passed, {len(tests['failed'])} failed"
        parts.append("\n* ".join([f"## {head}\n", *tests["failed"]]))
        if apart:
            parts.append(markdown(world_table(apart).table, "Not as on the reference machine:"))
    return "\n\n".join(parts) + "\n", faults


def begin(folder: Path) -> None:
    """Remove what was measured with other code."""
    code = provenance.code()
    if (folder / "code.json").is_file() and read_json(folder / "code.json") != code:
        print(f"{folder.name}: was measured with other code, and is measured again")
        shutil.rmtree(folder)
    write_json(folder / "code.json", code)


# The world's numbers

CELL = [*BACKBONE_RUN, "task", "metric"]


def points(suite: Path, runs: Sequence[Run]) -> pd.DataFrame:
    """The test scores of runs: a row for each run, task, metric and seed."""
    rows = []
    for run in runs:
        for record in read_scores(suite / "scores" / f"{run.id}.json").records:
            if (record.split, record.aggregation) == ("test", "all"):
                place = [*name_of(run), record.task, record.metric]
                rows.append([*place, f"seed {run.seed or 1}", round(record.value, 3)])
    return pd.DataFrame(rows, columns=[*CELL, "seed", "value"])


def numbered(run: Run) -> set[tuple[str, str]]:
    """The tasks and metrics of which a run has a number."""
    return {
        (cell.task, cell.metric)
        for cell in scored_cells(expand_tasks(run.tasks))
        if (cell.split, cell.aggregation) == ("test", "all") and METRICS[cell.metric].least
    }


def lacking(plan: Plan, scores: Path = SCORES, runs: Path = RUNS) -> set[tuple[str, str]]:
    """The runs of a plan that have no numbers, or numbers of another identity or of other tasks."""
    if not scores.is_file():
        return {name_of(run) for run in plan.runs}
    identities = pd.read_csv(runs).set_index(BACKBONE_RUN)["identity"].to_dict()
    measured: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for run, backbone, task, metric in pd.read_csv(scores)[CELL].to_numpy():
        measured[run, backbone].add((task, metric))
    names = set()
    for run in plan.runs:
        name = name_of(run)
        if (identities.get(name), measured[name]) != (seedless_identity(run), numbered(run)):
            names.add(name)
    return names


def numbers_of(scores: pd.DataFrame, arithmetics: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of `SCORES` of the points of all seeds, and of those of a few seeds under each of
    `arithmetics`, the first of them `PLAIN`."""
    plain, *_ = frames = [frame.set_index([*CELL, "seed"])["value"] for frame in arithmetics]
    moved = pd.concat([(frame - plain).abs() for frame in frames])
    movements = moved.groupby([*BACKBONE_RUN, "metric"]).max()
    table = scores.pivot_table("value", CELL, "seed", sort=False).reindex(columns=SEEDS)
    tolerances = []
    for (*name, _, metric), values in table.iterrows():
        tolerance = max(ROOM * movements[*name, metric], METRICS[metric].least)
        tolerance *= SAME_SEED if values.count() > 1 else 1
        tolerances.append(round(tolerance, 3))
    table.insert(0, "tolerance", tolerances)
    return table.reset_index(["task", "metric"])


def write(
    suite: Path, arithmetics: Sequence[Path], scores: Path = SCORES, runs: Path = RUNS
) -> None:
    """Write the numbers that are lacking from a suite with all seeds, and from suites with a few
    seeds, each named after its arithmetic; those of runs that are not planned any more leave."""
    plan = read_runs(suite / "plan.json")
    first = {name_of(run): run for run in reversed(plan.runs)}  # of the first seed
    measured = lacking(plan, scores, runs)
    frames = []
    for folder in (suite, *sorted(arithmetics, key=lambda folder: folder.name != PLAIN)):
        made = read_runs(folder / "plan.json").runs
        frames.append(points(folder, [run for run in made if name_of(run) in measured]))
    origins = []
    for name in measured:
        provenance = read_scores(suite / "scores" / f"{first[name].id}.json").provenance
        device, arithmetic = provenance.device, provenance.arithmetic
        processor = f"{device.name} ({arithmetic.cpu_capability}, {device.threads} thread)"
        code, torch = provenance.code.commit, provenance.versions["torch"]
        identity = seedless_identity(first[name])
        origins.append([*name, identity, code, processor, torch, provenance.date])
    columns = [*BACKBONE_RUN, "identity", "commit", "processor", "torch", "date"]
    fresh = pd.DataFrame(origins, columns=columns).set_index(BACKBONE_RUN)
    for path, table in (scores, numbers_of(frames[0], frames[1:])), (runs, fresh):
        if path.is_file():
            old = pd.read_csv(path).set_index(BACKBONE_RUN)
            table = pd.concat([old[~old.index.isin(measured)], table])
        table = pd.concat([table.loc[[name]] for name in dict.fromkeys(map(name_of, plan.runs))])
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
    if arguments.numbers:
        measure_numbers(arguments.only)
        return 0
    names, out, tests = arguments.only, OUT, []
    if arguments.quick:
        names, out, tests = ["oldest"], OUT / "quick", QUICK_TESTS
        shutil.rmtree(out, ignore_errors=True)
    for name in names:
        folder, plan = out / name, plan_of(name)
        begin(folder)
        if not (folder / "tests.json").is_file():
            print(f"{name}: tests", flush=True)
            write_json(folder / "tests.json", run_tests(name, folder, tests))
        if arguments.quick:
            few = [run for run in plan.runs if run.backbone == "toy-bert" and run.seed in (None, 1)]
            runs = [run for run in few if run.method in QUICK_RUNS]
            plan = plan.model_copy(update={"runs": runs})
        run_scores(name, folder, plan)
    text, faults = table(out)
    (out / "portable.md").write_text(text, encoding="utf-8")
    print(text)
    return int(faults > 0)


if __name__ == "__main__":
    try:
        with interrupts.handle_signals():  # its processes end with it
            sys.exit(main())
    except (UserError, interrupts.Stopped) as error:
        sys.exit(f"error: {error}")
