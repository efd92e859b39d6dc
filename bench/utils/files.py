"""Atomic writes of files and folders, JSON, lines of text files, and SHA-256 digests."""

import errno
import gzip
import hashlib
import json
import os
import re
import shutil
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from filelock import FileLock

from bench.utils.errors import TransientError, UserError, warn

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_refused: set[str] = set()  # calls that the file system refused this process


def write_error(path: Path, number: int | None) -> UserError:
    """The error for a path that cannot be written; `number` is the `errno`, if known."""
    if number in DISK_FULL:
        return TransientError(
            f"no space left on the device for {path}; "
            "free some and start again, finished work is kept"
        )
    reason = os.strerror(number or errno.EIO)
    return UserError(f"cannot write {path}: {reason}; choose a writable folder")


@contextmanager
def disk_errors(path: Path, cause: str = "{}") -> Iterator[None]:
    """Let errors of the system in the block name `path` and `cause` if they name no path. Errors of
    a full or read-only disk become `UserError`."""
    try:
        yield
    except Exception as error:
        # safetensors and tokenizers raise other exceptions, which end with the OS error of Rust.
        match = re.search(r"\(os error (\d+)\)", str(error))
        number = int(match[1]) if match else getattr(error, "errno", None)
        if re.fullmatch(r"\d+ requested and \d+ written", str(error)):  # NumPy keeps no errno
            number = errno.ENOSPC
        if number in (*DISK_FULL, errno.EROFS):
            raise write_error(path, number) from error
        if number and not getattr(error, "filename", None):
            raise OSError(number, cause.format(os.strerror(number)), str(path)) from error
        raise


@contextmanager
def improving(path: Path, call: str) -> Iterator[None]:
    """Go on without a call that the file system refuses, and say so once: the content of `path`
    does not depend on it. Errors that lose content are raised."""
    try:
        yield
    except OSError as error:
        if error.errno in (*DISK_FULL, errno.EIO):
            raise
        if call not in _refused:
            _refused.add(call)
            warn(f"{path}: no {call} on this file system ({error.strerror}); the work goes on")


