"""Files that are there whole or not at all, and sums of what they hold."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.utils.errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_error(path: Path, number: int | None) -> UserError:
    """The one sentence for a file or folder that the system, by an error's number, does not let be written."""
    if number in FULL:
        return UserError(f"no room is left for {path}; make room and start again, what is finished is kept")
    if blocked := blocking_path(path.parent):
        return UserError(f"cannot write {path}: {blocked} is no folder; name another, or move that away")
    if number == errno.ENAMETOOLONG:
        return UserError(f"cannot write {path}: the name is too long; choose a shorter one")
    reason = os.strerror(number) if number else "unknown error"
    return UserError(f"cannot write {path}: {reason}; choose a folder that can be written")


def blocking_path(folder: Path) -> Path | None:
    """What is no folder and stands where a folder, or one of those above it, should be."""
    return next((path for path in (folder, *folder.parents) if os.path.lexists(path) and not path.is_dir()), None)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """While `path` is written: a disk that is full or read-only becomes one sentence.

    Raises:
        UserError: the disk is full, or read-only.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        # safetensors and tokenizers raise errors of their own, which end as Rust writes those of the system.
        said = re.search(r"\(os error (\d+)\)", str(error))
        number = error.errno if isinstance(error, OSError) else int(said[1]) if said else None
        if number in (*FULL, errno.EROFS):
            raise write_error(path, number) from error
        raise


def fsync(path: Path) -> None:
    """Have a file or a folder on the disk itself before anything else is done."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_mode(kind: int) -> int:
    umask = os.umask(0)
    os.umask(umask)
    return kind & ~umask


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is synced and renamed to `path`, else removed.

    Raises:
        UserError: the folder cannot be written, or there is no room.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise write_error(path, error.errno) from error
    os.close(descriptor)
    temporary = Path(name)
    try:
        with disk_errors(path):
            yield temporary
            os.chmod(temporary, _open_mode(0o666))
            fsync(temporary)
            os.replace(temporary, path)
            fsync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, *, keep_others: bool = False) -> Iterator[Path]:
    """Like `atomic_file` for a folder; an existing folder at `path` is replaced.

    Args:
        keep_others: refuse to replace a folder that holds files which the new one has not.

    Raises:
        UserError: the parent folder cannot be written, there is no room, or a file would be lost.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    except OSError as error:
        raise write_error(path, error.errno) from error
    try:
        with disk_errors(path):
            yield temporary
            os.chmod(temporary, _open_mode(0o777))
            for file in sorted(temporary.rglob("*")):
                if file.is_file():
                    os.chmod(file, _open_mode(0o666))
                    fsync(file)
            if keep_others and (others := _files(path) - _files(temporary)):
                raise UserError(f"{path / min(others)} is not made by this, and would be deleted; name another folder")
            if path.exists():
                old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
                os.replace(path, old / path.name)
                os.replace(temporary, path)
                shutil.rmtree(old)
            else:
                os.replace(temporary, path)
            fsync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_partial(folder: Path) -> None:
    """Remove what killed processes left half-written directly in `folder`; nobody else may be writing there."""
    for path in folder.glob(".*"):
        if path.suffix in (".part", ".old"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()}


def check_replaceable(folder: Path, mark: str) -> None:
    """Refuse to replace anything but an empty folder or an earlier one of the kind, which holds a file `mark`.

    Raises:
        UserError: `folder` is a file or holds something else.
    """
    folder = Path(folder)
    if folder.is_dir() and ((folder / mark).is_file() or not any(folder.iterdir())):
        return
    if folder.exists() or folder.is_symlink():
        raise UserError(f"{folder} exists and is something else, which would be deleted; name another folder")


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, whole or not at all. NaN is not JSON and is refused."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        UserError: the file is missing or is not JSON (which has no NaN and no infinity, though Python reads them).
    """

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no number of JSON")

    try:
        return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=refuse)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; name another, or run the command that writes it first") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"{path} is not a readable JSON file ({error}); name another, mend it, or move it away and make it again"
        ) from None


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_text(text: str) -> str:
    """SHA-256 of a text's UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def slug(name: str) -> str:
    """A corpus's name, or its path, as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")
