"""Commands that score, compare and verify any encoders, and that check methods."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from bench.cli.parameters import (
    DATA_HELP,
    Mode,
    OptionalSuite,
    Tasks,
    arg,
    command,
    one_of,
    opt,
    parse_tasks,
)
from bench.report import LEADERBOARD_FORMATS
from bench.utils.documents import document
from bench.utils.errors import UserError, warn


@command("check-method", epilog="Example: sentbench check-method examples/spread_out.py")
def check_method(file: Annotated[Path, arg("A file with methods.", "FILE.py")]) -> int:
    """Check a file of methods against the contract.

    The command prints one line per clause. It stops at the first that does not hold, with exit
    status 1.
    """
    from bench.checks.method_contract import check_contract

    return check_contract(file)


def score_tables(encoders: Sequence[Any], form: str = "text", **origin: Any) -> str:
    """The leaderboards of each `ScoredEncoder` in one of `LEADERBOARD_FORMATS`: as CSV a line per
    score, with all digits. For `origin` see `bench.judge.stage.judge_encoders`."""
    if form == "csv":
        import pandas as pd

        from bench.datasets.metrics import Cell
        from bench.report.formats import csv

        lines = [
            {"model": encoder.label, **record} for encoder in encoders for record in encoder.records
        ]
        return csv(pd.DataFrame(lines, columns=["model", *Cell._fields, "value"])).strip()
    from bench.judge.stage import judge_encoders
    from bench.report.leaderboard import show_leaderboards

    judged = judge_encoders(encoders, **origin)
    return show_leaderboards(judged, form, judged.systems)


@command(epilog="Example: sentbench evaluate toy-bert --pooler avg --data world")
def evaluate(
    model: Annotated[
        list[str],
        arg(
            "A hub id, a folder (of Hugging Face, sentence-transformers or a run), or "
            "module:function. Each of several models can have its own options: "
            f"MODEL[pooler=avg,prompt=query,normalize] ({document('how-to/encoders')}).",
            "MODEL",
        ),
    ],
    out: Annotated[
        Path | None, opt("Write records to FILE.json, of one model, or to a folder.", "PATH")
    ] = None,
    form: Annotated[
        str, opt("The format of the table.", name="--format", **one_of(LEADERBOARD_FORMATS))
    ] = "text",
    pooler: Annotated[
        str | None, opt("The pooler, which is needed if the model stores none.", "NAME")
    ] = None,
    prompt: Annotated[str | None, opt("A prompt of the model, or '' for none.", "NAME")] = None,
    normalize: Annotated[bool, opt("Scale vectors to length 1.", name="--normalize")] = False,
    template: Annotated[
        str | None, opt(f"A text with '<sentence>' in it ({document('how-to/encoders')}).", "TEXT")
    ] = None,
    dims: Annotated[
        int | None, opt("Keep only the first N dimensions of vectors.", "N", min=1)
    ] = None,
    dtype: Annotated[
        str, opt("The type of weights and states.", **one_of(["float32", "bfloat16"]))
    ] = "float32",
    tasks: Tasks = ["sts"],
    mode: Mode = "test",
    probe_seeds: Annotated[
        list[int], opt("Train the classifiers also with each of these seeds.", "N ...")
    ] = [],
    data: Annotated[str, opt(f"The evaluation data: {DATA_HELP}.", "NAME")] = "senteval",
) -> int:
    """Score one or more encoders, and print a table.

    Without --out nothing is written, and an interrupted evaluation starts again.
    """
    from bench.models.model import Model
    from bench.stages.encoders import score_models

    common = {
        "pooler": pooler, "prompt": prompt, "normalize": normalize, "template": template,
        "dims": dims, "dtype": dtype,
    }  # fmt: skip
    models = [member for word in model for member in Model.read(word, common)]
    scored, errors = score_models(models, parse_tasks(tasks), data, mode, out, probe_seeds)
    if scored:
        print(score_tables(scored, form, data=data, mode=mode, probe_seeds=probe_seeds))
    # After the table, so that they stand at the end of a long output.
    for error in errors:
        warn(f"error: {error}")
    return 2 if errors else 0


COMPARED = "An encoder, as evaluate takes it. With --suite, a method or label of the suite."


@command(epilog="Example: sentbench compare gs-infonce simcse --suite smoke")
def compare(
    a: Annotated[str, arg(COMPARED, "A")],
    b: Annotated[str, arg(COMPARED, "B")],
    suite: OptionalSuite = None,
    tasks: Tasks = [],
    mode: Mode = "test",
    data: Annotated[str, opt(f"The evaluation data: {DATA_HELP}.", "NAME")] = "senteval",
    out: Annotated[
        Path | None, opt("Write records and test items to this folder.", "FOLDER")
    ] = None,
) -> None:
    """Compare two encoders, or two rows of a suite.

    Encoders are scored first, by default on sts; with --out the same command continues an
    interrupted comparison. With --suite nothing is scored, and only claims of the suite have
    verdicts, as `show` has them.
    """
    from bench.report.comparison_table import two_compared

    if not suite:
        from bench.judge.stage import judge_encoders
        from bench.stages.encoders import score_pair

        scored = score_pair([a, b], parse_tasks(tasks) or ["sts"], data, mode, out)
        judged = judge_encoders(scored, data, mode)
        print(two_compared(judged.suite, judged.pairs, "no test items are kept"))
        return
    if tasks or out:
        raise UserError("--suite compares scores that exist; omit --tasks and --out")
    from bench.judge.stage import compared, read_suite
    from bench.runs.naming import planned_text

    judged = read_suite(suite)
    pairs = compared(judged, planned_text(suite, b), [planned_text(suite, a)])
    # Claims have a direction, the baseline as B.
    print(two_compared(judged.suite, pairs, "A - B is not a claim of this suite"))


@command(epilog="Example: sentbench verify results/smoke/scores/simcse*.json")
def verify(
    result: Annotated[
        list[Path],
        arg("Files of scores, of a suite or of evaluate.", "RESULT"),
    ],
    suite: OptionalSuite = None,
    data: Annotated[str | None, opt("The data, if they are not where RESULT says.", "NAME")] = None,
) -> int:
    """Recompute scores from their encoders, and compare.

    --suite names the suite with the encoder if RESULT is in another folder. The exit status is 0 if
    all results are confirmed, 1 if one is not, and 2 if one cannot be recomputed.
    """
    from bench.checks.verify import verify as verify_result
    from bench.stages.device import lease

    status = 0
    with lease() as device:  # held for all results, so that no other job takes it in between
        for path in result:
            try:
                verified = verify_result(path, suite, data, device)
                print(verified.report(), flush=True)
                status = max(status, int(not verified.confirmed))
            except UserError as error:  # the other results are still verified
                warn(f"error: {error}")
                status = 2
    return status
