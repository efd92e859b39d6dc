"""Checksums of local files, of which large ones are read once."""

from contextlib import suppress
from functools import cache
from pathlib import Path

from bench.download.hub import cache_folder
from bench.utils.errors import UserError
from bench.utils.files import sha256_file, sha256_text, write_text

LARGE = 2**20  # bytes; to read a smaller file takes no longer than to look for its sum


def file_sum(path: Path) -> str:
    """The SHA-256 of a file. The sum of a large file is kept in the cache until the path, size,
    times or inode of the file change."""
    state = path.stat()
    if state.st_size < LARGE:
        return sha256_file(path)
    changed = state.st_mtime_ns, state.st_ctime_ns
    return _large_sum(path.resolve(), state.st_size, state.st_ino, changed)


@cache
def _large_sum(path: Path, size: int, inode: int, changed: tuple[int, int]) -> str:
    kept = cache_folder() / "sums" / sha256_text(f"{path}\n{size}\n{inode}\n{changed}")
    if kept.is_file():
        return kept.read_text()
    digest = sha256_file(path)
    with suppress(UserError, OSError):  # the cache may be read-only
        write_text(kept, digest)
    return digest
