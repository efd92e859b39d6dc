"""Files and folders of a suite.

Each suite has one folder, and each run's files are named by its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import download, world
from bench.datasets import corpora
from bench.datasets.manifest import listed_task, manifest
from bench.datasets.tasks import PROBING_TASKS, TASKS, expand_tasks
from bench.download.hub import local_folder, local_model, probing_file
from bench.download.sums import file_sum
from bench.registry.backbones import TOY_FOLDER, backbone, encoder_files, local_models
from bench.runs import STAGES
from bench.utils.errors import UserError, suggestion
from bench.utils.files import sha256_listed, slug, write_text

if TYPE_CHECKING:
    from bench.runs.run import Run


def run_folder(suite_dir: Path, run_id: str) -> Path:
    """Checkpoints and encoder of a training; no declared output of the workflow, which would delete
    it when the job starts again."""
    return suite_dir / "runs" / run_id


def result_file(suite_dir: Path, run_id: str, stage: str) -> Path:
    """The file into which a stage of a run writes its results."""
    return suite_dir / STAGES[stage] / f"{run_id}.json"


def items_file(suite_dir: Path, run_id: str) -> Path:
    """The test items of the scores of an encoder without a seed (`bench.results.records`)."""
    return suite_dir / "items" / f"{run_id}.npz"


def tokens_folder(suite_dir: Path) -> Path:
    """Token ids of corpora and of the tasks' sentences, shared by all runs of the suite."""
    return suite_dir / "tokens"


def data_folder(name: str) -> Path:
    """The folder of evaluation data: "world" (the toy data), "senteval" (from BENCH_DATA,
    else downloaded), or a path, whose layout is checked."""
    if name == "senteval":
        return download.fetch_senteval()
    if name == "world":
        return world.world_data_folder()
    folder = Path(name)
    if not (folder / "downstream").is_dir():
        problem = "holds no downstream/" if folder.is_dir() else "does not exist"
        remedy = (
            suggestion(name, ("world", "senteval"))
            or "; name a folder in SentEval's layout, world or senteval"
        )
        raise UserError(f"data folder {folder} {problem}{remedy}")
    return folder


def local_data(name: str) -> Path | None:
    """The `data_folder` of a name, None for "senteval" without BENCH_DATA."""
    return local_folder() if name == "senteval" else data_folder(name)


class Files:
    """The files behind the names of a suite's inputs. Each name is looked up once a job: a data
    folder is checked, and a corpus that is made of the data is built again to compare it."""

    def __init__(self, suite: Path, data: str = "senteval") -> None:
        """Take the suite's folder and the name of its evaluation data."""
        self.suite, self.data_name = suite, data
        self.corpus = cache(self._corpus)

    @cached_property
    def data(self) -> Path:
        return data_folder(self.data_name)

    def _corpus(self, name: str) -> Path:
        """The file of a training corpus: of `corpora.WORLDS` (in the toy data), of
        `corpora.MADE` (built in the suite folder from the evaluation data), of another name (in
        BENCH_DATA, else downloaded), or a path."""
        if name in corpora.WORLDS:
            return world.world_data_folder() / corpora.WORLDS[name]
        if name in corpora.MADE:
            path = self.suite / "corpora" / slug(self.data_name) / f"{name}.txt"
            text = "".join(f"{sentence}\n" for sentence in corpora.MADE[name](self.data))
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                write_text(path, text)
            return path
        if "/" in name:
            return Path(name)
        return download.fetch_corpus(name)


def data_sums(folder: Path) -> dict[str, Any]:
    """Number of task files in a data folder, and a SHA-256 over their checksums and names."""
    sums = {}
    for path in sorted([*(folder / "downstream").rglob("*"), *(folder / "probing").rglob("*")]):
        if path.is_file():
            sums[path.relative_to(folder).as_posix()] = file_sum(path)
    return {"files": len(sums), "sha256": sha256_listed(sums)}


def describe_data(folder: Path) -> dict[str, Any]:
    """The name of a data folder, and its `data_sums`."""
    return {"name": manifest(folder).name, **data_sums(folder)}


def file_sums(run: Run, files: Files) -> dict[str, str]:
    """Checksums of files that a run reads by a name that does not identify them: of models of the
    hub in BENCH_MODELS, and of the list of documents beside a corpus."""
    models = run.hub_models
    if run.pretrained.source == "hub":
        models[run.reference] = run.pretrained.location
    sums: dict[str, str] = {}
    for name, location in sorted(models.items()):
        copy = local_models().get(name) or local_model(location)
        if copy and copy.is_file():  # a table of word vectors
            sums[copy.name] = file_sum(copy)
        elif copy:
            sums |= {f"{name}/{file}": digest for file, digest in encoder_files(copy).items()}
    if run.structure == "documents":
        table = corpora.documents_table(files.corpus(run.corpus))
        sums[table.name] = file_sum(table)
    return sums


def describe_input(
    kind: str, name: str, suite_dir: Path, tasks: Sequence[str] = (), data_name: str = "senteval"
) -> dict[str, Any]:
    """Download or build an input of a suite if needed, "data" for `tasks`, a "corpus" as
    `Files.corpus`, or a "backbone"; check it, and return its checksums, the content of
    `inputs/*.json`."""
    if kind == "data":
        folder = data_folder(name)
        for task in expand_tasks(tasks):
            listed_task(task, folder)
            if task in PROBING_TASKS:
                probing_file(folder / TASKS[task].path)
        return {"kind": kind, **describe_data(folder)}
    if kind == "corpus":
        return {"kind": kind, **corpora.corpus_identity(Files(suite_dir, data_name).corpus(name))}
    used = backbone(name)
    if used.source == "toy":
        world.check_world(TOY_FOLDER, f"{name}/")
    if used.kind == "words":
        files = {used.table().name: file_sum(used.table())}
    else:
        files = encoder_files(used.folder())
    return {"kind": kind, "name": name, "files": files}
