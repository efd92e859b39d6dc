"""Where things of a suite are: one folder a suite, one name a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import download
from bench.datasets import corpora, probing
from bench.datasets.manifest import check_listed
from bench.datasets.tasks import expand_tasks
from bench.registry.backbones import backbone, check_toy
from bench.utils.errors import UserError
from bench.utils.files import sha256_file, sha256_text, slug, write_text


def corpus_stamp(suite: Path, name: str) -> Path:
    """What says that a corpus is present and verified."""
    return suite / "inputs" / f"corpus-{slug(name)}.json"


def run_folder(suite: Path, run_id: str) -> Path:
    """The training's own folder; never a declared output, so that nothing deletes it."""
    return suite / "runs" / run_id


def tokens_folder(suite: Path) -> Path:
    """Corpora as token ids, which all runs of the suite read."""
    return suite / "tokens"


def trained_file(suite: Path, run_id: str) -> Path:
    return suite / "trained" / f"{run_id}.json"


def scores_file(suite: Path, run_id: str) -> Path:
    return suite / "scores" / f"{run_id}.json"


def analyses_file(suite: Path, run_id: str) -> Path:
    return suite / "analyses" / f"{run_id}.json"


def scoring_folder(suite: Path, run_id: str) -> Path:
    """What a scoring has finished so far; deleted once its scores are written."""
    return suite / "runs" / run_id / "scoring"


def data_folder(name: str, suite: Path) -> Path:
    """The data folder called `name`: world (the suite's own), senteval (BENCH_DATA or the hub), or a folder.

    Raises:
        UserError: it is not there.
    """
    if name == "senteval":
        return download.fetch_senteval()
    folder = _world(suite) if name == "world" else Path(name)
    if not (folder / "downstream").is_dir():
        raise UserError(f"data folder {folder} holds no downstream/; name a folder in SentEval's layout")
    return folder


def corpus_file(name: str, suite: Path, data_name: str = "senteval") -> Path:
    """The training corpus called `name`: world (the suite's own), one in BENCH_DATA or on the hub, or a file.

    Args:
        data_name: the data of whose tasks the corpora of `corpora.MADE` are made, in the suite.

    Raises:
        UserError: it is not there.
    """
    if name == "world":
        return corpora.corpus_path(name, _world(suite))
    if name in corpora.MADE:
        path = suite / "corpora" / slug(data_name) / f"{name}.txt"
        text = "".join(f"{sentence}\n" for sentence in corpora.MADE[name](data_folder(data_name, suite)))
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_text(path, text)
        return path
    return Path(name) if "/" in name else download.fetch_corpus(name)


def _world(suite: Path) -> Path:
    folder = suite / "world"
    if not folder.is_dir():
        raise UserError(f"{suite} has no embedded world; make it with: python -m bench world --out {folder}")
    return folder


def data_sums(folder: Path) -> dict[str, Any]:
    """How many task files a data folder holds, and the sum of their sums and names."""
    parts = (folder / "downstream", folder / "probing")
    files = sorted(path for part in parts for path in part.rglob("*") if path.is_file())
    sums = "\n".join(f"{sha256_file(path)}  {path.relative_to(folder).as_posix()}" for path in files)
    return {"files": len(files), "sha256": sha256_text(sums)}


def describe_input(
    kind: str, name: str, suite: Path, tasks: Sequence[str] = (), data_name: str = "senteval"
) -> dict[str, Any]:
    """Make an input of a suite present and say what it is: the content of `inputs/*.json`.

    Args:
        kind: data, corpus or backbone.
        tasks: of data, what will be scored: the probing files among them are fetched where `senteval` is.
        data_name: of the corpora "sts" and "cnsd": the data they are made of.

    Raises:
        UserError: it is not there, cannot be fetched, or is not what it should be.
    """
    if kind == "data":
        folder = data_folder(name, suite)
        check_listed(wanted := expand_tasks(tasks), folder)
        for task in wanted:
            if task in probing.FILES:
                download.probing_file(probing.FILES[task], folder)
        return {"kind": kind, "name": name, **data_sums(folder)}
    if kind == "corpus":
        return {"kind": kind, **corpora.corpus_identity(corpus_file(name, suite, data_name))}
    known = backbone(name)
    if known.source == "toy":
        check_toy(name)
    weights = [known.table()] if known.kind == "words" else sorted(known.folder().glob("*.safetensors"))
    return {"kind": kind, "name": name, "weights": {path.name: sha256_file(path) for path in weights}}
