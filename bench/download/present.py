"""What is on this machine already. Nothing is downloaded or verified here."""

from pathlib import Path

from bench.download.hub import DATASET, pinned, repository_of
from bench.download.local import CORPORA, cache_folder, corpus_path, local_folder
from bench.utils.errors import UserError

ANSWER = 10.0  # seconds to wait for the hub


def has_senteval() -> bool:
    """Whether SentEval's data is in the folder BENCH_DATA, or in the cache if that is not set."""
    folder = local_folder()
    if folder:
        return (folder / "downstream").is_dir()
    return any(cache_folder().glob("senteval-*/")) or _is_cached(DATASET, "senteval.tar")


def has_corpus(name: str) -> bool:
    """Whether the file of a corpus is in the folder BENCH_DATA, or in the cache."""
    folder = local_folder()
    if not folder:
        return _is_cached(DATASET, CORPORA.get(name, name))
    try:
        return corpus_path(name, folder).is_file()
    except UserError:
        return False


def has_model(repository: str) -> bool:
    """Whether a model is in the hub's cache."""
    return _is_cached(repository, "config.json")


def has_archive(name: str) -> bool:
    """Whether an archive of word vectors is in the hub's cache."""
    from huggingface_hub import constants

    return any(Path(constants.HF_HUB_CACHE).glob(f"models--*/snapshots/*/{name}"))


def _is_cached(key: str, name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    repository, _, named = key.partition("@")
    revision = pinned(key)[0] or named or "main"
    cached = try_to_load_from_cache(filename=name, revision=revision, **repository_of(repository))
    return isinstance(cached, str)


def hub_answers() -> bool:
    """Whether the hub can be reached; a refusal is an answer, too."""
    from httpx2 import HTTPError
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=ANSWER)
    except (HTTPError, OSError):  # the second if HF_HUB_OFFLINE is set
        return False
    return True
