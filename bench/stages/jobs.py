"""A run of a suite, from its words to its files; and any encoder, to a file of scores."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from bench.datasets.corpora import corpus_identity
from bench.datasets.manifest import manifest
from bench.datasets.tasks import CHINESE_TASKS, PROBING_TASKS, STS_TASKS, TRANSFER_TASKS, XPROBE_TASKS
from bench.evaluation.embedding_store import FILES as VECTOR_FILES
from bench.evaluation.scoring import Task, read_tasks, score_encoder
from bench.models.encoder import Encoder
from bench.models.from_name import Model, files
from bench.models.load import load_encoder
from bench.registry.methods import method_origin
from bench.registry.plugins import FAILURES, describe_error
from bench.results.provenance import provenance, task_sums
from bench.results.readers import check_plan, read_analyses, read_trained, report_damage
from bench.results.records import STAGES, Record, read_scores, write_scores
from bench.runs import paths
from bench.runs.resolve import run_of
from bench.runs.run import Run
from bench.training.context import RunContext
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from methods.base import Refusal


def train_run(run: Run, suite: Path, device: str) -> dict[str, Any]:
    """Train a run of a suite in its own folder; one that has ended there is not trained again.

    Returns and raises what `bench.training.loop.train` does.

    Raises:
        UserError: besides, a method from outside fails.
    """
    from bench.training.loop import train

    try:
        return train(run, suite, paths.run_folder(suite, run.id), device)
    except (UserError, OSError):
        raise
    except FAILURES as error:
        if not (places := [origin.place for name, _, _ in run.parts if (origin := method_origin(name))]):
            raise
        raise UserError(
            f"{run.text} fails in its training ({describe_error(error)}); fix it, with: "
            f"python -m bench check-method {places[0]}"
        ) from error


def score_run(run: Run, suite: Path, tasks: Sequence[str], mode: str, out: Path, device: str) -> None:
    """Score a run of a suite; one that was skipped or diverged leaves a file without records that says so.

    Args:
        tasks: names of tasks and groups.
        mode: of `bench.evaluation.classifier.MODES`.
        out: the file of records with their provenance.

    Raises:
        UserError: the run is not trained yet, or its encoder, a task or a data file is not as it should be.
    """
    data, started = paths.data_folder(run.data, suite), time.monotonic()
    described = _described(run, suite, device, () if run.trained else run.corpora) | {"mode": mode}
    if described["outcome"]["status"] != "finished":
        write_scores(out, described, [])
        return
    encoder, read = run_encoder(run, suite, device), read_tasks(tasks, data)
    if "sha256" not in described["data"]:  # by hand, without the stamps of a workflow
        described["data"] |= paths.data_sums(data)
    common = {
        "source": "sentbench",
        "method": run.text,
        "backbone": run.backbone.name,
        "variant": run.setting,
        "seed": run.seed,
    }
    work = paths.scoring_folder(suite, run.id)
    records = score_encoder(encoder, read, mode, device, work)
    described |= {"encoder": encoder.identity, "tasks": task_sums(read), "seconds": _seconds(started)}
    write_scores(out, described, [common | record for record in records])
    shutil.rmtree(work)


def analyse_run(run: Run, suite: Path, names: Sequence[str], out: Path, device: str) -> None:
    """Measure what is no score (analyse.py); a run that was skipped or diverged leaves a file without results.

    What `out` holds already is measured anew with the rest, so that all of it has one origin.
    """
    from bench.stages.analyse import ON_CORPUS, Material, analyse

    names = list(dict.fromkeys((*read_analyses(out), *names)))
    read = [*(() if run.trained else run.corpora), *([run.corpus] if set(names) & set(ON_CORPUS) else ())]
    started, described = time.monotonic(), _described(run, suite, device, read)
    found: dict[str, Any] = {}
    if described["outcome"]["status"] == "finished":
        material = Material(run, suite, device, described["outcome"].get("best_step"))
        found = analyse(run_encoder(run, suite, device), material, names)
        described["tasks"] = task_sums(material.tasks) if set(names) - set(ON_CORPUS) else {}
    write_json(out, {"provenance": described | {"seconds": _seconds(started)}, "analyses": found})


def _described(run: Run, suite: Path, device: str, read: Sequence[str]) -> dict[str, Any]:
    """Where numbers of a run come from: the run, its data and corpora with their sums, how its training ended.

    Args:
        read: corpora that are read now, and not by its training alone.
    """
    name = manifest(paths.data_folder(run.data, suite))["name"]
    described: dict[str, Any] = {"run": run.describe(), "data": {"name": name}}
    stamp = suite / "inputs" / "data.json"
    if stamp.is_file() and (stamped := read_json(stamp))["name"] == run.data:
        described["data"] |= stamped
    if run.data == "senteval":  # BENCH_DATA may hold other data, which say so themselves
        described["data"]["name"] = name
    ended = _ended(run, suite)
    described["outcome"] = ended["outcome"]
    described["corpora"] = list(_corpora(run, suite, read if ended["outcome"]["status"] == "finished" else (), ended))
    return described | provenance(device, torch.get_num_threads())


def _corpora(run: Run, suite: Path, read: Sequence[str], ended: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Sums of corpora: of a workflow's stamps; else of the file where it is read now, or as the training left them.

    Trainings of earlier versions left that of the training corpus alone.
    """
    told = ended.get("provenance", {})
    left = dict(zip(run.corpora, told.get("corpora") or [told.get("corpus")], strict=False))
    for name in dict.fromkeys((*run.corpora, *read)):
        stamp = paths.corpus_stamp(suite, name)
        if stamp.is_file():
            yield read_json(stamp)
        elif name in read:
            yield corpus_identity(paths.corpus_file(name, suite, run.data))
        elif left.get(name):
            yield left[name]


