"""Score two encoders for a comparison over test items."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.evaluation.classifier import check_mode
from bench.evaluation.scoring import read_tasks
from bench.models.functions import Function
from bench.models.model import Model, files
from bench.results.records import ScoredEncoder, read_items
from bench.runs import paths
from bench.stages.device import lease
from bench.stages.jobs import evaluate
from bench.utils.errors import UserError, errors_of


def score_pair(
    sources: Sequence[str | Path | Function],
    tasks: Sequence[str],
    out: Path | None,
    data: str,
    mode: str,
) -> list[ScoredEncoder]:
    """Score two encoders on tasks, with what each test item contributes. A name may have options in
    brackets, as in `Model.read`.

    Records and items are written into the folder `out`, where the next call continues an
    interrupted one; without `out` nothing is kept. `UserError` if an encoder cannot be scored.
    """
    check_mode(mode)
    models = [_model(source) for source in sources]
    for model in models:  # before data are downloaded, and before hours of encoding
        model.check()
    data_folder = paths.data_folder(data)
    task_data, scored = read_tasks(tasks, data_folder), []
    if not any(task.has_test for task in task_data):
        raise UserError("no task of 'tasks' has a test split to compare on; name others")
    with lease() as device, TemporaryDirectory() as temporary:
        for model in models:
            (name,) = files([model])
            file = Path(out or temporary, name)
            with errors_of(model.label):
                records = evaluate(
                    model, task_data, mode, data_folder, file, device, again=False, keep_items=True
                )
            # Read at once, since the other may have the same file, as functions of one name have.
            items = read_items(paths.items_file(file.parent, file.stem))
            scored.append(ScoredEncoder(model.label, records, items))
    return scored


def _model(source: str | Path | Function) -> Model:
    if not isinstance(source, str | Path):
        return Model(source)
    model, *others = Model.read(str(source))
    if others:
        raise UserError(f"'{source}' names several templates; name one")
    return model
