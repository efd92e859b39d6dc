"""Train, score and analyse runs of a suite; score any encoder."""

import shlex
import shutil
import time
import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.datasets.contamination import contamination
from bench.datasets.corpora import corpus_identity, read_sentences
from bench.datasets.labelled import task_sums
from bench.download.hub import pinned
from bench.evaluation.scoring import (
    Classifiers,
    ReadTask,
    read_tasks,
    score_encoder,
    with_keys,
)
from bench.models.defaults import torch_defaults
from bench.models.encoder import Encoder
from bench.registry.methods import FAILURES, describe_error, method_origin
from bench.results.provenance import provenance, timing
from bench.results.records import (
    Outcome,
    Record,
    Trained,
    read_analyses,
    read_scores,
    read_trained,
    write_items,
    write_scores,
)
from bench.runs import STAGES, paths
from bench.runs.plan import Plan, add_by_hand, plan_command
from bench.runs.run import Run, identity_of, in_order, read_runs
from bench.stages.activity import check_retry, is_transient, working
from bench.stages.analyse import ON_CORPUS, Material, analyse
from bench.stages.device import lease
from bench.stages.inputs import Inputs, compare, lacks_seeds
from bench.training.checkpoint import trained_encoder
from bench.training.context import RunContext
from bench.training.loop import train
from bench.utils.errors import TransientError, UserError, warn
from bench.utils.files import is_complete, staging_folder, write_json
from bench.utils.progress import Progress
from methods.base import Refusal


def train_run(run: Run, suite: Path, device: str) -> dict[str, Any]:
    """Train a run in its folder, as `bench.training.loop.train`. `UserError`, too, if a run that it
    needs is not trained yet, or if the code of an external method failed."""
    run = _after_needs(run, suite)
    try:
        return train(run, suite, paths.run_folder(suite, run.id), device)
    except (UserError, OSError):
        raise
    except FAILURES as error:
        for name, _, _ in run.parts:
            origin = method_origin(name)
            if origin:
                error_class = TransientError if is_transient(error) else UserError
                raise error_class(
                    f"training {run.method} failed ({describe_error(error)}); "
                    f"find the error with: sentbench check-method {shlex.quote(origin.place)}"
                ) from error
        raise


def _after_needs(run: Run, suite: Path) -> Run:
    """Return a run that is about to be trained; skipped if a run that it needs has no encoder."""
    if (paths.run_folder(suite, run.id) / "outcome.json").is_file():  # it is trained
        return run
    for name, needed in run.needs.items():
        try:
            outcome = _training_of(needed, suite).outcome
        except UserError as error:
            # The next attempt may train that run first.
            raise TransientError(f"'{run.method}' needs the encoder of {name}: {error}") from None
        if outcome.status != "finished":
            skip = f"it needs {name}, whose training {outcome.status}"
            return run.model_copy(update={"skip": skip})
    return run


def score_run(
    run: Run, suite: Path, tasks: Sequence[str], mode: str, out: Path, device: str
) -> None:
    """Score a run on tasks and groups and write the records to `out` with their provenance; no
    records of a run that was skipped or diverged. `mode` is one of
    `bench.evaluation.classifier.MODES`.

    `UserError`: the run is not trained yet, or its encoder, a task or a data file is invalid.
    """
    started, inputs = time.monotonic(), Inputs(suite, run.data)
    ended = _training_of(run, suite)
    origin = _provenance_of(run, ended, inputs, device) | {"mode": mode}
    if ended.outcome.status != "finished":
        write_scores(out, origin, [])
        return
    encoder = run_encoder(run, inputs, device)
    task_data = read_tasks(tasks, inputs.data)
    item_flags = known_items(run, inputs, task_data)
    work, tokens = paths.run_folder(suite, run.id) / "scoring", paths.tokens_folder(suite)
    further = run.further_seeds(tasks)
    classifiers = Classifiers(mode, further, device)
    records, items = score_encoder(encoder, task_data, classifiers, work, tokens, item_flags)
    origin |= _commits(run) | {
        "encoder": encoder.identity,
        "loaded": getattr(encoder, "loaded", {}),  # pooler and maximum length
        "tasks": task_sums(task_data),
        "contamination": {
            name: {
                "items": len(in_corpus),
                "seen": int(in_corpus.sum()),
                "in_dev": int(in_dev.sum()),
            }
            for name, (in_corpus, in_dev) in item_flags.items()
        },
        **timing(round(time.monotonic() - started, 2), device),
    }
    if further:
        origin["probe_seeds"] = further
    common: Record = {
        "source": "sentbench", "method": run.method, "backbone": run.backbone,
        "setting": run.setting, "seed": run.seed,
    }  # fmt: skip
    if run.seed is None:  # without seeds, verdicts draw test items instead
        write_items(paths.items_file(suite, run.id), with_keys(task_data, items))
    # Last, since the workflow takes a file of scores as the sign that all of it is written.
    write_scores(out, origin, [common | record for record in records])
    shutil.rmtree(work, ignore_errors=True)


