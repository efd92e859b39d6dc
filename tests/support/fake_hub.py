"""A small Hugging Face hub on the loopback, for tests of downloads.

It serves what huggingface_hub asks for: listings (`/api/.../revision/...`, `/api/.../tree/...`)
and files (`/.../resolve/...`, HEAD and GET, with ETag, commit, size and ranges). Answers can fail
in the ways of `Fault`. Plain files at any path (`raw`) stand in for other servers; `/moved/...`
serves `/...`, as the target of redirects.
"""

import hashlib
import json
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import tenacity.nap
from huggingface_hub import constants, file_download
from huggingface_hub.utils import _http

API = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(revision|tree)/(.+))?")
FILE = re.compile(r"(/datasets)?/([^/]+/[^/]+)/resolve/([^/]+|refs/pr/\d+)/(.+)")


@dataclass
class Fault:
    """What is wrong with an answer."""

    status: int | None = None  # instead of the answer
    headers: dict[str, str] = field(default_factory=dict)  # override the answer's own
    sent: int | None = None  # bytes of the body after which the connection ends
    reset: bool = False  # it ends by a reset
    times: int | None = None  # number of answers with the fault, by default all


@dataclass
class FakeHub:
    """The content of the hub. The key of a data set begins with `datasets/`."""

    endpoint: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    revisions: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)  # besides main
    raw: dict[str, bytes] = field(default_factory=dict)  # by path
    requests: list[str] = field(default_factory=list)
    tokens: list[tuple[str, str]] = field(default_factory=list)  # host, and the token it got
    served: dict[str, bytes] = field(default_factory=dict)  # by file name
    faults: dict[str, Fault] = field(default_factory=dict)  # by file name, "listing" or "*"

    def commit(self, key: str, revision: str = "main") -> str:
        """The commit of a revision: a digest of its files."""
        files = self.repositories[key] if revision == "main" else self.revisions[key, revision]
        parts = b"".join(name.encode() + content for name, content in sorted(files.items()))
        return hashlib.sha1(parts).hexdigest()

    def at(self, key: str, revision: str) -> dict[str, bytes] | None:
        """The files at a branch or commit."""
        owned = {name: files for (owner, name), files in self.revisions.items() if owner == key}
        branches = {"main": self.repositories[key]} | owned
        commits = {self.commit(key, name): files for name, files in branches.items()}
        return (branches | commits).get(revision)

    def fault(self, name: str) -> Fault:
        """The fault of the next answer about a file."""
        fault = self.faults.get(name) or self.faults.get("*") or Fault()
        if fault.times is None:
            return fault
        fault.times -= 1
        return fault if fault.times >= 0 else Fault()


def _entry(name: str, content: bytes) -> dict[str, Any]:
    # The hub lists a SHA-256 for files in LFS only; here that is everything but JSON.
    sha = None if name.endswith(".json") else hashlib.sha256(content).hexdigest()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    lfs = {"oid": sha, "sha256": sha, "size": len(content), "pointerSize": 130}
    return {"size": len(content), "oid": blob, "blobId": blob} | ({"lfs": lfs} if sha else {})


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body are sent separately

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        self.hub.tokens.append((self.headers["Host"], self.headers.get("Authorization", "")))
        moved = path.startswith("/moved/")
        path = path.removeprefix("/moved")
        listing = API.fullmatch(path)
        name = "listing" if listing else path.rsplit("/", 1)[-1]
        fault = Fault() if moved else self.hub.fault(name)
        file = FILE.fullmatch(path)
        if fault.status and not (file and fault.status == 302):  # a redirect has a file's headers
            return self._answer(fault.status, b"{}", {}, fault)
        if listing:
            kind, repository, what, revision = listing.groups()
            key = f"datasets/{repository}" if kind == "datasets" else repository
            return self._list(key, what, revision or "main", fault)
        if file:
            dataset, repository, revision, name = file.groups()
            key = f"datasets/{repository}" if dataset else repository
            return self._file(key, revision, name, fault)
        if path in self.hub.raw:
            return self._content(name, self.hub.raw[path], {}, fault)
        return self._answer(404, b"{}", {}, Fault())

    def _files(self, key: str, revision: str) -> dict[str, bytes] | None:
        if key not in self.hub.repositories:
            self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"}, Fault())
        elif (files := self.hub.at(key, revision)) is None:
            self._answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"}, Fault())
        else:
            return files
        return None

    def _list(self, key: str, what: str | None, revision: str, fault: Fault) -> None:
        content = self._files(key, revision)
        if content is None:
            return
        entries = {name: _entry(name, content) for name, content in content.items()}
        listing: Any = [{"type": "file", "path": name} | each for name, each in entries.items()]
        if what != "tree":
            siblings = [{"rfilename": name} | each for name, each in entries.items()]
            names = ["main", *(name for owner, name in self.hub.revisions if owner == key)]
            branch = next(name for name in names if self.hub.at(key, name) is content)
            commit, repository = self.hub.commit(key, branch), key.removeprefix("datasets/")
            listing = {"id": repository, "sha": commit, "siblings": siblings}
        self._answer(200, json.dumps(listing).encode(), {}, fault)

    def _file(self, key: str, revision: str, name: str, fault: Fault) -> None:
        files = self._files(key, revision)
        if files is None:
            return
        headers = {"X-Repo-Commit": self.hub.commit(key) if revision == "main" else revision}
        if name not in files:
            return self._answer(404, b"", headers | {"X-Error-Code": "EntryNotFound"}, Fault())
        entry = _entry(name, files[name])
        etag = entry["lfs"]["sha256"] if "lfs" in entry else entry["oid"]
        headers |= {"ETag": f'"{etag}"', "X-Linked-Size": str(len(files[name]))}
        if fault.status:
            return self._answer(fault.status, b"", headers, fault)
        self._content(name, files[name], headers, fault)

    def _content(self, name: str, announced: bytes, headers: dict[str, str], fault: Fault) -> None:
        content = self.hub.served.get(name, announced)
        headers = {**headers, "Accept-Ranges": "bytes"}
        status, start = 200, 0
        if match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or ""):
            status, start = 206, int(match[1])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return self._answer(status, content[start:], headers, fault)

    def _answer(self, status: int, body: bytes, headers: dict[str, str], fault: Fault) -> None:
        self.send_response(status)
        for header, value in {"Content-Length": str(len(body)), **headers, **fault.headers}.items():
            if value:
                self.send_header(header, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[: fault.sent])
        if fault.sent is not None:
            self.close_connection = True
        if fault.reset:  # closing with a linger time of 0 sends RST
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close the connection early."""


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """Run a hub during a `with` block."""
    hub = FakeHub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = _Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def isolate(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Give a test its own caches, pins' lock and token, and no server; retries do not wait."""
    environment = {"SENTBENCH_CACHE": folder / "cache", "HF_HUB_CACHE": folder / "models"}
    for name, value in (environment | {"HF_HUB_OFFLINE": 0, "HF_HUB_DISABLE_XET": 1}).items():
        monkeypatch.setenv(name, str(value))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("BENCH_DATA", "BENCH_MODELS"):
        monkeypatch.delenv(name, raising=False)
    # huggingface_hub reads the environment when it is imported.
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "models"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(folder / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    for module in (file_download, _http, tenacity.nap):
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=lambda seconds: None))
    use_endpoint(monkeypatch, "http://127.0.0.1:9")  # the discard port: nobody listens


def use_endpoint(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    """Set HF_ENDPOINT, here and in processes that the test starts."""
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
