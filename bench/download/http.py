"""Failures of huggingface_hub's requests: repeat the request, or explain them in one sentence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from bench.utils.errors import TransientError, UserError

T = TypeVar("T")
# As huggingface_hub's `http_backoff`.
WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds before each retry
TRANSIENT = (408, 429, 500, 502, 503, 504)  # statuses that are retried
_TOKEN = "set HF_TOKEN to a token that may read it"  # noqa: S105 (not a password)
_NO_ADDRESS = "is not a web address or redirects to none; check HF_ENDPOINT and GITHUB_RAW_ENDPOINT"
_SLOW = "try again with a higher HF_HUB_DOWNLOAD_TIMEOUT"
_OFFLINE = "it is not in the cache and HF_HUB_OFFLINE is set; unset HF_HUB_OFFLINE"
_ABSENT = f"the repository does not exist or is private; check its name, {_TOKEN}"
_REVISION = "the repository has no such revision; name another, or check HF_ENDPOINT"
_REASONS = {  # class of an error of huggingface_hub or httpx2 -> what went wrong; how to fix it
    "OfflineModeIsEnabled": _OFFLINE,
    "GatedRepoError": f"the repository is gated; accept its terms on its page and {_TOKEN}",
    "RepositoryNotFoundError": _ABSENT,
    "RevisionNotFoundError": _REVISION,
    "EntryNotFoundError": "the repository has no such file; check HF_ENDPOINT",
    "HFValidationError": "this is not a repository name; write owner/name",
    "FileMetadataError": "{server} does not answer like a Hugging Face hub; check HF_ENDPOINT",
    "HfHubHTTPError": "{server} answers with status {status}; try again later",
    "ConnectError": "no connection to {server}; check the network and try again",
    "ConnectTimeout": "no connection to {server}; check the network and try again",
    "ProxyError": "no connection to {server}; check the proxy and try again",
    "TimeoutException": f"{{server}} sent nothing for {{limit}} s; {_SLOW}",
    "TooManyRedirects": "{server} redirects in a circle; try again later",
    "UnsupportedProtocol": f"{{server}} {_NO_ADDRESS}",
    "InvalidURL": f"{{server}} {_NO_ADDRESS}",
    "HTTPError": "the connection to {server} broke; try again later",
}
_LASTING = {  # those of them that another attempt meets again
    "OfflineModeIsEnabled",
    "GatedRepoError",
    "RepositoryNotFoundError",
    "RevisionNotFoundError",
    "EntryNotFoundError",
    "HFValidationError",
    "UnsupportedProtocol",
    "InvalidURL",
}


@contextmanager
def one_sentence(what: str, alternative: str) -> Iterator[None]:
    """Turn errors of the network and of the hub into a `UserError` of one sentence, which is a
    `TransientError` if another attempt may succeed.

    Args:
        what: the file or repository that is fetched.
        alternative: how the user can do without the download.
    """
    from huggingface_hub import constants

    try:
        yield
    except Exception as error:
        # hf_hub_download hides the error of its HEAD request behind a LocalEntryNotFoundError.
        is_hidden = type(error).__name__ == "LocalEntryNotFoundError"
        cause = (is_hidden and error.__cause__) or error
        names = [kind.__name__ for kind in type(cause).__mro__]
        known = next((name for name in names if name in _REASONS), "")
        reason, kind = _REASONS.get(known), UserError if known in _LASTING else TransientError
        if type(cause) is OSError and cause.errno is None:  # how http_get reports a wrong size
            reason = "it does not have the size that its server announces; fetch it again"
        if reason is None:
            raise
        server, limit = _server(cause), constants.HF_HUB_DOWNLOAD_TIMEOUT
        status = getattr(getattr(cause, "response", None), "status_code", None)
        is_denied = names[0] == "HfHubHTTPError" and status in (401, 403)
        if is_denied and server == constants.ENDPOINT:
            reason, kind = f"the hub denies access (status {status}); {_TOKEN}", UserError
        reason = reason.format(server=server, status=status, limit=limit)
        raise kind(f"cannot fetch {what}: {reason}, or {alternative}") from None


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
