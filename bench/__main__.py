"""The command line: every rule of the DAG is one of these commands, usable by hand.

A user's mistake ends with one sentence and status 2, never with a traceback. Imports happen inside the command that
needs them.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.results.records import ANALYSES, STAGES
from bench.utils import interrupts
from bench.utils.errors import UserError, nearest
from bench.utils.version import __version__

if TYPE_CHECKING:
    from bench.runs.run import Run

MOST_SEEDS = 10_000  # of a plan; more is a slip

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with it


def _seed(word: str) -> int:
    if not word.isdecimal() or int(word) >= 2**63:
        raise UserError(f"--seed is '{word}', which cannot be; seeds are whole numbers from 0 on, below 2**63")
    return int(word)


def _suite(word: str) -> Path:
    if not word:  # the working folder, as a Path
        raise UserError("--suite is empty; name the suite's folder, results/<suite>, or . for the working folder")
    return Path(word)


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("method", help="method[key=value,...]+ingredient@paper|official")
    parser.add_argument("--backbone", required=True, help="a backbone by name, or a folder in Hugging Face format")
    parser.add_argument("--corpus", required=True, help="training corpus: world, wiki1m, wiki1m_fallback, or a file")
    parser.add_argument(
        "--data", required=True, help="evaluation data: world, senteval, or a folder that holds downstream/"
    )
    parser.add_argument("--seed", type=_seed, help="needed for what is trained")
    parser.add_argument(
        "--recipe", nargs="*", default=[], metavar="KEY=VALUE", help="recipe fields laid over the method's own"
    )
    parser.add_argument("--suite", type=_suite, required=True, help="the suite's folder, results/<suite>")


def _task_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tasks",
        nargs="+",
        default=["sts"],
        metavar="NAME",
        help="sts, transfer, probing, all (these three), xprobe, chinese, or names",
    )
    parser.add_argument(
        "--mode", choices=["test", "dev"], default="test", help="how classifiers are trained: as papers report, or fast"
    )


def _tasks(arguments: argparse.Namespace) -> list[str]:
    """Names of tasks, between spaces or commas."""
    return [name for word in arguments.tasks for name in word.split(",") if name]


def _run(arguments: argparse.Namespace) -> Run:
    from bench.runs.run import resolve

    recipe: dict[str, Any] = {}
    for item in arguments.recipe:
        key, equals, value = item.partition("=")
        if not equals:
            raise UserError(f"cannot read '{item}' after --recipe; write key=value")
        if key in recipe:
            raise UserError(f"--recipe has '{key}' twice; keep one")
        recipe[key] = value
    run = resolve(
        arguments.method,
        backbone_name=arguments.backbone,
        corpus=arguments.corpus,
        data=arguments.data,
        seed=arguments.seed,
        recipe=recipe,
    )
    if run.trained and run.seed is None:
        raise UserError(f"'{run.text}' is trained, so it needs a seed; add --seed 42")
    return run


def train(arguments: argparse.Namespace) -> None:
    """Train one run; a training that has ended is not repeated."""
    from bench.runs import paths
    from bench.stages import gpu_lease
    from bench.stages.jobs import train_run
    from bench.utils.files import write_json

    run = _run(arguments)
    if not run.trained:
        raise UserError(f"'{run.text}' is not trained; score it")
    with gpu_lease.lease() as device:
        result = train_run(run, arguments.suite, device)
    write_json(paths.trained_file(arguments.suite, run.id), result)
    print(f"{run.id}: {result['outcome']['status']}")


def score(arguments: argparse.Namespace) -> None:
    """Score a run on the suite's tasks."""
    from bench.runs import paths
    from bench.stages import gpu_lease
    from bench.stages.jobs import score_run

    run = _run(arguments)
    with gpu_lease.lease() as device:
        out = paths.scores_file(arguments.suite, run.id)
        score_run(run, arguments.suite, _tasks(arguments), arguments.mode, out, device)


def analyse(arguments: argparse.Namespace) -> None:
    """Measure what is no score of a run: alignment and uniformity, similarity of layers and tokens, ..."""
    from bench.runs import paths
    from bench.stages import gpu_lease
    from bench.stages.jobs import analyse_run

    run = _run(arguments)
    with gpu_lease.lease() as device:
        out = paths.analyses_file(arguments.suite, run.id)
        analyse_run(run, arguments.suite, arguments.analyses, out, device)


