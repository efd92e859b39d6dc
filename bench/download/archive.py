"""Safe unpacking of downloaded archives."""

from __future__ import annotations

import lzma
import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from bench.utils.errors import UserError
from bench.utils.files import DISK_FULL, atomic_file

# SentEval's text and tables of word vectors are far smaller; a larger archive is hostile.
LARGEST_ARCHIVE = 1 << 32  # bytes
MOST_MEMBERS = 10_000


def unpack_member(archive: Path, member: str, target: Path) -> None:
    """Copy one file out of a zip archive; `target` exists only once it is complete.

    Raises:
        UserError: the archive is damaged, lacks the file or has it twice, or the file is too large
            or encrypted.
    """
    try:
        with zipfile.ZipFile(archive) as whole, atomic_file(target) as temporary:
            fault = ""
            if whole.namelist().count(member) > 1:
                fault = f"it holds {member} twice; delete it and fetch it again"
            elif whole.getinfo(member).file_size > LARGEST_ARCHIVE:
                fault = f"{member} unpacks to more than {LARGEST_ARCHIVE >> 30} GiB"
            if fault:
                raise UserError(f"{archive} is refused: {fault}")
            # zipfile reads at most the size in the header, and compares the CRC-32 at the end.
            with whole.open(member) as source, open(temporary, "wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
    except KeyError:
        raise UserError(f"{archive} holds no {member}; delete it and fetch it again") from None
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
        raise _damaged(archive, error) from None


FETCH_AGAIN = "delete it and fetch it again"


def _damaged(archive: Path, error: Exception, remedy: str = FETCH_AGAIN) -> UserError:
    several = "\n" in str(error)  # what tarfile says of each kind of archive
    reason = "it is no archive, or damaged" if several else error
    return UserError(f"{archive} cannot be unpacked ({reason}); {remedy}")


def unpack(archive: Path, folder: Path, remedy: str = FETCH_AGAIN) -> None:
    """Unpack a tar archive of plain files and folders, after checking every member.

    Args:
        archive: the archive.
        folder: where its members are written.
        remedy: what the user can do if it is damaged.

    Raises:
        UserError: the archive is damaged or too large, or has a link, a device, a name twice, a
            name outside `folder` or one that is not printable; nothing is written then.
        OSError: the disk is full.
    """
    try:
        with tarfile.open(archive) as tar:
            members = _members(archive, tar)
            for _ in range(LARGEST_ARCHIVE >> 20):  # to the end, where a sum of it all may stand
                if not (tar.fileobj and tar.fileobj.read(1 << 20)):
                    break
            tar.extractall(folder, members, filter="data")
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            raise
        raise _damaged(archive, error, remedy) from None


def _members(archive: Path, tar: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """All members of an archive. The first wrong one is refused at once: it may be endless."""
    members: list[tarfile.TarInfo] = []
    names: set[PurePosixPath] = set()
    size = 0
    for member in tar:
        name = PurePosixPath(member.name)
        size += member.size
        if name.is_absolute() or ".." in name.parts or "\\" in member.name:
            fault = f"its member {member.name!r} leads out of the folder"
        elif not member.name.isprintable():
            fault = f"its member {member.name!r} has a name that cannot be printed"
        elif not (member.isreg() or member.isdir()):
            fault = f"its member {member.name!r} is a link or a device"
        elif name in names and not member.isdir():
            fault = f"it holds {member.name!r} twice"
        elif member.size < 0 or size > LARGEST_ARCHIVE:
            fault = f"it unpacks to more than {LARGEST_ARCHIVE >> 30} GiB"
        elif len(members) == MOST_MEMBERS:
            fault = f"it has more than {MOST_MEMBERS} members"
        else:
            names.add(name)
            members.append(member)
            continue
        raise UserError(f"{archive} is refused: {fault}; delete it and do not use it")
    return members
