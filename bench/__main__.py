"""`python -m bench`: see `bench.cli`."""

import sys
from importlib.util import find_spec
from pathlib import Path

if not all(map(find_spec, ("pydantic", "torch", "typer"))):
    sys.exit(
        "error: this Python lacks sentbench's libraries; run make .venv/.ready (or make smoke) in "
        f"{Path(__file__).parents[1]}, then source .venv/bin/activate there"
    )

# Python looks into the working folder first, where a folder `methods` would hide that of the suite.
sys.path.insert(0, str(Path(__file__).parents[1]))
import methods  # noqa: F401

del sys.path[0]

from bench.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
