"""What is on this machine already. Nothing is downloaded or verified here."""

from __future__ import annotations

from pathlib import Path

from bench.download.hub import DATASET, repository_of
from bench.download.local import CORPORA, cache_folder, corpus_path, local_folder
from bench.download.pins import COMMIT, pinned
from bench.utils.errors import UserError

ANSWER = 10.0  # seconds to wait for the hub


def has_senteval() -> bool:
    """Whether SentEval's data is in the folder BENCH_DATA, or in the cache if that is not set."""
    if folder := local_folder():
        return (folder / "downstream").is_dir()
    archives = cache_folder().glob("senteval*")
    return any(path.is_dir() or path.suffix == ".tar" for path in archives)


def has_corpus(name: str) -> bool:
    """Whether the file of a corpus is in the folder BENCH_DATA, or in the cache."""
    if not (folder := local_folder()):
        return (cache_folder() / CORPORA.get(name, name)).is_file()
    try:
        return corpus_path(name, folder).is_file()
    except UserError:
        return False


def has_model(repository: str) -> bool:
    """Whether a model is in the hub's own cache, at any commit if none is pinned."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    storage = Path(constants.HF_HUB_CACHE) / repo_folder_name(**repository_of(repository))
    revision = pinned(repository)["revision"] or ""
    commit = revision if COMMIT.fullmatch(revision) else "*"
    return any(storage.glob(f"snapshots/{commit}/config.json"))


def has_archive(name: str) -> bool:
    """Whether an archive of word vectors is in the cache."""
    return (cache_folder() / name).is_file()


def hub_answers() -> bool:
    """Whether the hub can be reached; a refusal is an answer, too."""
    import httpx2
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        HfApi(library_name="sentbench").repo_info(**repository_of(DATASET), timeout=ANSWER)
    except HfHubHTTPError:
        return True
    except (OfflineModeIsEnabled, httpx2.HTTPError, OSError):
        return False
    return True
