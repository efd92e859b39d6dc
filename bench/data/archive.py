"""Unpacking an archive that nobody has looked at yet."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from bench.errors import UserError
from bench.files import atomic_file

# SentEval's text is far below this many bytes; an archive that unpacks to more is hostile.
LARGEST_ARCHIVE = 1 << 32


def take(archive: Path, member: str, target: Path) -> None:
    """Copy one file out of a zip archive, whole or not at all.

    Raises:
        UserError: the archive is damaged, or holds no such file.
    """
    try:
        with zipfile.ZipFile(archive) as whole, whole.open(member) as source, atomic_file(target) as temporary:
            if whole.getinfo(member).file_size > LARGEST_ARCHIVE:
                raise UserError(f"{archive} is refused: {member} unpacks to more than {LARGEST_ARCHIVE >> 30} GiB")
            with open(temporary, "wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
    except KeyError:
        raise UserError(f"{archive} holds no {member}; delete it and fetch it again") from None
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise UserError(f"{archive} cannot be unpacked ({error}); delete it and fetch it again") from None


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive of plain files and folders, after looking at every member.

    Raises:
        UserError: it is damaged, or holds a link, a device, or a path that leads out of `folder`; nothing is written.
    """
    try:
        with tarfile.open(archive) as tar:
            members = tar.getmembers()
            for member in members:
                name = PurePosixPath(member.name)
                if name.is_absolute() or ".." in name.parts or "\\" in member.name:
                    raise UserError(f"{archive} is refused: its member {member.name!r} leads out of the folder")
                if not (member.isreg() or member.isdir()):
                    raise UserError(f"{archive} is refused: its member {member.name!r} is a link or a device")
            if sum(member.size for member in members) > LARGEST_ARCHIVE:
                raise UserError(f"{archive} is refused: it unpacks to more than {LARGEST_ARCHIVE >> 30} GiB")
            tar.extractall(folder, members, filter="data")
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise UserError(f"{archive} cannot be unpacked ({error}); delete it and fetch it again") from None
