"""How float32 numbers are multiplied: as they are, or with fewer of their 23 bits.

On a GPU there is TF32, with 10 bits, several times as fast. Models in float32 train in it, and
selection encodes in it. Reported scores do not: by TF32 scores of vectors in a narrow cone, such as
[CLS] of an untrained backbone, move by more than `verify` allows. Losses are computed as they
stand; their gradients, a part of the same backward pass as the model's, are in TF32.

On a processor nothing here takes fewer bits. One with AMX would, where a program has called
`torch.set_float32_matmul_precision("medium")`: bfloat16, with 7 bits.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

# Products on a GPU, as provenance records them. torch's default of convolutions is TF32.
TRAINING = SELECTION = "tf32"
ELSEWHERE = "ieee"


@contextmanager
def float32_products(products: str) -> Iterator[None]:
    """Products, convolutions and recurrent layers of float32 on a GPU are "ieee" or "tf32" within
    the block, whatever was set before. On a processor they are always "ieee"."""
    cuda: Any = torch.backends.cuda
    cudnn: Any = torch.backends.cudnn
    onednn: Any = torch.backends.mkldnn
    settings: dict[Any, str] = {
        **dict.fromkeys((cuda.matmul, cudnn.conv, cudnn.rnn), products),
        **dict.fromkeys((onednn.matmul, onednn.conv, onednn.rnn), ELSEWHERE),
    }
    before = {setting: setting.fp32_precision for setting in settings}
    for setting, value in settings.items():
        setting.fp32_precision = value
    try:
        yield
    finally:
        for setting, value in before.items():
            setting.fp32_precision = value
