"""`python -m bench`: see `bench.cli`."""

import sys
from pathlib import Path

# Python looks into the working folder first, where a folder `methods` would hide that of the suite.
sys.path.insert(0, str(Path(__file__).parents[1]))
import methods  # noqa: F401

del sys.path[0]

from bench.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