def runs(arguments: argparse.Namespace) -> int:
    """Train, score and analyse runs of a suite's plan, without a workflow: in this process, or several at once."""
    from bench.results.suite_results import read_plan
    from bench.stages import gpu_lease
    from bench.stages.jobs import planned, run_plan
    from bench.utils.progress import Progress

    words = arguments.share.split("/")
    if len(words) != 2 or not all(word.isdecimal() for word in words) or not 1 <= int(words[0]) <= int(words[1]):
        raise UserError(f"--share is '{arguments.share}'; write k/n with 1 <= k <= n")
    if arguments.together < 1:
        raise UserError(f"--together is {arguments.together}; write how many runs go at once, from 1 on")
    try:
        content = json.loads(arguments.json) if arguments.json else read_plan(arguments.suite / "plan.json")
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"--json is not JSON: {error}; write the text itself, not a file's name") from None
    entries = planned(content, int(words[0]), int(words[1]), arguments.only)
    with gpu_lease.lease() as device:
        if (several := min(arguments.together, len(entries))) > 1:
            from bench.stages.together import run_together

            common = ["runs", "--suite", str(arguments.suite), "--stages", *arguments.stages]
            common += [*(["--json", arguments.json] if arguments.json else []), "--only"]
            return run_together(
                [[*common, *(entry["id"] for entry in entries[first::several])] for first in range(several)]
            )
        with Progress(len(entries), "runs", "run") as progress:
            for run in run_plan(arguments.suite, content, entries, device, arguments.stages):
                progress.advance(note=run.id)
    return 0


def evaluate(arguments: argparse.Namespace) -> int:
    """Score any encoder, or several, print a table and write records."""
    from bench.cli.score_tables import compared, tables
    from bench.models.from_name import Model
    from bench.runs import paths
    from bench.stages import gpu_lease
    from bench.stages.jobs import score_model, score_models

    common = Model("", arguments.pooler, arguments.prompt, arguments.normalize)
    models = [Model.read(word, common) for word in arguments.model]
    if len(models) == 1:  # of several each says for itself what is wrong
        models[0].check()
    data = paths.data_folder(arguments.data, Path("."))  # which may have to be fetched
    tasks, mode, out = _tasks(arguments), arguments.mode, arguments.out
    with gpu_lease.lease() as device:
        if len(models) == 1:
            print(tables(score_model(models[0], None, tasks, mode, data, out, device)))
            return 0
        records, errors = score_models(models, tasks, mode, data, out, device)
    if table := compared(records):
        print(table)
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    return 2 if errors else 0


def verify(arguments: argparse.Namespace) -> int:
    """Compute results again from their encoders: status 0 if all are confirmed, 1 if one is not, 2 if one cannot be."""
    from contextlib import nullcontext

    from bench.checks.verify import verify as verify_result
    from bench.stages import gpu_lease

    status = 0
    with nullcontext("cpu") if arguments.device == "cpu" else gpu_lease.lease() as device:
        if arguments.device == "cuda" and device != "cuda":
            raise UserError("no GPU is visible; leave --device out, or write --device cpu")
        for result in arguments.result:
            try:
                found = verify_result(result, arguments.suite, arguments.data, device)
                print(found.report(), flush=True)
                status = max(status, int(not found.confirmed))
            except UserError as error:  # the others are verified all the same
                print(f"error: {error}", file=sys.stderr)
                status = 2
    return status


def crosscheck(arguments: argparse.Namespace) -> None:
    """Score an encoder by the original SentEval too, where it can be imported, and print both."""
    from bench.checks.original_senteval import crosscheck as compare
    from bench.runs import paths
    from bench.stages import gpu_lease

    data = paths.data_folder(arguments.data, Path("."))
    with gpu_lease.lease() as device:
        print(compare(arguments.model, arguments.pooler, _tasks(arguments), data, device))


def world(arguments: argparse.Namespace) -> None:
    """Generate the embedded world's data folder."""
    from bench.world import build

    build(arguments.out, seed=arguments.seed)


def pretrain(arguments: argparse.Namespace) -> None:
    """Pre-train a toy backbone on the embedded world."""
    from bench.world.toy_backbones import pretrain as pretrain_backbone

    pretrain_backbone(arguments.world, arguments.kind, arguments.out, seed=arguments.seed, threads=arguments.threads)


def word_vectors(arguments: argparse.Namespace) -> None:
    """Make toy word vectors of the embedded world, in GloVe's text format."""
    from bench.world.toy_word_vectors import make_vectors

    make_vectors(arguments.world, arguments.out)


