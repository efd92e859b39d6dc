"""`python -m tools.world`: write the data, a backbone or the word vectors."""

import sys
from pathlib import Path

from tools.world.backbones import make_vectors, pretrain
from tools.world.data import build

WRITERS = {"data": build, "backbone": pretrain, "vectors": make_vectors}
command, *words, out = sys.argv[1:]
WRITERS[command](*words, Path(out))