def analyse_run(
    run: Run, suite: Path, names: Sequence[str], corpus: str, out: Path, device: str
) -> None:
    """Run analyses (analyse.py); for a run that was skipped or diverged, write a file without
    results.

    Analyses that `out` already holds are repeated with the new ones, so that all have one
    provenance. `in-batch` reads the training corpus, or `corpus` if the run has none.
    """
    started, inputs = time.monotonic(), Inputs(suite, run.data)
    names = list(dict.fromkeys((*read_analyses(out).analyses, *names)))
    corpus, ended = run.corpus or corpus, _training_of(run, suite)
    corpora = [corpus] if ON_CORPUS in names else []
    origin = _provenance_of(run, ended, inputs, device, corpora)
    results: dict[str, Any] = {}
    if ended.outcome.status == "finished":
        material = Material(run, run_encoder(run, inputs, device), corpus, inputs, device)
        results = analyse(material, names)
        origin["tasks"] = task_sums(material.tasks if {*names} - {ON_CORPUS} else ())
        origin |= _commits(run)
    origin["seconds"] = round(time.monotonic() - started, 2)
    write_json(out, {"provenance": origin, "analyses": results})


def known_items(
    run: Run, files: paths.Files, tasks: Sequence[ReadTask]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the test items that a run has read before, by `contamination`; nothing is counted if
    it reads no corpus."""
    if not run.corpora:
        return {}
    parts = [(run.corpus, run.recipe.sentences, run.recipe.distinct)] if run.trained else []
    for cls, hyper in run.composed:  # a post-processing may be fitted on a part of its corpus
        parts += [(name, getattr(hyper, "sentences", None), None) for name in cls.corpora(hyper)]
    texts = (read_sentences(files.corpus(name), *part) for name, *part in parts)
    return contamination(tasks, texts, run.selection, files.data)


def _commits(run: Run) -> dict[str, Any]:
    """Return the commits of the models that a run has loaded from the hub: its backbone, and other
    encoders by name."""
    commits: dict[str, Any] = {}
    if run.pretrained.source == "hub":
        commits["backbone_commit"] = pinned(run.pretrained.location)[0]
    models = run.hub_models
    if models:
        commits["encoder_commits"] = {name: pinned(place)[0] for name, place in models.items()}
    return commits


def _provenance_of(
    run: Run, ended: Trained, inputs: Inputs, device: str, more: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the provenance of a run's results: the run, its data, its corpora and `more` with
    their sums, and its outcome."""
    training = ended.provenance
    inputs.check_made(run, training)
    sums = (corpus.as_written() for corpus in training.corpora)
    corpora = dict(zip(run.corpora, sums, strict=False))
    # A training has recorded sums of its files and corpora; an untrained encoder reads them now.
    file_sums, names = training.files, [*more]
    if not run.trained:
        file_sums, names = paths.file_sums(run, inputs), [*run.corpora, *more]
    if ended.outcome.status == "finished":
        for name in names:
            corpora[name] = corpus_identity(inputs.corpus(name))
    origin = {
        "run": run.describe(),
        # Not from the workflow's stamp, which may be older than the files.
        "data": inputs.described,
        "outcome": ended.outcome.as_written(),
        "corpora": list(corpora.values()),
    }
    if file_sums:
        origin["files"] = file_sums
    return origin | provenance(device, torch.get_num_threads())


def run_encoder(run: Run, files: paths.Files, device: str) -> Encoder:
    """Return the trained encoder of a run, or a new one if there is nothing to train; `UserError`
    if it is missing, or cannot be made."""
    if run.trained:
        return trained_encoder(files.suite, run.id, device=device)
    context = RunContext(run, files, device)
    method = run.build()
    try:
        method.begin(context)
        return method.finish(method.encoder(context), context)
    except Refusal as refusal:
        raise UserError(f"'{run.method}' cannot be scored: {refusal}") from None


def run_job(suite: Path, ids: Sequence[str], stages: list[str], retry: bool) -> None:
    """Take planned runs, by default all, through stages: a job of the workflow, or a suite without
    it. For `retry` see `run_plan`.

    `UserError`, too, where an input of a training has changed.
    """
    plan = read_runs(suite / "plan.json")
    runs = plan.chosen(ids)
    # The workflow has looked for changed inputs before it started a job.
    changed_files = compare(runs, suite)[0] if runs and not ids else []
    try:
        run_plan(suite, plan, runs, stages, retry, bool(changed_files))
    except UserError:
        if ids and stages == ["train"]:
            # Snakemake starts no scoring after a training job that failed, so the runs of the job
            # that are trained are scored here. Errors of the scoring are in the status.
            trained = [run for run in runs if paths.result_file(suite, run.id, "train").exists()]
            with suppress(UserError):
                run_plan(suite, plan, trained, ["score", "analyse"], retry)
        raise


def run_by_hand(plan: Plan, suite: Path, stages: Collection[str]) -> bool:
    """Train the runs of a plan that are not trained, and score and analyse all again; `UserError`,
    too, where an input of a training has changed. Returns whether the plan of the suite's folder,
    and so its tables, have the runs now."""
    compare(plan.runs, suite)
    # First, since a run that is planned after its score would count as added.
    is_planned = "score" in stages and add_by_hand(plan, suite / "plan.json")
    run_plan(suite, plan, plan.runs, stages, again=True)
    return is_planned


def run_plan(
    suite: Path,
    plan: Plan,
    runs: Sequence[Run],
    stages: Collection[str] = STAGES,
    retry: bool = False,
    again: bool = False,
) -> None:
    """Train, score and analyse planned runs in this process, on a device that it holds meanwhile.

    Results that exist are not repeated, and a run that fails does not stop the others: `UserError`
    at the end. Encoders that nothing needs any more are deleted unless the plan keeps them.

    Args:
        runs: some of the plan, from `Plan.chosen`.
        stages: a subset of `STAGES`.
        retry: whether this attempt repeats an earlier one; runs that failed for good are left out.
        again: whether runs are scored and analysed although they have results.
    """
    errors: list[str] = []

    @contextmanager
    def keep_error(run: Run) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if len(runs) == 1:
                raise
            if not isinstance(error, UserError):
                traceback.print_exc()
            errors.append(f"{run.id}: {error}")
            warn(f"error: {errors[-1]}")

    candidates = []
    for run in runs:  # a final failure is reported before this process waits for a device
        with keep_error(run):
            if retry:
                check_retry(suite, run.id, stages)
            candidates.append(run)
    progress = Progress(len(candidates), "runs")
    # The runs share one slot, so the largest batch decides whether the GPU is shared.
    batch_size = max((run.recipe.batch_size for run in candidates if "train" in stages), default=0)
    if candidates:  # otherwise nothing would be done with the device
        with lease(batch_size) as device:
            for run in candidates:
                with keep_error(run):
                    _run_stages(suite, plan, run, device, stages, again)
                    if not plan.keep_encoders:
                        _drop_encoders(suite, plan, run)
                    progress.advance(note=run.id)
    if errors:
        raise UserError(f"{len(errors)} of {len(runs)} runs failed; the last is {errors[-1]}")


@torch_defaults()
def _run_stages(
    suite: Path, plan: Plan, run: Run, device: str, stages: Collection[str], again: bool
) -> None:
    """Take a planned run through its stages that have no result yet."""
    if identity_of(run) != run.identity:  # no plan would have its results
        raise UserError(
            f"the plan's run {run.id} is another one now, since its method, backbone or corpus "
            f"has changed; write the plan again with: {plan_command(suite / 'plan.json')}"
        )
    for stage in run.stages:
        out = paths.result_file(suite, run.id, stage)
        if stage not in stages:
            continue
        is_done = is_complete(out) and (stage == "train" or not again)
        if is_done and stage == "score":
            is_done = not lacks_seeds(run, read_scores(out).provenance)
        if is_done:
            continue
        # A scored run may lack its encoder, which was dropped or not shared: it is not trained for
        # nothing. A job that only trains was started by the workflow, which needs the encoder.
        if stage == "train" and "score" in stages and not (again or _is_needed(suite, plan, run)):
            continue
        with working(suite, run.id, stage):
            if stage == "train":
                write_json(out, train_run(run, suite, device))
                again = True  # results of an earlier training do not mix with new ones
            elif stage == "score":
                score_run(run, suite, run.tasks, plan.mode, out, device)
            else:
                analyse_run(run, suite, run.analyses, plan.corpus, out, device)


def _is_needed(suite: Path, plan: Plan, run: Run, encoder_time: float = 0.0) -> bool:
    """Return whether a planned result that takes a run's encoder is missing, or is older than the
    encoder and will be written again."""
    files = [
        paths.result_file(suite, user.id, stage)
        for user in plan.runs
        if run.id in [needed.id for needed in in_order([user])]
        for stage in user.stages
        if stage != "train"
    ]
    return not all(file.is_file() and file.stat().st_mtime >= encoder_time for file in files)


def _drop_encoders(suite: Path, plan: Plan, run: Run) -> None:
    """Delete the encoders, of a run and of the runs that it needs, that no result needs any more.
    The file in `trained/` goes first: without it an encoder is trained again if it is needed."""
    for needed in in_order([run]):
        encoder = paths.run_folder(suite, needed.id) / "encoder"
        with suppress(FileNotFoundError):  # there is none, or another process was faster
            if not _is_needed(suite, plan, needed, encoder.stat().st_mtime):
                paths.result_file(suite, needed.id, "train").unlink(missing_ok=True)
                with staging_folder(encoder) as staging:
                    # Moved as a whole: a process that is killed while it deletes files would leave
                    # a part.
                    encoder.replace(staging / "old")


def _training_of(run: Run, suite: Path) -> Trained:
    """Return how a run's training ended; a run without one counts as finished."""
    if run.skip:
        return Trained(outcome=Outcome(status="skipped", reason=run.skip))
    if not run.trained:
        return Trained(outcome=Outcome(status="finished"))
    file = paths.result_file(suite, run.id, "train")
    if not file.is_file():
        raise UserError(
            f"{run.method} is not trained in {suite} ({file.name} does not exist); train it first"
        )
    return read_trained(file)