def _seconds(started: float) -> float:
    """How long a command took, without what an interrupted one before it had finished."""
    return round(time.monotonic() - started, 2)


def run_encoder(run: Run, suite: Path, device: str) -> Encoder:
    """The Encoder of a run: what its training left, or what is made without one.

    Raises:
        UserError: it is not there, or cannot be made.
    """
    if run.trained:
        return load_encoder(paths.run_folder(suite, run.id) / "encoder", device=device)
    context = RunContext(run, suite, device)
    method = run.build()
    try:
        method.begin(context)
        return method.finish(method.encoder(context), context)
    except Refusal as refusal:
        raise UserError(f"'{run.text}' cannot be scored: {refusal}") from None


def planned(plan: Mapping[str, Any], part: int = 1, parts: int = 1, only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Every n-th run of a plan from the k-th on, seed by seed: cut short, each method has some.

    Args:
        only: identities of runs; empty takes all.

    Raises:
        UserError: it is no plan, or has no such run.
    """
    with report_damage("this", "a plan", "use one written by python -m bench plan"):
        check_plan(plan, ("corpus", "data"), ("reference",))
    entries = [{"tasks": [], "analyses": [], "recipe_changes": {}} | entry for entry in plan["runs"]]
    if strangers := set(only) - {entry["id"] for entry in entries}:
        raise UserError(f"the plan has no run '{min(strangers)}'; plan the suite anew, or leave it out")
    chosen = [entry for entry in entries if not only or entry["id"] in only]
    return sorted(chosen, key=lambda entry: entry["seed"] or 0)[part - 1 :: parts]


def run_plan(
    suite: Path,
    plan: Mapping[str, Any],
    entries: Sequence[dict[str, Any]],
    device: str,
    stages: Sequence[str] = STAGES,
) -> Iterator[Run]:
    """Train, score and analyse planned runs in this process, as far as they are not; yields each once it is done.

    For machines without a workflow, and where starting a process costs more than its work.

    Args:
        suite: the suite's folder; its world, backbones and inputs are there already.
        plan: corpus, data and mode of all runs.
        entries: some of its runs, as `planned` gives them.
        stages: what to do of `STAGES`.
    """
    for entry in entries:
        run = run_of(entry, corpus=plan["corpus"], data=plan["data"])
        trained, scores = paths.trained_file(suite, run.id), paths.scores_file(suite, run.id)
        analyses = paths.analyses_file(suite, run.id)
        if "train" in stages and run.trained and not trained.is_file():
            write_json(trained, train_run(run, suite, device))
        if "score" in stages and not scores.is_file():
            score_run(run, suite, entry["tasks"], plan["mode"], scores, device)
        if "analyse" in stages and entry["analyses"] and not analyses.is_file():
            analyse_run(run, suite, entry["analyses"], analyses, device)
        yield run


def _ended(run: Run, suite: Path) -> dict[str, Any]:
    """How a run's training ended, and where; what needs none has finished."""
    if run.skip:
        return {"outcome": {"status": "skipped", "reason": run.skip}}
    if not run.trained:
        return {"outcome": {"status": "finished"}}
    if not (file := paths.trained_file(suite, run.id)).is_file():
        raise UserError(f"{run.text} is not trained in {suite} ({file.name} is not there); train it first")
    return dict(read_trained(file))


def score_model(
    model: str | Model, pooler: str | None, tasks: Sequence[str], mode: str, data: Path, out: Path, device: str
) -> str:
    """Score any encoder on tasks, write the records, and return tables to print.

    What is finished stands in `OUT.part` until all is, so that an interrupted evaluation goes on; of an encoder that
    no other process knows again, which is a function without identity, nothing stays.

    Raises:
        UserError: the model, the pooler, a task or a data file is not as it should be.
    """
    if out.is_dir() or not out.name:
        raise UserError(f"--out '{out}' is a folder; name a file")
    known = model if isinstance(model, Model) else Model(str(model), pooler)
    return tables(evaluate(known, read_tasks(tasks, data), mode, data, out, device))


def score_models(
    models: Sequence[Model], tasks: Sequence[str], mode: str, data: Path, folder: Path, device: str
) -> tuple[str, list[str]]:
    """Score several encoders on tasks, write the records of each to a file in `folder`, and return tables to print.

    What an earlier evaluation has finished there, of the same encoder on the same data with the same code and versions,
    is taken as it is.

    Returns:
        The tables, a row each model, and the errors of those that could not be scored.

    Raises:
        UserError: two models would be written to one file, or no model could be scored whatever it is.
    """
    named = files(models)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {folder} is a file; of several models, name a folder")
    read, found, errors = read_tasks(tasks, data), {}, []
    for file, model in named.items():
        try:
            found[model.label] = evaluate(model, read, mode, data, folder / file, device, again=False)
        except UserError as error:  # the others are scored all the same
            errors.append(f"{model.label}: {error}")
    return compared(found), errors


def evaluate(
    model: Model, tasks: Sequence[Task], mode: str, data: Path, out: Path, device: str, again: bool = True
) -> list[Record]:
    """Records of an encoder on tasks, which are written to `out` with their provenance.

    Args:
        again: whether it is scored again where `out` holds the same already.

    Raises:
        UserError: the model cannot be scored, or `out` cannot be written.
    """
    work = out.with_name(f"{out.name}.part")
    if out.is_symlink() or (out.exists() and not out.is_file()):
        raise UserError(f"--out {out} is no plain file, and would be replaced by one; name another")
    if work.is_symlink() or (work.exists() and not _left_by_evaluation(work)):
        raise UserError(f"{work} is not of an earlier evaluation, and this one would delete it; name another --out")
    started, encoder = time.monotonic(), model.load(device)
    data_said = {"name": manifest(data)["name"], "folder": str(data)} | paths.data_sums(data)
    described: dict[str, Any] = model.describe() | {"data": data_said, "mode": mode, "tasks": task_sums(tasks)}
    described |= {"encoder": encoder.identity} | provenance(device, torch.get_num_threads())
    if not again and out.is_file():
        written, records = read_scores(out)
        if all(written.get(key) == value for key, value in described.items() if key != "date"):
            return records
    name = ",".join([getattr(encoder, "pooler", encoder.kind), *model.options[model.pooler is not None :]])
    common = {
        "source": "sentbench",
        "method": f"encoder[{name}]",
        "backbone": model.name,
        "variant": None,
        "seed": None,
    }
    try:
        records = [common | record for record in score_encoder(encoder, tasks, mode, device, work)]
    except BaseException:
        if not getattr(encoder, "lasting", True):  # no later evaluation would go on with these vectors
            shutil.rmtree(work, ignore_errors=True)
        raise
    write_scores(out, described | {"seconds": _seconds(started)}, records)
    shutil.rmtree(work)
    return records


def _left_by_evaluation(work: Path) -> bool:
    """Whether a folder holds vectors and records of finished tasks alone, so that it may be deleted at the end."""
    if not (work / "vectors").is_dir():
        return False
    files = [path.relative_to(work) for path in work.rglob("*") if not path.is_dir()]
    return all(
        path.name in VECTOR_FILES
        if path.parts[:-1] == ("vectors",)
        else len(path.parts) == 2 and path.suffix == ".json"
        for path in files
    )


def tables(records: Sequence[Record]) -> str:
    """Records as the papers print them, for the terminal: a table of STS, of transfer, of probing."""
    return "\n\n".join(found for tasks in _columns(records) if (found := _table(records, tasks)))


def compared(found: Mapping[str, Sequence[Record]]) -> str:
    """Records of several encoders for the terminal: a table of each metric on the test split, a row each encoder."""
    shown = {label: [record for record in records if record["split"] == "test"] for label, records in found.items()}
    blocks = []
    for tasks in _columns([record for records in shown.values() for record in records]):
        cells = {label: _cells(records, tasks) for label, records in shown.items()}
        for title in dict.fromkeys(title for lines in cells.values() for title in lines):
            if title.endswith("test"):  # of all parts as one list
                lines = {label: own[title] for label, own in cells.items() if title in own}
                blocks.append(_grid(title, lines, tasks))
    return "\n\n".join(blocks)


def _columns(records: Sequence[Record]) -> list[Sequence[str]]:
    """The tasks of each table; what a data folder describes itself (`sts:NAME`, `probing:NAME`) comes last."""
    known = [(*STS_TASKS, "Avg"), (*TRANSFER_TASKS, "Avg"), PROBING_TASKS, CHINESE_TASKS, XPROBE_TASKS]
    own = dict.fromkeys(record["task"] for record in records)
    return [*known, [task for task in own if not any(task in tasks for tasks in known)]]


def _table(records: Sequence[Record], tasks: Sequence[str]) -> str:
    """One line for each metric, split and aggregation."""
    return _grid("", _cells(records, tasks), tasks)


def _cells(records: Sequence[Record], tasks: Sequence[str]) -> dict[str, dict[str, float]]:
    """Values by task, for each metric, split and aggregation."""
    metrics = {record["metric"] for record in records if record["task"] in tasks and record["task"] != "Avg"}
    lines: dict[str, dict[str, float]] = {}
    for record in records:
        if record["task"] in tasks and record["metric"] in metrics:
            words = [record["metric"], record["split"], record["aggregation"]]
            lines.setdefault(" ".join(word for word in words if word != "all"), {})[record["task"]] = record["value"]
    return lines


def _grid(title: str, lines: Mapping[str, Mapping[str, float]], tasks: Sequence[str]) -> str:
    """Lines of values under their tasks, as far as any line has them."""
    columns = [task for task in tasks if any(task in line for line in lines.values())]
    if not columns:
        return ""
    widths = [max(8, len(task) + 2) for task in columns]
    margin = max(map(len, (title, *lines))) + 1
    rows = [f"{title:{margin}}" + "".join(f"{task:>{width}}" for task, width in zip(columns, widths, strict=True))]
    for name, line in lines.items():
        cells = (f"{line[task]:{w}.2f}" if task in line else " " * w for task, w in zip(columns, widths, strict=True))
        rows.append(f"{name:{margin}}" + "".join(cells))
    return "\n".join(rows)