def fetch(arguments: argparse.Namespace) -> None:
    """Make one of a suite's inputs present and verified, and write down what it is."""
    from bench.runs import paths
    from bench.utils.files import write_json

    described = paths.describe_input(arguments.kind, arguments.name, arguments.suite, _tasks(arguments), arguments.data)
    write_json(arguments.out, described)


def plan(arguments: argparse.Namespace) -> None:
    """Write what a suite consists of, or predict the hours that it takes on a device."""
    from bench.runs import config
    from bench.utils.files import write_json

    try:
        if arguments.json:
            content = json.loads(arguments.json)
        else:
            content = config.load(arguments.config or _configuration(arguments.suite))
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"--json is not JSON: {error}; write the text itself, or name a file with --config") from None
    config.validate(content)
    if arguments.seeds is not None and not 1 <= arguments.seeds <= MOST_SEEDS:
        raise UserError(f"--seeds is {arguments.seeds}; write how many, 1 to {MOST_SEEDS}")
    if not (arguments.out or arguments.device):
        raise UserError("plan has nothing to do; add --out FILE.json to write it, or --device NAME to predict hours")
    if arguments.seeds:
        content = config.reseeded(content, range(1, arguments.seeds + 1))
    if arguments.out:
        write_json(arguments.out, config.plan(content))
    if arguments.device:
        from bench.runs.cost import report

        print(report(content, config.planned(content), arguments.device, arguments.gpus, Path("results")))


def _configuration(suite: str) -> Path:
    """The file of a suite that comes with the project."""
    from bench.runs import config

    known = {path.stem: path for path in config.SCHEMA.parent.glob("*.yaml") if path != config.SCHEMA}
    if suite not in known:
        raise UserError(f"unknown suite '{suite}'{nearest(suite, known)}; another one is named by --config FILE")
    return known[suite]


def tables(arguments: argparse.Namespace) -> None:
    """Render every table of a suite."""
    from bench.report.tables import render_tables

    render_tables(arguments.suite, arguments.out)


def compare(arguments: argparse.Namespace) -> None:
    """Compare methods of a suite with one of them, seed by seed, beside the gains in print."""
    from bench.report.comparison_table import render_versus

    methods, backbones = arguments.method, arguments.backbone
    print(
        render_versus(arguments.suite, arguments.baseline, methods, backbones, arguments.out, arguments.figures), end=""
    )


def coverage(arguments: argparse.Namespace) -> None:
    """Say which printed numbers have a recipe, a place in a plan, a score of ours and a verdict."""
    from bench.report.coverage import CONFIGS, render_coverage

    if arguments.suite and arguments.config:
        raise UserError("--suite has a plan of its own; leave --config out, or name the configuration alone")
    print(render_coverage(arguments.suite, arguments.config or CONFIGS, arguments.out))


def figures(arguments: argparse.Namespace) -> None:
    """Render every figure of a suite."""
    from bench.report.figures import render_figures

    render_figures(arguments.suite, arguments.out)


def page(arguments: argparse.Namespace) -> None:
    """Render the page that links tables and figures."""
    from bench.report.page import render_page

    render_page(arguments.suite, arguments.figures, arguments.out)


def export(arguments: argparse.Namespace) -> None:
    """Write results of a suite in a format that others read: model folders, mteb's results, tables, TensorBoard."""
    from bench.export import export as export_suite

    for remark in export_suite(arguments.suite, arguments.what, arguments.out, arguments.run):
        print(f"note: {remark}", file=sys.stderr)
    print(arguments.out)


def reference(arguments: argparse.Namespace) -> None:
    """Write a suite's reference distribution, or check a suite against one."""
    from bench.checks.regression import check, write

    if arguments.check:
        print(check(arguments.suite, arguments.reference))
    else:
        write(arguments.suite, arguments.arithmetics, arguments.reference)


def audit(arguments: argparse.Namespace) -> None:
    """Check the printed numbers against themselves and each other."""
    from bench.report.audit import report, write
    from bench.reported.audit import findings

    found = findings()
    if arguments.out:
        write(found, arguments.out)
    print(report(found))


def check_method(arguments: argparse.Namespace) -> int:
    """Try on a file of methods what every method owes, a line each: status 1 if something does not hold."""
    from bench.checks.method_contract import check

    faults = 0
    for clause in check(arguments.file):
        print(clause, flush=True)
        faults += bool(clause.fault)
    print(f"{faults} {'fault' if faults == 1 else 'faults'}" if faults else "all hold")
    return int(faults > 0)


