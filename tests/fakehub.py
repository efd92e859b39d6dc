"""A small Hugging Face hub on this machine's loopback, for tests of fetching.

It speaks what the hub's client asks for: listings (`/api/.../revision/...`, `/api/.../tree/...`) and files
(`/.../resolve/...`, with ETag, commit and ranges). It can also misbehave: serve other bytes than it announces, cut a
file short, break a connection off, or answer with an error. Plain files of any path (`raw`) stand in for other servers.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

API = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?")
FILE = re.compile(r"(/datasets)?/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


@dataclass
class FakeHub:
    """What the hub holds; a repository's key is its id, a data set's begins with `datasets/`."""

    endpoint: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    raw: dict[str, bytes] = field(default_factory=dict)  # by path
    requests: list[str] = field(default_factory=list)
    served: dict[str, bytes] = field(default_factory=dict)  # instead of what is announced, by file name
    broken_off: set[str] = field(default_factory=set)  # files whose first download ends half-way
    status: int | None = None  # answers everything

    def commit(self, key: str) -> str:
        """A commit that follows from the content."""
        parts = b"".join(name.encode() + content for name, content in sorted(self.repositories[key].items()))
        return hashlib.sha1(parts).hexdigest()


def _entry(name: str, content: bytes) -> dict[str, Any]:
    # As on the hub, only large files are stored by their SHA-256; here that is everything but JSON.
    lfs = None if name.endswith(".json") else {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    return {"name": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest(), "lfs": lfs}


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        if self.hub.status:
            return self._answer(self.hub.status, b"{}")
        if match := API.fullmatch(path):
            kind, name, what, revision = match.groups()
            return self._list(f"datasets/{name}" if kind == "datasets" else name, what, revision or "main")
        if match := FILE.fullmatch(path):
            dataset, name, revision, file = match.groups()
            return self._file(f"datasets/{name}" if dataset else name, revision, file)
        if path in self.hub.raw:
            return self._raw(path)
        return self._answer(404, b"{}")

    def _raw(self, path: str) -> None:
        name = path.rsplit("/", 1)[-1]
        content = self.hub.served.get(name, self.hub.raw[path])
        if name in self.hub.broken_off:
            self.hub.broken_off.discard(name)
            self._answer(200, content, sent=len(content) // 2)
            self.close_connection = True
            return
        self._answer(200, content)

    def _known(self, key: str, revision: str) -> bool:
        if key not in self.hub.repositories:
            self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif revision not in ("main", self.hub.commit(key)):
            self._answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        else:
            return True
        return False

    def _list(self, key: str, what: str | None, revision: str) -> None:
        if not self._known(key, revision):
            return
        files = [_entry(name, content) for name, content in self.hub.repositories[key].items()]
        if what == "tree":
            listing: Any = [
                {"type": "file", "path": file["name"], "size": file["size"], "oid": file["oid"]}
                | (
                    {"lfs": {"oid": lfs["sha256"], "size": lfs["size"], "pointerSize": 130}}
                    if (lfs := file["lfs"])
                    else {}
                )
                for file in files
            ]
        else:
            siblings = [
                {"rfilename": file["name"], "size": file["size"], "blobId": file["oid"]}
                | ({"lfs": file["lfs"] | {"pointerSize": 130}} if file["lfs"] else {})
                for file in files
            ]
            listing = {"id": key.removeprefix("datasets/"), "sha": self.hub.commit(key), "siblings": siblings}
        self._answer(200, json.dumps(listing).encode())

    def _file(self, key: str, revision: str, name: str) -> None:
        if not self._known(key, revision):
            return
        headers = {"X-Repo-Commit": self.hub.commit(key)}
        if name not in self.hub.repositories[key]:
            return self._answer(404, b"", headers | {"X-Error-Code": "EntryNotFound"})
        announced = self.hub.repositories[key][name]
        entry = _entry(name, announced)
        etag = entry["lfs"]["sha256"] if entry["lfs"] else entry["oid"]
        headers |= {"ETag": f'"{etag}"', "X-Linked-Size": str(len(announced)), "Accept-Ranges": "bytes"}
        content = self.hub.served.get(name, announced)
        status, start = 200, 0
        if match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or ""):
            status, start = 206, int(match[1])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        if self.command == "GET" and name in self.hub.broken_off:
            self.hub.broken_off.discard(name)
            self._answer(status, content[start:], headers, sent=(len(content) - start) // 2)
            self.close_connection = True
            return
        self._answer(status, content[start:], headers)

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None, sent: int | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:sent])


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """Run a hub while the block runs."""
    hub = FakeHub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