def fsync(path: Path) -> None:
    """Flush a file or a folder to the disk, where the file system can."""
    with improving(path, "fsync"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_complete(path: Path) -> bool:
    """Whether a file or folder exists. What killed processes left beside it is removed. What a
    living process writes is locked, and stays."""
    for lock in path.parent.glob(f".{slug(path.name)}.*.lock"):
        with suppress(OSError), FileLock(lock, 0, fallback_to_soft=False):
            _remove(lock)
    return path.exists()


def _remove(lock: Path) -> None:
    shutil.rmtree(lock.with_suffix(".part"), ignore_errors=True)
    lock.unlink()


@contextmanager
def staging_folder(path: Path, subject: Path | None = None) -> Iterator[Path]:
    """Yield a temporary folder beside `path`, from which finished files are moved. Errors name
    `path`, or the `subject`."""
    subject = subject or path
    # The lock is a separate file: on some file systems nobody can write to a locked one.
    lock = path.parent / f".{slug(path.name)}.{token_hex(4)}.lock"
    staging = lock.with_suffix(".part")
    held = FileLock(lock, 1, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_complete(path)
        with suppress(OSError):  # without locks, what a killed process leaves is not removed
            held.acquire()
        staging.mkdir()
    except OSError as error:
        raise write_error(subject, error.errno) from error
    try:
        with disk_errors(subject):
            yield staging
            fsync(path.parent)
    finally:
        with suppress(OSError):
            _remove(lock)
        held.release()


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path, whose file replaces `path` on success and is removed else."""
    with staging_folder(path) as staging:
        if path.is_dir():
            raise UserError(f"{path} is a folder; pass the name of a file")
        yield staging / path.name
        fsync(staging / path.name)
        os.replace(staging / path.name, path)


def write_summed(folder: Path, name: str, suffix: str, write: Callable[[Path], Any]) -> Path:
    """Let `write` fill a file, which is moved to `folder` on success, as NAME-SUM and a suffix: the
    SHA-256 of its bytes is in its name, so `intact_files` sees whether it is whole."""
    with staging_folder(folder / "summed", folder) as staging:
        file = staging / f"{name}{suffix}"
        write(file)
        fsync(file)
        path = folder / f"{name}-{sha256_file(file)}{suffix}"
        os.replace(file, path)
    return path


def intact_files(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files of `write_summed` that fit a pattern and are whole, the last name first.
    Damaged ones are deleted, and stderr says so."""
    for path in sorted(folder.glob(pattern), reverse=True):
        if sha256_file(path) == path.stem.rpartition("-")[2]:
            yield path
        else:
            warn(f"{path} is damaged and was deleted; what it held is made again")
            path.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Like `atomic_file`, for a folder. An existing folder at `path` is replaced."""
    with staging_folder(path) as staging:
        folder = staging / path.name
        folder.mkdir()
        yield folder
        for file in _files(folder):
            # safetensors writes files that only their owner may read.
            with improving(path, "chmod"):
                os.chmod(folder / file, folder.stat().st_mode & 0o666)
            fsync(folder / file)
        # A folder cannot replace another that holds files, so the old one makes way first.
        if path.exists():
            os.replace(path, staging / "old")
        os.replace(folder, path)


@contextmanager
def files_together(path: Path) -> Iterator[Path]:
    """Yield a temporary folder, whose files are moved to the folder `path` on success only. They
    replace files of the same name; other files stay."""
    # `path` may be a mount, so the temporary folder is inside it.
    with staging_folder(path / "files", path) as staging:
        yield staging
        for file in sorted(_files(staging)):
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            os.replace(staging / file, path / file)


def inside(folder: Path, name: str) -> Path:
    """Return the path of a name in a folder; `UserError` if it would be outside."""
    # By its text: files of a folder may be links to other places, as in the hub's cache.
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise UserError(f"'{name}' leads out of {folder}; correct the file that names it")
    return folder / name


def _files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()}


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically. NaN and infinity raise `ValueError`."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path, remedy: str = "fix it, or move it away and create it again") -> Any:
    """Read a JSON file. The `UserError` for a damaged one says the `remedy`."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{path} does not exist; check the path, or run the command that writes it first"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a readable JSON file ({error}); {remedy}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file of the project."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def read_settings(path: Path) -> dict[str, Any]:
    """Read a JSON file of settings, an object; without the file none are set."""
    values = read_json(path) if path.is_file() else {}
    if not isinstance(values, dict):
        raise UserError(f"{path} is no JSON object; correct it, or save or download it again")
    return values


def refuse_pointer(path: Path) -> None:
    """Raise `UserError` if a file is a pointer of git-lfs or git-annex to its content."""
    with open(path, "rb") as stream:
        if stream.read(99).startswith((b"version https://git-lfs", b"/annex/objects/")):
            raise UserError(
                f"{path} is a pointer to a file that is not here; get it by git lfs pull, or git "
                "annex get"
            )


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file as a hex string; `UserError` if it is a pointer."""
    refuse_pointer(path)
    with disk_errors(path), open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_folder(folder: Path, left_out: str = "") -> str:
    """Return a SHA-256 over the names and checksums of the files in a folder but one, hidden ones
    left out."""
    sums = {
        path.as_posix(): sha256_file(folder / path)
        for path in sorted(_files(folder))
        if path.as_posix() != left_out and not path.name.startswith(".")
    }
    return sha256_listed(sums)


def sha256_text(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8 as a hex string."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def sha256_listed(sums: Mapping[str, str]) -> str:
    """Return the SHA-256 of a list of files, their checksums by name, in the form of sha256sum."""
    return sha256_text("\n".join(f"{digest}  {name}" for name, digest in sums.items()))


def stem(text: str) -> str:
    """A text as lower-case letters, digits, dots and hyphens, for addresses and stems of file
    names."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def slug(name: str) -> str:
    """Turn a name or path into a part of a file name. A name that is long, or has letters beyond
    ASCII, ends in its hash. Names that differ only in other signs have one slug; callers refuse
    the second."""
    text = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")
    # File systems allow 255 bytes, of which callers need some.
    is_whole = name.isascii() and len(text) <= 120
    return text if is_whole else f"{text[:100]}-{sha256_text(name)[:10]}"


# How the bytes of files that are no text begin, and what to do.
_NO_TEXT = {
    rb"\W*<(?i:!doctype|html|\?xml)|(?i:404: not found|entry not found)": "XML or a web page, as "
    "of a download that failed; fetch it again",
    rb'(\xef\xbb\xbf)?\s*(\{\s*"|\[\s*[{"])': "JSON; write its texts to a file of lines",
    rb"\x1f\x8b": "compressed; add .gz to its name",
    rb"[^\0]*\0": "binary or UTF-16, since it has NUL bytes; fetch it again or convert it to UTF-8",
    rb"[^\n]*\r[^\n]*\Z": "one line, since its lines end in CR alone; convert their ends to LF",
}


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """Yield the lines of a text file, plain or `.gz`, without line ends and byte-order mark.

    Lines end at LF or CRLF only. Other separators (form feed, U+2028) are text, so that line
    numbers match those of an editor. `UserError` if the file begins as no text does.
    """
    number = 0
    try:
        refuse_pointer(path)
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as stream:
            # Before the lines, of which a binary file may have one of its whole size.
            for pattern, problem in _NO_TEXT.items():
                if re.match(pattern, stream.peek(1)):
                    raise UserError(f"{path} is {problem}")
            for number, line in enumerate(stream, start=1):
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                yield line.decode(encoding)
    except FileNotFoundError:
        raise UserError(
            f"{path} does not exist; name another data folder, or set BENCH_DATA"
        ) from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: byte 0x{error.object[error.start]:02x} is not valid "
            f"{encoding}; convert the file to {encoding} or fetch it again"
        ) from None
    except (EOFError, zlib.error, OSError) as error:
        raise UserError(
            f"{path} cannot be read beyond line {number} ({error}); "
            "fix its permissions, or create or fetch it again"
        ) from None
