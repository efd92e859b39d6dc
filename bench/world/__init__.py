"""The toy data: evaluation data and corpora in a small generated language, and toy backbones
that were trained on it (docs/explanation/toy-data.md).

Both are shipped with their checksums; tools/world makes them.
"""

from functools import cache
from pathlib import Path

from bench.utils.errors import UserError
from bench.utils.files import sha256_file

WORLD_DATA = Path(__file__).with_name("data")
BACKBONES = Path(__file__).with_name("backbones")


def check_world(folder: Path, part: str = "") -> None:
    """Verify the checksums of the shipped files in a folder whose names start with `part`."""
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        path = folder / name
        if name.startswith(part) and not (path.is_file() and sha256_file(path) == digest):
            raise UserError(f"{path} is not the file that sentbench ships; install sentbench again")


@cache
def world_data_folder() -> Path:
    """The data folder in SentEval's layout, with the corpora; verified once a process."""
    check_world(WORLD_DATA)
    return WORLD_DATA
