"""Files of data folders for tests."""

import gzip
from pathlib import Path


def put(folder: Path, name: str, content: str | bytes | None) -> Path:
    """Write a file of a folder, compressed if it ends in .gz; None removes it."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.unlink()
        return path
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
