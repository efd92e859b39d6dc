"""`python -m tools.world`: write the data, a backbone or the word vectors."""

import sys
from pathlib import Path

from tools.world import __doc__ as usage
from tools.world.backbones import make_vectors, pretrain
from tools.world.data import build

match sys.argv[1:]:
    case ["data", out]:
        build(Path(out))
    case ["backbone", kind, seed, out]:
        pretrain(kind, int(seed), Path(out))
    case ["vectors", out]:
        make_vectors(Path(out))
    case _:
        sys.exit(usage)
