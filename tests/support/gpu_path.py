"""What a training does on a GPU, on the processor in its place: float16 with a scaler, fused
layers, clipping within the optimiser's step, losses read some steps at a time, pinned copies."""

import sys

import torch

from bench.models import fused_forward
from bench.training import context, loop
from methods import base
from tests.oracles.padded_attention import attend_padded


def take_gpu_path(patch):
    """Trainings within the patch take the path of a GPU; only its kernels are others."""
    is_fused, to_device = context.is_fused, base.to_device

    def pinned(tensor, device):
        """As pinned memory does, copy into a storage of the tensor's own strides."""
        tensor = to_device(tensor, device)
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(tensor)

    patch.setattr(context.RunContext, "on_gpu", True)
    patch.setattr(context, "is_fused", lambda model, device: is_fused(model, "cuda"))
    patch.setattr(fused_forward, "attend_fused", attend_padded)
    patch.setitem(loop.SYNC_EVERY, "cpu", loop.SYNC_EVERY["cuda"])
    for module in [*sys.modules.values()]:
        if getattr(module, "to_device", None) is to_device:
            patch.setattr(module, "to_device", pinned)
