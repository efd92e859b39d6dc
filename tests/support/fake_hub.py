"""A small Hugging Face hub on the loopback, for tests of downloads.

It serves what huggingface_hub asks for: listings (`/api/.../revision/...`, `/api/.../tree/...`)
and files (`/.../resolve/...`, HEAD and GET, with ETag, commit, size and ranges). Answers can fail
in the ways of `Fault`. Plain files at any path (`raw`) stand in for other servers.
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

API = re.compile(r"/api/(?:models|(datasets))/([^/]+/[^/]+)/(?:revision|tree)/(.+)")
FILE = re.compile(r"(?:/(datasets))?/([^/]+/[^/]+)/resolve/([^/]+|refs/pr/\d+)/(.+)")


@dataclass
class Fault:
    """What is wrong with an answer."""

    status: int | None = None  # instead of the answer
    headers: dict[str, str] = field(default_factory=dict)  # besides the answer's own
    sent: int | None = None  # bytes of the body after which the connection is reset
    times: int = 1000  # number of answers with the fault


@dataclass
class FakeHub:
    """The content of the hub. The key of a data set begins with `datasets/`."""

    endpoint: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    revisions: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)  # besides main
    raw: dict[str, bytes] = field(default_factory=dict)  # by path
    requests: list[str] = field(default_factory=list)
    served: dict[str, bytes] = field(default_factory=dict)  # by name, instead of what is listed
    faults: dict[str, Fault] = field(default_factory=dict)  # by file name, "listing" or "*"

    def put(self, key: str, folder: Path) -> None:
        files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
        self.repositories[key] = {
            name.as_posix(): path.read_bytes() for name, path in files.items()
        }

    def commit(self, key: str, revision: str = "main") -> str:
        """The commit of a revision: a digest of its files."""
        files = self.repositories[key] if revision == "main" else self.revisions[key, revision]
        parts = b"".join(name.encode() + content for name, content in sorted(files.items()))
        return hashlib.sha1(parts).hexdigest()

    def at(self, key: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """The commit and the files of a branch or commit."""
        owned = {name: files for (owner, name), files in self.revisions.items() if owner == key}
        for name, files in {"main": self.repositories[key], **owned}.items():
            commit = self.commit(key, name)
            if revision in (name, commit):
                return commit, files
        return None

    def fault(self, name: str) -> Fault:
        """The fault of the next answer about a file."""
        fault = self.faults.get(name) or self.faults.get("*") or Fault()
        fault.times -= 1
        return fault if fault.times >= 0 else Fault()


def _entry(name: str, content: bytes) -> dict[str, Any]:
    # The hub lists a SHA-256 for files in LFS only; here that is everything but JSON.
    sha = None if name.endswith(".json") else hashlib.sha256(content).hexdigest()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    lfs = {"oid": sha, "sha256": sha, "size": len(content), "pointerSize": 130}
    return {"size": len(content), "oid": blob} | ({"lfs": lfs} if sha else {})


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
        listing, file = API.fullmatch(path), FILE.fullmatch(path)
        fault = self.hub.fault("listing" if listing else path.rsplit("/", 1)[-1])
        if fault.status:
            self._answer(fault.status, b"{}", {}, fault)
        elif listing or file:
            self._repository(*(listing or file).groups(), fault=fault)  # type: ignore[union-attr]
        elif path in self.hub.raw:
            self._answer(200, self.hub.raw[path], {}, fault)
        else:
            self._missing("EntryNotFound")

    def _missing(self, code: str) -> None:
        self._answer(404, b"{}", {"X-Error-Code": code}, Fault())

    def _repository(
        self, kind: str | None, name: str, revision: str, file: str = "", *, fault: Fault
    ) -> None:
        key = f"{kind}/{name}" if kind else name
        if key not in self.hub.repositories:
            return self._missing("RepoNotFound")
        result = self.hub.at(key, revision)
        if result is None:
            return self._missing("RevisionNotFound")
        commit, files = result
        if not file:
            listing: Any = {"id": name, "sha": commit}
            if "/tree/" in self.path:
                paths = [(path, _entry(path, content)) for path, content in files.items()]
                listing = [{"type": "file", "path": path, **entry} for path, entry in paths]
            return self._answer(200, json.dumps(listing).encode(), {}, fault)
        if file not in files:
            return self._missing("EntryNotFound")
        entry = _entry(file, files[file])
        etag = entry["lfs"]["sha256"] if "lfs" in entry else entry["oid"]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
        headers["X-Linked-Size"] = str(len(files[file]))
        content, status, start = self.hub.served.get(file, files[file]), 200, 0
        if match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or ""):
            status, start = 206, int(match[1])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return self._answer(status, content[start:], headers, fault)

    def _answer(self, status: int, body: bytes, headers: dict[str, str], fault: Fault) -> None:
        self.send_response(status)
        for header, value in {"Content-Length": str(len(body)), **headers, **fault.headers}.items():
            self.send_header(header, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[: fault.sent])
        if fault.sent is not None:  # closing with a linger time of 0 sends RST
            self.close_connection = True
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
    for name in ("HF_TOKEN", "TRANSFORMERS_OFFLINE", "BENCH_DATA", "BENCH_MODELS"):
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