def gpu_smoke(arguments: argparse.Namespace) -> None:
    """Run a finished suite's runs on a real device, with the core's imports only."""
    from bench.checks.gpu_smoke import gpu_smoke as run_all

    run_all(arguments.suite, arguments.out)


def timing(arguments: argparse.Namespace) -> None:
    """Time the training of published shapes on this device: random weights, made-up sentences, nothing to fetch."""
    from bench.checks.timing import report, time_shape
    from bench.stages import gpu_lease

    with gpu_lease.lease() as device:
        for shape in arguments.shape:
            print(report(time_shape(shape, arguments.steps, device)), flush=True)


def _parser() -> tuple[argparse.ArgumentParser, Collection[str]]:
    """The parser of the command line, and the names of its commands."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Benchmark suite for unsupervised sentence embeddings.",
        epilog="python -m bench COMMAND --help says what a command takes; README.md has examples.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(function: Any, name: str | None = None) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name or function.__name__, help=function.__doc__.split("\n")[0], description=function.__doc__
        )
        added.set_defaults(function=function)
        return added

    _run_arguments(command(train))

    added = command(score)
    _run_arguments(added)
    _task_arguments(added)

    added = command(analyse)
    _run_arguments(added)
    added.add_argument(
        "--analyses", nargs="+", choices=ANALYSES, required=True, metavar="NAME", help=", ".join(ANALYSES)
    )

    added = command(evaluate)
    added.add_argument(
        "model",
        nargs="+",
        help="hub id, folder (Hugging Face, sentence-transformers, or of a run), or module:function; several with "
        "options of their own as MODEL[pooler=avg,prompt=query,normalize]",
    )
    added.add_argument("--pooler", help="needed where the model stores none")
    added.add_argument(
        "--prompt", metavar="NAME", help="of the model's own prompts; its default if left out, '' for none"
    )
    added.add_argument("--normalize", action="store_true", help="make vectors of length 1, which classifiers see")
    _task_arguments(added)
    added.add_argument(
        "--data", default="senteval", help="senteval (BENCH_DATA or the hub), or a folder that holds downstream/"
    )
    added.add_argument("--out", type=Path, required=True, help="FILE.json; of several models a folder")

    added = command(verify)
    added.add_argument("result", nargs="+", type=Path, help="results/<suite>/scores/<run>.json, or what evaluate wrote")
    added.add_argument("--suite", type=_suite, help="the folder that has the run's encoder, if not where RESULT lies")
    added.add_argument("--data", help="the data, if not where RESULT says")
    added.add_argument("--device", choices=["cpu", "cuda"], help="a GPU where there is one, if left out")

    added = command(crosscheck)
    added.add_argument("model", help="hub id, Hugging Face folder, or a folder of this suite's runs")
    added.add_argument("--pooler", help="needed where the model stores none")
    added.add_argument("--tasks", nargs="+", default=["sts"], metavar="NAME", help="as in evaluate")
    added.add_argument("--data", default="senteval", help="as in evaluate")

    added = command(world)
    added.add_argument("--out", type=Path, required=True)
    added.add_argument("--seed", type=_seed, default=0)

    added = command(pretrain)
    added.add_argument("--world", type=Path, required=True)
    added.add_argument("--kind", choices=["bert", "roberta", "chinese"], required=True)
    added.add_argument("--out", type=Path, required=True)
    added.add_argument("--seed", type=_seed, default=0)
    added.add_argument("--threads", type=int, default=1)

    added = command(word_vectors, "word-vectors")
    added.add_argument("--world", type=Path, required=True)
    added.add_argument("--out", type=Path, required=True, help="FILE.txt")

    added = command(fetch)
    added.add_argument("kind", choices=["data", "corpus", "backbone"])
    added.add_argument("name")
    added.add_argument("--tasks", nargs="*", default=[], metavar="NAME", help="of data: what will be scored on it")
    added.add_argument("--data", default="senteval", help="of a corpus that is made of the evaluation data: which")
    added.add_argument("--suite", type=_suite, required=True)
    added.add_argument("--out", type=Path, required=True)

    added = command(plan)
    source = added.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", type=Path)
    source.add_argument("--suite", metavar="NAME", help="a suite that comes with the project: config/NAME.yaml")
    source.add_argument("--json")
    added.add_argument("--seeds", type=int, help="take seeds 1 to N instead of the configuration's")
    added.add_argument("--out", type=Path, help="FILE.json")
    added.add_argument("--device", metavar="NAME", help="predict the hours on a100, h100, h200, or this machine's cpu")
    added.add_argument("--gpus", type=int, default=1, metavar="N", help="how many devices share the runs")

    added = command(runs)
    added.add_argument("--suite", type=_suite, required=True)
    added.add_argument("--share", default="1/1", metavar="K/N", help="every N-th run, from the K-th on")
    added.add_argument("--json", metavar="PLAN", help="the text of a plan, in place of the suite's plan.json")
    added.add_argument("--only", nargs="+", default=[], metavar="ID", help="these runs of the plan")
    added.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    added.add_argument("--together", type=int, default=1, metavar="N", help="how many runs share the device at once")

    for function in (tables, figures, page):
        added = command(function)
        added.add_argument("--suite", type=_suite, required=True)
        added.add_argument("--out", type=Path, required=True)
        if function is page:
            added.add_argument("--figures", type=Path, required=True)

    added = command(compare)
    added.add_argument("--suite", type=_suite, required=True)
    added.add_argument(
        "--baseline", required=True, metavar="METHOD", help="as in configurations: method[key=value,...]"
    )
    added.add_argument("--method", nargs="+", default=[], metavar="METHOD", help="every planned one if left out")
    added.add_argument("--backbone", nargs="+", default=[], metavar="NAME", help="every planned one if left out")
    added.add_argument("--out", type=Path, help="folder for tables (and figures)")
    added.add_argument("--figures", type=Path, help="folder for figures, if another")

    added = command(export)
    added.add_argument("--suite", type=_suite, required=True)
    added.add_argument("--what", choices=["sentence-transformers", "mteb", "table", "tensorboard"], required=True)
    added.add_argument(
        "--run", nargs="+", default=[], metavar="ID", help="every run that has what it takes if left out"
    )
    added.add_argument("--out", type=Path, required=True, help="a folder of its own, which a later export may replace")

    added = command(coverage)
    added.add_argument("--suite", type=_suite, nargs="+", default=[], help="results/<suite>; without, nothing has run")
    added.add_argument("--config", type=Path, nargs="+", help="planned where no suite is named; paper and chinese")
    added.add_argument("--out", type=Path, help="FILE.md, or FILE.csv with a row for each printed number")

    added = command(audit)
    added.add_argument("--out", type=Path, help="FILE.csv or FILE.md")

    added = command(check_method, "check-method")
    added.add_argument("file", type=Path, help="FILE.py")

    added = command(timing)
    added.add_argument("shape", nargs="+", help="bert-base, bert-large, roberta-base, roberta-large, toy")
    added.add_argument("--steps", type=int, default=500, metavar="N", help="how many are timed, a multiple of 125")

    added = command(gpu_smoke)
    added.add_argument("--suite", type=_suite, required=True)
    added.add_argument("--out", type=Path, required=True)

    added = command(reference)
    added.add_argument("--suite", type=_suite, required=True)
    added.add_argument("--reference", type=Path, required=True, help="FILE.json")
    asked = added.add_mutually_exclusive_group(required=True)
    asked.add_argument("--check", action="store_true", help="is the suite within the reference?")
    asked.add_argument(
        "--arithmetics", type=Path, metavar="FOLDER", help="write it, with the suites of make portable in this folder"
    )
    return parser, commands.choices


def main(words: list[str] | None = None) -> int:
    """Run one command; its status.

    0 on success, 1 where it found a fault, 2 for a user's mistake, 75 when a signal told it to stop (start it again and
    it goes on), 130 when interrupted.
    """
    words = sys.argv[1:] if words is None else words
    try:
        parser, commands = _parser()
        if not words:
            parser.print_help(sys.stderr)
            return 2
        if not words[0].startswith("-") and words[0] not in commands:
            raise UserError(
                f"unknown command '{words[0]}'{nearest(words[0], commands)}; python -m bench --help says what each does"
            )
        arguments = parser.parse_args(words)
        with interrupts.heeded():
            return arguments.function(arguments) or 0
    except interrupts.Stopped as stopped:
        print(stopped, file=sys.stderr)
        return interrupts.COME_AGAIN
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; start again to go on from what is finished", file=sys.stderr)
        return 130
    except PermissionError as error:
        print(
            f"error: cannot write {error.filename}: permission denied; choose a folder that can be written",
            file=sys.stderr,
        )
        return 2
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        where = f"{error.filename}: " if error.filename else ""
        remedy = "make room and start again, what is finished is kept" if full else "name another file or folder"
        print(f"error: {where}{error.strerror or error}; {remedy}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
