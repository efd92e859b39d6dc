"""Commands that score any encoder, and that confirm or cross-check scores."""

import sys
from pathlib import Path
from typing import Annotated

from bench.cli.parameters import Mode, OptionalSuite, Tasks, arg, command, one_of, opt, read_tasks
from bench.utils.errors import UserError


@command()
def evaluate(
    model: Annotated[
        list[str],
        arg(
            "Hub id, folder (Hugging Face, sentence-transformers, or of a run), or "
            "module:function. Several may have options of their own: "
            "MODEL[pooler=avg,prompt=query,normalize].",
            "MODEL",
        ),
    ],
    out: Annotated[Path, opt("FILE.json for the records; a folder for several models.", "PATH")],
    pooler: Annotated[str | None, opt("Needed if the model stores no pooler.", "NAME")] = None,
    prompt: Annotated[
        str | None, opt("One of the model's, '' for none; by default its default.", "NAME")
    ] = None,
    normalize: Annotated[
        bool,
        opt("Scale vectors to length 1, which changes what classifiers see.", name="--normalize"),
    ] = False,
    tasks: Tasks = ["sts"],
    mode: Mode = "test",
    data: Annotated[
        str, opt("senteval (BENCH_DATA or the hub), or a folder with downstream/.", "NAME")
    ] = "senteval",
) -> int:
    """Score one or more encoders, print a table and write records."""
    from bench.cli.score_tables import score_tables
    from bench.evaluation import scoring
    from bench.models.from_name import Model
    from bench.runs import paths
    from bench.stages.device import lease
    from bench.stages.jobs import evaluate as evaluate_model
    from bench.stages.jobs import score_models

    common = Model("", pooler, prompt, normalize)
    models = [Model.read(word, common) for word in model]
    if len(models) == 1:  # score_models checks each of several
        models[0].check()
    folder = paths.data_folder(data)  # after the check, since it may download
    task_names = read_tasks(tasks)
    with lease() as device:
        if len(models) == 1:
            read = scoring.read_tasks(task_names, folder)
            records = evaluate_model(models[0], read, mode, folder, out, device)
            print(score_tables({models[0].label: records}))
            return 0
        by_label, errors = score_models(models, task_names, mode, folder, out, device)
    if by_label:
        print(score_tables(by_label))
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    return 2 if errors else 0


@command()
def verify(
    result: Annotated[
        list[Path], arg("results/<suite>/scores/<run>.json, or a file of evaluate.", "RESULT")
    ],
    suite: OptionalSuite = None,
    data: Annotated[str | None, opt("The data, if not where RESULT says.", "NAME")] = None,
    device: Annotated[
        str | None, opt("By default a GPU if one is available.", **one_of(["cpu", "cuda"]))
    ] = None,
) -> int:
    """Recompute results from their encoders and compare.

    --suite names the folder with the run's encoder if RESULT is not in it. The exit status is 0 if
    all results are confirmed, 1 if one is not, and 2 if one cannot be recomputed.
    """
    from contextlib import nullcontext

    from bench.checks.verify import verify as verify_result
    from bench.stages.device import lease

    status = 0
    with nullcontext("cpu") if device == "cpu" else lease() as leased:
        if device == "cuda" and leased == "cpu":
            raise UserError("no GPU is visible; leave --device out, or write --device cpu")
        for path in result:
            try:
                verified = verify_result(path, suite, data, leased)
                print(verified.report(), flush=True)
                status = max(status, int(not verified.confirmed))
            except UserError as error:  # the other results are still verified
                print(f"error: {error}", file=sys.stderr)
                status = 2
    return status
