"""Atomic writes of files and folders, JSON, and SHA-256 digests."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.utils.errors import TransientError, UserError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_error(path: Path, number: int | None) -> UserError:
    """Return the error for a path that cannot be written; `number` is the `errno`, if known."""
    if number in DISK_FULL:
        return TransientError(
            f"no space left on the device for {path}; "
            "free some and start again, finished work is kept"
        )
    if blocked := blocking_path(path.parent):
        return UserError(
            f"cannot write {path}: {blocked} is not a folder; move it away or choose another path"
        )
    if number == errno.ENAMETOOLONG:
        return UserError(f"cannot write {path}: the name is too long; choose a shorter one")
    reason = os.strerror(number) if number else "unknown error"
    return UserError(f"cannot write {path}: {reason}; choose a writable folder")


def blocking_path(folder: Path) -> Path | None:
    """Return `folder` or the first of its parents that exists and is not a folder, else None."""
    paths = (folder, *folder.parents)
    return next((path for path in paths if os.path.lexists(path) and not path.is_dir()), None)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn errors of a full or read-only disk, raised while `path` is written, into `UserError`."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        # safetensors and tokenizers raise exceptions of their own, which end with Rust's OS error.
        match = re.search(r"\(os error (\d+)\)", str(error))
        number = error.errno if isinstance(error, OSError) else int(match[1]) if match else None
        if number in (*DISK_FULL, errno.EROFS):
            raise write_error(path, number) from error
        raise


def refuse_special(path: Path | str) -> None:
    """Raise `UserError` for a pipe, a socket or a device, whose reading could wait for ever."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise UserError(f"{path} is a pipe or a device; name a regular file")


def fsync(path: Path) -> None:
    """Flush a file or a folder to the disk."""
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
def _temporary(path: Path, make: Callable[[str, str, Path], Any]) -> Iterator[Path]:
    """Yield a temporary file or folder beside `path`, which is removed if it is still there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = make(".part", f".{path.name}.", path.parent)
    except OSError as error:
        raise write_error(path, error.errno) from error
    if is_file := isinstance(made, tuple):
        os.close(made[0])
    temporary = Path(made[1] if is_file else made)
    try:
        with disk_errors(path):
            yield temporary
            fsync(path.parent)
    finally:
        temporary.unlink(missing_ok=True) if is_file else shutil.rmtree(temporary, True)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which replaces `path` on success and is removed else.

    Raises:
        UserError: `path` is a folder, its folder cannot be written, or the disk is full.
    """
    path = Path(path)
    if os.path.isdir(path):  # which Path.is_dir cannot tell of a name that is too long
        raise UserError(f"{path} is a folder; pass the name of a file")
    with _temporary(path, tempfile.mkstemp) as temporary:
        yield temporary
        os.chmod(temporary, _open_mode(0o666))
        fsync(temporary)
        os.replace(temporary, path)


@contextmanager
def atomic_folder(path: Path, *, keep_others: bool = False) -> Iterator[Path]:
    """Like `atomic_file`, for a folder. An existing folder at `path` is replaced.

    Args:
        path: the folder to write.
        keep_others: refuse to replace a folder with files that the new one does not have.

    Raises:
        UserError: the parent folder cannot be written, the disk is full, or a file would be lost.
    """
    path = Path(path)
    with _temporary(path, tempfile.mkdtemp) as temporary:
        yield temporary
        os.chmod(temporary, _open_mode(0o777))
        for file in sorted(temporary.rglob("*")):
            if file.is_file():
                os.chmod(file, _open_mode(0o666))
                fsync(file)
        if keep_others and (others := _files(path) - _files(temporary)):
            raise UserError(
                f"{path / min(others)} was not written by this command and would be deleted; "
                "choose another folder"
            )
        old = None
        if path.exists():
            old = tempfile.mkdtemp(".old", f".{path.name}.", path.parent)
            os.replace(path, Path(old) / path.name)
        os.replace(temporary, path)
        if old:
            shutil.rmtree(old)


@contextmanager
def files_together(path: Path) -> Iterator[Path]:
    """Yield a temporary folder inside `path`, whose files are moved to `path` on success only.

    They replace files of the same name; other files stay. The folder `path` may be a mount, so the
    temporary folder is inside it. A `path` that is made here is removed if nothing is written.

    Raises:
        UserError: the folder cannot be written, or the disk is full.
    """
    is_new = not os.path.lexists(path)
    try:
        with _temporary(path / "files", tempfile.mkdtemp) as temporary:
            yield temporary
            for file in sorted(_files(temporary)):
                try:
                    (path / file).parent.mkdir(parents=True, exist_ok=True)
                    os.replace(temporary / file, path / file)
                except OSError as error:
                    raise write_error(path / file, error.errno) from error
    except BaseException:
        if is_new:
            with suppress(OSError):  # not empty
                path.rmdir()
        raise


def remove_partial(folder: Path) -> None:
    """Remove the temporary files of killed processes; no other process may be writing there."""
    for path in folder.glob(".*"):
        if path.suffix in (".part", ".old"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()}


def check_replaceable(folder: Path, mark: str) -> None:
    """Refuse a folder that is a file or has content and not the file `mark` of an own output."""
    folder = Path(folder)
    if folder.is_dir() and ((folder / mark).is_file() or not any(folder.iterdir())):
        return
    if folder.exists() or folder.is_symlink():
        raise UserError(
            f"{folder} exists with other content, which would be deleted; choose another folder"
        )


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically. NaN and infinity raise `ValueError`."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(
            f"the key '{next(key for key in keys if keys.count(key) > 1)}' is twice in it"
        )
    return content


def strict_json(text: str, *, distinct: bool = False) -> Any:
    """Parse JSON; with `distinct`, equal keys are rejected, of which Python keeps the last.

    Raises:
        RecursionError: it is nested too deeply.
        ValueError: it is not strict JSON; NaN and infinity are rejected.
    """

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not valid JSON")

    hook = _distinct if distinct else None
    return json.loads(text, parse_constant=refuse, object_pairs_hook=hook)


def read_json(path: Path, *, distinct: bool = False) -> Any:
    """Read a JSON file as `strict_json` parses it.

    Raises:
        UserError: the file is missing or is not strict JSON.
    """
    refuse_special(path)
    try:
        return strict_json(Path(path).read_text(encoding="utf-8"), distinct=distinct)
    except FileNotFoundError:
        raise UserError(
            f"{path} does not exist; check the path, or run the command that writes it first"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else why
        raise UserError(
            f"{path} is not a readable JSON file ({why}); "
            "fix it, or move it away and create it again"
        ) from None


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file as a hex string."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_text(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8 as a hex string."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def slug(name: str) -> str:
    """Turn the name or path of a corpus into a part of a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")
