"""Bytes of a server: asked for again, continued where they broke off, and never waited for without end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from bench.utils.errors import UserError
from bench.utils.files import disk_errors, fsync
from bench.utils.progress import Progress

if TYPE_CHECKING:
    from httpx2 import Response

WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds before the further tries; doubled, as servers ask of their clients
LONGEST_WAIT = 60.0  # seconds that a server may ask to be left alone (Retry-After) before that is an error
PASSING = (408, 429, 500, 502, 503, 504)  # statuses that may be another at the next try
SLOWEST = 1 << 10  # bytes a second; a connection that gives fewer over a whole time limit counts as stuck
GAIN = 1 << 20  # bytes after which a connection that broke off was worth it, and tries are counted anew
LARGEST = 1 << 34  # bytes; nothing that is fetched comes near, so what has no announced end ends here
MEGABYTE = 10**6  # what a progress bar counts; it shows for ten of them or more


class Failure(Exception):
    """Why nothing came, and what may help.

    Attributes:
        code: the server's word for it (X-Error-Code), else its status, else empty.
    """

    def __init__(self, reason: str, remedy: str, code: str = "") -> None:
        super().__init__(reason)
        self.reason, self.remedy, self.code = reason, remedy, code


class _Passing(Failure):
    """A failure that may be none at the next try, after `wait` seconds at least."""

    wait = 0.0


def time_limit() -> float:
    """Seconds without a byte (or with too few, see `SLOWEST`) after which a connection is given up: 10 by default."""
    from huggingface_hub import constants

    return float(constants.HF_HUB_DOWNLOAD_TIMEOUT)


def fetch_verified(
    url: str,
    part: Path,
    target: Path,
    check: Callable[[Path], str],
    *,
    headers: Mapping[str, str] | None = None,
    size: int | None = None,
    title: str = "",
) -> str:
    """Bring the file at `url` to `target`, whole and right, or not at all; returns what `check` gives.

    What has arrived when a connection breaks off, or this process is killed, lies in `part`, and the next call goes on
    from there. Nobody else may be fetching it.

    Args:
        part: on the same disk as `target`.
        check: raises a UserError unless the file at a path is the right one.
        headers, size, title: as `receive` has them.

    Raises:
        Failure: it cannot be had.
        UserError: it is not the right one, or cannot be stored.
    """
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        resumed = part.exists()
        try:
            with open(part, "ab+") as stream:
                receive(url, stream, headers=headers, size=size, title=title or target.name)
        except Failure:
            if not part.stat().st_size:
                part.unlink()
            raise
        try:
            checked = check(part)
        except UserError:
            part.unlink()
            if resumed:  # an earlier call may have left the beginning of something else
                return fetch_verified(url, part, target, check, headers=headers, size=size, title=title)
            raise
        fsync(part)
        os.replace(part, target)
        fsync(target.parent)
    return checked


def receive(
    url: str, stream: BinaryIO, *, headers: Mapping[str, str] | None = None, size: int | None = None, title: str = ""
) -> None:
    """Append to `stream` what it lacks of the file at `url`; whether it is the right one is for the caller to see.

    Args:
        stream: open for appending and truncating; it may hold the file's beginning.
        size: bytes of the whole file, where known.
        title: what a progress bar calls it.

    Raises:
        Failure: it cannot be had; what has arrived stays in `stream` unless it cannot be of that file.
        OSError: it cannot be stored.
    """
    tries, answered = 0, False
    while True:
        start = stream.seek(0, os.SEEK_END)
        if size is not None and start > size:
            start = _empty(stream)
        if start == size:
            return
        try:
            return _try(url, stream, headers or {}, size, title)
        except _Passing as failure:
            arrived = stream.seek(0, os.SEEK_END)
            tries = 0 if arrived - start >= GAIN else tries + 1
            answered = answered or bool(failure.code) or arrived > 0
            if tries > len(WAITS) or not answered:
                raise
            time.sleep(max(failure.wait, WAITS[max(tries, 1) - 1]))


def _try(url: str, stream: BinaryIO, headers: Mapping[str, str], size: int | None, title: str) -> None:
    import httpx2
    from huggingface_hub import errors, get_session

    limit, server = time_limit(), "/".join(url.split("/")[:3])
    start = stream.seek(0, os.SEEK_END)
    asked = {**headers, "Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})

    def so_far() -> str:
        return f"after {stream.tell()} of {size} bytes" if size is not None else f"after {stream.tell()} bytes"

    try:
        with get_session().stream("GET", url, headers=asked, timeout=limit) as response:
            if response.status_code == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                pass
            elif response.status_code in (206, 416):  # another part than asked for, or none: from the beginning then
                _empty(stream)
                raise _Passing(f"{server} does not give the rest of it", "try again", "416")
            elif response.status_code == 200:
                _empty(stream)
            else:
                raise _refusal(server, response)
            _store(response.iter_bytes(), stream, size, limit, title)
            if size is not None and (arrived := stream.tell()) < size:
                if "Content-Length" not in response.headers:  # an end and a break look alike then
                    raise httpx2.ReadError("no end was announced")
                _empty(stream)
                raise Failure(f"it ends after {arrived} of {size} bytes", "fetch it again")
    except errors.OfflineModeIsEnabled:
        raise Failure(
            "HF_HUB_OFFLINE forbids connections and it is not in the cache", "unset it and try again"
        ) from None
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError):
        raise _Passing(f"no connection to {server}", "connect and try again") from None
    except (httpx2.TimeoutException, TimeoutError):
        raise _Passing(
            f"{server} sends nothing or next to nothing for {limit:g} s, {so_far()}",
            "start again with a higher HF_HUB_DOWNLOAD_TIMEOUT",
            "slow",
        ) from None
    except httpx2.TooManyRedirects:
        raise Failure(f"{server} redirects in a circle", "try again later") from None
    except (httpx2.UnsupportedProtocol, httpx2.InvalidURL):
        if url.startswith(("http://", "https://")):
            raise Failure(
                f"{server} redirects to what is no web address, which is refused", "try again later"
            ) from None
        raise Failure(f"'{server}' is no web address", "mend HF_ENDPOINT or GITHUB_RAW_ENDPOINT") from None
    except httpx2.HTTPError:
        raise _Passing(f"the connection broke off {so_far()}", "start again to go on from there", "broken") from None


def _empty(stream: BinaryIO) -> int:
    stream.seek(0)
    return stream.truncate()


def _refusal(server: str, response: Response) -> Failure:
    """What a status other than success means."""
    status, headers = response.status_code, response.headers
    reason, code = f"{server} answers with status {status}", headers.get("X-Error-Code") or str(status)
    if status not in PASSING:
        return Failure(reason, "connect and try again", code)
    wait = _seconds(headers.get("Retry-After", ""))
    if wait > LONGEST_WAIT:
        return Failure(f"{reason} and asks to be left alone for {wait:.0f} s", "try again then", code)
    failure = _Passing(f"{reason}, however often it is asked", "try again later", code)
    failure.wait = wait
    return failure


def _seconds(retry_after: str) -> float:
    """A header's seconds from now, given as such or as a date; 0 where it says neither."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(parsedate_to_datetime(retry_after).timestamp() - time.time(), 0.0)
    except ValueError:
        return 0.0


def _store(chunks: Iterator[bytes], stream: BinaryIO, size: int | None, limit: float, title: str) -> None:
    """Append all chunks, unless they are too many or come too slowly."""
    start = before = stream.seek(0, os.SEEK_END)
    since, total = time.monotonic(), (size or 0) // MEGABYTE
    bar = Progress(total, title, "megabyte", start // MEGABYTE) if total >= 10 else nullcontext()
    with bar as progress:
        for chunk in chunks:
            stream.write(chunk)
            stream.flush()  # so a process that is killed leaves what it has
            arrived = stream.tell()
            if arrived > (LARGEST if size is None else size):
                _empty(stream)
                raise Failure(f"it goes on after the {size or LARGEST} bytes that it may have", "fetch it again")
            if progress and arrived // MEGABYTE > progress.done:
                progress.advance(arrived // MEGABYTE - progress.done)
            if (now := time.monotonic()) - since >= limit:
                if arrived - before < SLOWEST * limit:
                    raise TimeoutError
                since, before = now, arrived
