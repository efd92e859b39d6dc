"""The commit of this code: of the checkout that it is in, or was built from.

setup.py runs this file, where no library is installed.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
BUILT = Path(__file__).with_name("commit.json")  # of an installed package


def commit() -> dict[str, Any]:
    """The commit, and whether the code is "dirty", that is, differs from it; None if unknown.

    Untracked files count as differences: a method is registered by the presence of its file.
    """
    # An installed package may lie within a checkout of another project, which does not track it.
    if _git("ls-files", "--error-unmatch", "--", __file__) is not None:
        status = _git("status", "--porcelain", "--untracked-files=normal", "--", "bench", "methods")
        return {"commit": _git("rev-parse", "HEAD"), "dirty": bool(status)}
    if BUILT.is_file():
        return json.loads(BUILT.read_text())
    return {"commit": None, "dirty": None}


def _git(*arguments: str) -> str | None:
    # Of a checkout that somebody else owns, too.
    command = ["git", "-c", f"safe.directory={_ROOT}", "-C", str(_ROOT), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
