"""Download a file with the HTTP client of huggingface_hub, and explain failures in one sentence."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from bench.utils.errors import UserError
from bench.utils.files import disk_errors, fsync

T = TypeVar("T")
# As huggingface_hub's `http_backoff`.
WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds before each retry
TRANSIENT = (408, 429, 500, 502, 503, 504)  # statuses that are retried
_TOKEN = "set HF_TOKEN to a token that may read it"  # noqa: S105 (not a password)
_NO_ADDRESS = "is not a web address or redirects to none; check HF_ENDPOINT and GITHUB_RAW_ENDPOINT"
_REASONS = {  # class of an error of huggingface_hub or httpx2 -> what went wrong; how to fix it
    "OfflineModeIsEnabled": "it is not in the cache and HF_HUB_OFFLINE is set; unset HF_HUB_OFFLINE",
    "GatedRepoError": f"the repository is gated; accept its terms on its page and {_TOKEN}",
    "RepositoryNotFoundError": f"the repository does not exist or is private; check its name, {_TOKEN}",
    "RevisionNotFoundError": "the repository has no such revision; name another, or check HF_ENDPOINT",
    "EntryNotFoundError": "the repository has no such file; check HF_ENDPOINT",
    "HFValidationError": "this is not a repository name; write owner/name",
    "FileMetadataError": "{server} does not answer like a Hugging Face hub; check HF_ENDPOINT",
    "HfHubHTTPError": "{server} answers with status {status}; try again later",
    "ConnectError": "no connection to {server}; check the network and try again",
    "ConnectTimeout": "no connection to {server}; check the network and try again",
    "ProxyError": "no connection to {server}; check the proxy and try again",
    "TimeoutException": "{server} sent nothing for {limit} s; try again with a higher HF_HUB_DOWNLOAD_TIMEOUT",
    "TooManyRedirects": "{server} redirects in a circle; try again later",
    "UnsupportedProtocol": f"{{server}} {_NO_ADDRESS}",
    "InvalidURL": f"{{server}} {_NO_ADDRESS}",
    "HTTPError": "the connection to {server} broke; start again to resume",
}


@contextmanager
def one_sentence(what: str, alternative: str) -> Iterator[None]:
    """Turn errors of the network and of the hub into a `UserError` of one sentence.

    Args:
        what: the file or repository that is fetched.
        alternative: how the user can do without the download.
    """
    from huggingface_hub import constants

    try:
        yield
    except Exception as error:
        # hf_hub_download hides the error of its HEAD request behind a LocalEntryNotFoundError.
        cause = (
            error.__cause__
            if type(error).__name__ == "LocalEntryNotFoundError" and error.__cause__
            else error
        )
        reason = next(
            (_REASONS[kind.__name__] for kind in type(cause).__mro__ if kind.__name__ in _REASONS),
            None,
        )
        if reason is None:
            raise
        server = _server(cause)
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if (
            type(cause).__name__ == "HfHubHTTPError"
            and status in (401, 403)
            and server == constants.ENDPOINT
        ):
            reason = f"the hub denies access (status {status}); {_TOKEN}"
        reason = reason.format(
            server=server, status=status, limit=constants.HF_HUB_DOWNLOAD_TIMEOUT
        )
        raise UserError(f"cannot fetch {what}: {reason}, or {alternative}") from None


def _server(error: BaseException) -> str:
    from huggingface_hub import constants

    try:
        source: Any = getattr(error, "response", error)  # HfHubHTTPError loses its own `request`
        return "/".join(str(source.request.url).split("/")[:3])
    except (AttributeError, RuntimeError):  # no request was made
        return str(constants.ENDPOINT)


def retry(request: Callable[[], T]) -> T:
    """Repeat a request after server errors and broken connections.

    huggingface_hub itself retries downloads after timeouts and lost connections, but not after
    resets and statuses 5xx. It does not retry listings.
    """
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError

    for wait in WAITS:
        try:
            return request()
        except (HfHubHTTPError, httpx2.ReadError, httpx2.RemoteProtocolError) as error:
            if isinstance(error, HfHubHTTPError) and error.response.status_code not in TRANSIENT:
                raise
        time.sleep(wait)
    return request()


def download(
    url: str,
    target: Path,
    verify: Callable[[Path], str],
    *,
    part: Path | None = None,
    headers: Mapping[str, str] | None = None,
    size: int | None = None,
) -> str:
    """Download a file; `target` exists only once the file is complete and verified.

    `hf_hub_download` compares sizes only. It names its partial files at random, so it cannot
    resume after the process was killed. The caller holds a lock.

    Args:
        url: where the file is.
        target: path of the finished file.
        verify: raises `UserError` if the file at a path has the wrong content.
        part: path of the partial file on the same file system, by default beside `target`.
        headers: of the request.
        size: bytes of the whole file; without it, partial files of earlier calls are discarded.

    Returns:
        What `verify` returns.
    """
    part = part or target.with_name(f".{target.name}.fetching")
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        resumed = size is not None and part.exists() and 0 < part.stat().st_size <= size
        try:
            with open(part, "ab" if resumed else "wb") as stream:
                if stream.tell() != size:
                    _receive(url, stream, headers or {})
            result = verify(part)
        except UserError:
            part.unlink()
            if not resumed:
                raise
            # The partial file was perhaps not the beginning of this file: start over.
            return download(url, target, verify, part=part, headers=headers, size=size)
        except Exception:
            if part.exists() and not part.stat().st_size:
                part.unlink()
            raise
        fsync(part)
        os.replace(part, target)
        fsync(target.parent)
    return result


def _receive(url: str, stream: BinaryIO, headers: Mapping[str, str]) -> None:
    """Append to `stream` what it lacks of a file."""
    from huggingface_hub.file_download import http_get

    # Uncompressed: a range of a compressed answer is not a range of the file.
    headers = {**headers, "Accept-Encoding": "identity"}
    try:
        retry(lambda: http_get(url, stream, resume_size=stream.tell(), headers=headers))
    except OSError as error:
        if type(error) is OSError and error.errno is None:  # how http_get reports a wrong size
            raise UserError(
                f"{url} does not have the size that its server announces; fetch it again"
            ) from None
        raise
