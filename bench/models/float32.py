"""How a GPU multiplies float32 numbers: as they are, or in TF32, with 10 of their 23 bits.

TF32 is several times as fast. Models in float32 train in it, and selection encodes in it. Reported
scores do not: by TF32 scores of vectors in a narrow cone, such as [CLS] of an untrained backbone,
move by more than `verify` allows. Nor do losses.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

# Of the products of a GPU, as provenance records them. torch's default of convolutions is TF32.
TRAINING = SELECTION = "tf32"
ELSEWHERE = "ieee"


@contextmanager
def float32_products(products: str) -> Iterator[None]:
    """Products and convolutions of float32 on a GPU are "ieee" or "tf32" within the block, whatever
    was set before. On a processor they are always "ieee"."""
    settings: dict[Any, str] = {
        torch.backends.cuda.matmul: products,
        torch.backends.cudnn.conv: products,  # type: ignore[attr-defined]
        torch.backends.mkldnn.matmul: ELSEWHERE,  # type: ignore[attr-defined]
    }
    before = {setting: setting.fp32_precision for setting in settings}
    for setting, value in settings.items():
        setting.fp32_precision = value
    try:
        yield
    finally:
        for setting, value in before.items():
            setting.fp32_precision = value
