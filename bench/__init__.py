"""The machinery of sentbench: from text to table. See docs/project/architecture.md."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.utils.version import __version__

__all__ = ["__version__", "score"]


def score(
    model: Any,
    tasks: str | Sequence[str] = "sts",
    data: str = "senteval",
    *,
    mode: str = "test",
    probe_seeds: Sequence[int] = (),
    out: Path | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Score an encoder as `sentbench evaluate` does, on a free GPU where there is one.

    >>> import sentbench
    >>> records = sentbench.score(model.encode, tasks=["STS-B"])  # doctest: +SKIP

    Args:
        model: a function that takes a list of texts and gives an array (n, d) of numpy or torch, of
            floating-point numbers, or an object with such a method `encode`, as a
            SentenceTransformer; or a hub id, or a folder.
        tasks: a name, or names, of tasks and groups: "STS-B", ["sts", "TREC"].
        data: "senteval" (the folder BENCH_DATA, else the hub), or a folder that holds downstream/.
        mode: how classifiers are trained: "test", as papers report, or "dev", fast.
        probe_seeds: further seeds of the classifiers, which score the same vectors again on the
            test split; the records have the aggregation "probe seed N".
        out: FILE.json for the records with their provenance, or a folder; with one, an interrupted
            evaluation can go on.
        options: how the model is read: `pooler`, `prompt`, `normalize`, `template`, `dims`, `dtype`
            (`bench.models.options.Options`, docs/how-to/encoders.md).

    Returns:
        A record for each score, a dict with task, split, metric, aggregation and value (points).
        The aggregation that papers report is "all", over all pairs or sentences of a task. STS12 to
        STS16 have several subsets; their "mean" and "wmean" are the means of the correlations of
        the subsets, plain and weighted by pairs. The task "Avg" is the mean of the seven STS or of
        the seven transfer tasks, where all of them are scored.

    Raises:
        UserError: the model, a task or a data file is not as it should be; or a function gives a
            text other vectors in another order or batch.
    """
    from bench.models.model import Model
    from bench.models.options import Options
    from bench.stages.encoders import score_models

    encoder = Model(model, Options(**options))
    (scored,), _ = score_models([encoder], tasks, data, mode, out, [*probe_seeds])
    return scored.records
