"""Unpacking of downloaded archives."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from pathlib import Path

from bench.utils.errors import UserError
from bench.utils.files import atomic_file


def unpack_member(archive: Path, member: str, target: Path) -> None:
    """Copy one file out of a zip archive, atomically; `UserError` if that is no such archive."""
    try:
        with (
            zipfile.ZipFile(archive) as packed,
            packed.open(member) as source,
            atomic_file(target) as temporary,
            open(temporary, "wb") as copy,
        ):
            shutil.copyfileobj(source, copy, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{archive} cannot be unpacked ({error}); fetch it again") from None


def unpack(archive: Path, folder: Path, remedy: str = "fetch it again") -> None:
    """Unpack a tar archive into a folder; `UserError`, with the remedy, if it is damaged."""
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{archive} cannot be unpacked ({reason}); {remedy}") from None
