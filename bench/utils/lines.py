"""Reading text files line by line, with line numbers in errors."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from bench.utils.errors import UserError


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """Yield the lines of a text file, plain or `.gz`, without line ends and byte-order mark.

    Lines end at LF or CRLF only. Other separators (form feed, U+2028) are text, so that line
    numbers match those of an editor.
    """
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as stream:
            for number, line in enumerate(stream, start=1):
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                yield line.decode(encoding)
    except FileNotFoundError:
        raise UserError(
            f"{path} does not exist; set the data folder with --data or BENCH_DATA"
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
