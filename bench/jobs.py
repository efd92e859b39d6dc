"""A run of a suite, from its words to its files; and any encoder, to a file of scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import paths
from bench.encoders import Encoder, TransformerEncoder, load_encoder
from bench.errors import UserError
from bench.evaluate import read_tasks, score_tasks
from bench.files import read_json, write_json
from bench.provenance import provenance
from bench.records import STS_TASKS, Record, write_scores
from bench.suite import Run, resolve
from bench.tasks import sts


class _UntrainedContext:
    """What an untrained method needs of `methods.base.Context`: the raw backbone with a pooler."""

    def __init__(self, run: Run, suite: Path, device: str) -> None:
        self.seed, self.shape = 0, run.backbone.shape
        self._run, self._suite, self._device = run, suite, device

    def sentences(self) -> Sequence[str]:
        raise NotImplementedError("an untrained method has no corpus")

    def encoder(self, pooler: str | None = None) -> Encoder:
        stored = {"pooler": pooler or self._run.evaluation_pooler}
        return TransformerEncoder.load(self._run.backbone.folder(self._suite), stored, device=self._device)


def train_run(run: Run, suite: Path, device: str) -> dict[str, Any]:
    """Train a run of a suite in its own folder; one that has ended there is not trained again."""
    from bench.train import train

    return train(
        run,
        backbone=run.backbone.folder(suite),
        corpus=paths.corpus_file(run.corpus, suite),
        data=paths.data_folder(run.data, suite),
        folder=paths.run_folder(suite, run.id),
        device=device,
    )


def score_run(run: Run, suite: Path, tasks: Sequence[str], out: Path, device: str) -> None:
    """Score a run of a suite; one that was skipped or diverged leaves a file without records that says so."""
    data = paths.data_folder(run.data, suite)
    described: dict[str, Any] = {"run": run.describe(), "data": {"name": sts.manifest(data)["name"]}}
    for kind in ("data", "corpus"):
        stamp = suite / "inputs" / f"{kind}.json"
        if stamp.is_file():
            described[kind] = described.get(kind, {}) | read_json(stamp)
    described["outcome"] = _outcome(run, suite)
    described |= provenance(device, threads=1)
    if described["outcome"]["status"] != "finished":
        write_scores(out, described, [])
        return
    if run.trained:
        encoder = load_encoder(paths.run_folder(suite, run.id) / "encoder", device=device)
    else:
        encoder = run.build().encoder(_UntrainedContext(run, suite, device))
    common = {
        "source": "sentbench",
        "method": run.text,
        "backbone": run.backbone.name,
        "variant": run.setting,
        "seed": run.seed,
    }
    write_scores(
        out,
        described | {"encoder": encoder.identity},
        [common | record for record in score_tasks(encoder, read_tasks(tasks, data))],
    )


def run_plan(suite: Path, device: str, share: tuple[int, int] = (1, 1)) -> Iterator[Run]:
    """Train and score, in this process, what `plan.json` of a suite names; yields each run once it is scored.

    For machines without a workflow, and where starting a process costs more than its work.

    Args:
        suite: the suite's folder; its world, backbones and inputs are there already.
        share: (k, n) takes every n-th run, from the k-th on.
    """
    plan = read_json(suite / "plan.json")
    part, parts = share
    in_order = sorted(plan["runs"], key=lambda entry: entry["seed"] or 0)  # seed by seed: cut short, it has all methods
    for entry in in_order[part - 1 :: parts]:
        run = resolve(
            f"{entry['method']}@{entry['setting']}",
            backbone_name=entry["backbone"],
            corpus=plan["corpus"],
            data=plan["data"],
            seed=entry["seed"],
            recipe=entry["recipe_changes"],
        )
        scores = paths.scores_file(suite, run.id)
        if not scores.is_file():
            if run.trained:
                write_json(paths.trained_file(suite, run.id), train_run(run, suite, device))
            score_run(run, suite, ["sts"], scores, device)
        yield run


def _outcome(run: Run, suite: Path) -> dict[str, Any]:
    if run.skip:
        return {"status": "skipped", "reason": run.skip}
    if not run.trained:
        return {"status": "finished"}
    return read_json(paths.trained_file(suite, run.id))["outcome"]


def score_model(model: str, pooler: str | None, tasks: Sequence[str], data: Path, out: Path, device: str) -> str:
    """Score any encoder on tasks, write the records, and return a table to print.

    Raises:
        UserError: the model, the pooler, a task or a data file is not as it should be.
    """
    if out.is_dir():
        raise UserError(f"--out {out} is a folder; name a file")
    read = read_tasks(tasks, data)
    encoder = load_encoder(model, pooler=pooler, device=device)
    name = getattr(encoder, "pooler", encoder.kind)
    common = {
        "source": "sentbench",
        "method": f"encoder[{name}]",
        "backbone": str(model),
        "variant": None,
        "seed": None,
    }
    records = [common | record for record in score_tasks(encoder, read)]
    described = {"data": {"name": sts.manifest(data)["name"], "folder": str(data)}, "encoder": encoder.identity}
    write_scores(out, described | provenance(device, threads=1), records)
    return table(records)


def table(records: Sequence[Record]) -> str:
    """Records as the papers print them, one line an aggregation or split, for the terminal."""
    lines: dict[str, dict[str, float]] = {}
    for record in records:
        title = record["aggregation"] if record["split"] == "test" else record["split"]
        lines.setdefault(title, {})[record["task"]] = record["value"]
    columns = [task for task in (*STS_TASKS, "Avg") if any(task in line for line in lines.values())]
    rows = ["".join([f"{'':8}", *(f"{task:>8}" for task in columns)])]
    for title, line in lines.items():
        cells = (f"{line[task]:8.2f}" if task in line else f"{'':8}" for task in columns)
        rows.append(f"{title:8}" + "".join(cells))
    return "\n".join(rows)
