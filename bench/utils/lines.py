"""Lines of text files, with their place kept for messages."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from bench.utils.errors import UserError

# No sentence comes near it; a longer "line" is a file of another kind, and would be read into memory whole.
LONGEST_LINE = 1 << 20


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """Yield the lines of a text file, plain or `.gz`, without line ends and without a leading byte-order mark.

    Lines end at LF or CRLF only: other separators (form feed, U+2028) are text, so line numbers are those of an editor.

    Raises:
        UserError: the file is missing, is cut short, holds bytes that `encoding` forbids or a line above 1 MiB.
    """
    path = Path(path)
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as stream:
            while line := stream.readline(LONGEST_LINE + 2):
                number += 1
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if len(line) > LONGEST_LINE:
                    raise UserError(
                        f"{path}, line {number}: longer than 1 MiB; is this a text of one sentence per line?"
                    )
                yield line.decode(encoding)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; name the data folder with --data or BENCH_DATA") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: byte 0x{error.object[error.start]:02x} is not valid {encoding}; "
            f"convert the file to {encoding}, or fetch it again"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"{path} is damaged or cut short after line {number} ({error}); make it or fetch it again"
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); mend its permissions or fetch it again") from None
