"""Score encoders outside suites."""

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from bench.datasets.labelled import task_sums
from bench.datasets.metrics import check_probe_seeds
from bench.evaluation.classifier import check_mode
from bench.evaluation.scoring import (
    Classifiers,
    ReadTask,
    read_tasks,
    score_encoder,
    sentences,
    with_keys,
)
from bench.models.encoder import adaptation
from bench.models.functions import Function
from bench.models.model import Model, check_files
from bench.registry.methods import FAILURES, describe_error
from bench.results.provenance import provenance
from bench.results.records import (
    Record,
    ScoredEncoder,
    read_items,
    read_scores,
    write_items,
    write_scores,
)
from bench.runs import paths
from bench.stages.device import lease
from bench.utils.errors import UserError, errors_of, warn


def score_models(
    models: Sequence[Model],
    tasks: str | Sequence[str],
    data: str,
    mode: str,
    out: str | Path | None = None,
    probe_seeds: Sequence[int] = (),
    *,
    has_items: bool = False,
) -> tuple[list[ScoredEncoder], list[str]]:
    """Score encoders on tasks; also return the errors of those of several that could not be scored.

    Records are written to `out`: of one model to FILE.json, else to a folder, in which those that
    exist for the same encoder, data, code and versions are reused. Without `out` nothing is kept.
    With `has_items`, for a comparison, what each test item contributes is returned, and written to
    `items/` there. `UserError` if a fault is visible before anything is encoded, or if one model or
    a side of a comparison cannot be scored.
    """
    check_mode(mode)
    check_probe_seeds(probe_seeds)
    place = Path(out or "")
    is_file = len(models) == 1 and place.suffix == ".json" and not place.is_dir()
    if is_file:
        _check_file(place, models[0])
    elif out:
        _check_folder(place)
    if not has_items:
        check_files(models)
    for model in models:  # before data are downloaded, and before hours of encoding
        model.check()
    folder = paths.data_folder(data)
    task_data = read_tasks([tasks] if isinstance(tasks, str) else tasks, folder)
    if has_items and not any(task.has_test for task in task_data):
        raise UserError("no task of 'tasks' has a test split to compare on; name others")
    scored, errors = [], []
    with lease() as device, TemporaryDirectory(prefix="sentbench-") as temporary:
        classifiers = Classifiers(mode, probe_seeds, device)
        for model in models:
            file = Path(out or temporary, "" if is_file else model.file)
            items_file = paths.items_file(file.parent, file.stem) if has_items else None
            try:
                with errors_of(model.label):
                    records = _evaluate(
                        model, task_data, folder, file, items_file, classifiers, again=is_file
                    )
            except FAILURES as error:
                if has_items or len(models) == 1:
                    raise
                # The other models are scored nevertheless.
                text = f"{model.label}: {describe_error(error)}; evaluate it alone to see where"
                errors.append(str(error) if isinstance(error, UserError) else text)
                continue
            # Read at once, since the other side of a comparison may have the same file, as
            # functions of one name have.
            items = read_items(items_file) if items_file else {}
            scored.append(ScoredEncoder(model.label, records, items))
    return scored, errors


def _check_file(file: Path, model: Model) -> None:
    """Refuse to replace what is no scores of the same model."""
    if not file.is_file():
        return
    written = read_scores(file).as_written()["provenance"]
    if any(written.get(name) != value for name, value in model.describe().items()):
        raise UserError(
            f"{file} has the scores of another model, {written.get('model')}, or of other options; "
            "name another file, or remove it"
        )


def _check_folder(folder: Path) -> None:
    """Refuse a folder for records that is, or is meant as, a file."""
    if folder.suffix in (".csv", ".md", ".tex", ".txt"):
        raise UserError(
            f"--out {folder}: name a FILE.json or a folder for records; tables are printed, such "
            f"as by --format csv > {folder}"
        )
    if folder.is_file() or (folder.suffix == ".json" and not folder.exists()):
        raise UserError(f"{folder} is a file; of several models, name a folder")


def score_pair(
    sources: Sequence[str | Path | Function],
    tasks: str | Sequence[str],
    data: str,
    mode: str,
    out: str | Path | None,
) -> list[ScoredEncoder]:
    """Score both sides of a comparison as `score_models` does. A name may have options in brackets,
    as in `Model.read`."""
    models = [_model(source) for source in sources]
    return score_models(models, tasks, data, mode, out, has_items=True)[0]


def _model(source: str | Path | Function) -> Model:
    if not isinstance(source, str | Path):
        return Model(source)
    model, *others = Model.read(str(source))
    if others:
        raise UserError(f"'{source}' names several templates; name one")
    return model


def _evaluate(
    model: Model,
    tasks: Sequence[ReadTask],
    data: Path,
    out: Path,
    items_file: Path | None,
    classifiers: Classifiers,
    again: bool,
) -> list[Record]:
    """Score an encoder on tasks, write the records to `out` with their provenance, and return them.

    Finished tasks are kept in `OUT.part` until all are finished, so that an interrupted evaluation
    resumes. Nothing is kept for an encoder that another process cannot identify (a function without
    identity). Unless `again`, nothing is scored if `out` already has the same provenance.
    """
    device, probe_seeds = classifiers.device, classifiers.probe_seeds
    work = out.with_name(f"{out.name}.part")
    started, encoder = time.monotonic(), model.load(device)
    loaded = getattr(encoder, "loaded", {})
    parts = [f"{name.replace('_', ' ')} {value}" for name, value in loaded.items()]
    parts += [f"{len(sentences(tasks, adaptation(encoder))):,} sentences", f"on {device}"]
    warn(f"{model.label}: {', '.join(parts)}")
    origin = {
        **model.describe(),
        "data": {"folder": str(data), **paths.describe_data(data)},
        "mode": classifiers.mode,
        "tasks": task_sums(tasks),
        "encoder": encoder.identity,
        "loaded": loaded,
        **provenance(device, torch.get_num_threads()),
    }
    if probe_seeds:
        origin["probe_seeds"] = probe_seeds
    # Records that were written without items cannot be compared.
    has_all = out.is_file() and (items_file is None or items_file.is_file())
    if has_all and not again:
        content = read_scores(out).as_written()
        written = content["provenance"]
        # The date says nothing about scores. Threads and the name of a device change roundings
        # alone; the device's kind shows in the arithmetic.
        ignored = {"date": written.get("date"), "device": written["device"]}
        # Whether the file has all fields of `origin`. It may have further ones, such as the
        # seconds.
        if written == written | origin | ignored:
            return content["records"]
    pooler = getattr(encoder, "pooler", encoder.kind)
    options = [pooler, *replace(model.options, pooler=None).words]
    common = {
        "source": "sentbench", "method": f"encoder[{','.join(options)}]", "backbone": model.name,
        "setting": None, "seed": None,
    }  # fmt: skip
    try:
        scores, columns = score_encoder(encoder, tasks, classifiers, work)
    except BaseException:
        if not getattr(encoder, "lasting", True):  # no later evaluation could reuse these vectors
            shutil.rmtree(work, ignore_errors=True)
        raise
    origin["seconds"] = round(time.monotonic() - started, 2)
    records = [common | record for record in scores]
    if items_file:
        out.unlink(missing_ok=True)  # records of earlier items
        write_items(items_file, with_keys(tasks, columns))
    write_scores(out, origin, records)
    shutil.rmtree(work, ignore_errors=True)
    return records
