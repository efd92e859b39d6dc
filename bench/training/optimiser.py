"""The optimisers of the training loop."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bench.runs.recipe import Recipe

BETAS = (0.9, 0.999)  # of AdamW (docs/methods.md#optimisation)


def make_optimiser(weights: Sequence[Tensor], recipe: Recipe) -> torch.optim.Optimizer:
    """Return AdamW (docs/methods.md#optimisation) or RMSProp with the recipe's epsilon and weight
    decay.

    RMSProp decays its mean by 0.9, as TensorFlow does; Contrastive Tension, the one method that
    uses it, was written for TensorFlow (docs/methods.md#ct-bert).
    """
    rate, epsilon, decay = recipe.learning_rate, recipe.epsilon, recipe.weight_decay
    groups: list[dict[str, Any]] = [{"params": list(weights)}]
    if not recipe.decay_biases:
        # Biases and the weights of layer norms are the vectors among the weights.
        matrices = [weight for weight in weights if weight.dim() > 1]
        vectors = [weight for weight in weights if weight.dim() <= 1]
        groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    if recipe.optimiser == "rmsprop":
        return torch.optim.RMSprop(groups, lr=rate, alpha=0.9, eps=epsilon, weight_decay=decay)
    return torch.optim.AdamW(
        groups, lr=rate, betas=BETAS, eps=epsilon, weight_decay=decay, fused=True
    )


def set_learning_rate(
    optimiser: torch.optim.Optimizer, index: int, rate: float, recipe: Recipe
) -> None:
    """Set the learning rate of the step after `index` others.

    Without `bias_correction` (BERT's own optimiser), AdamW gets the rate, epsilon and decay that
    cancel its bias correction at this step. With `early_epsilon` (that of transformers before it
    took torch's), it gets the epsilon that, added after the correction, is `epsilon` before it.
    """
    epsilon, decay = recipe.epsilon, recipe.weight_decay
    if recipe.optimiser == "adamw":
        first, second = 1 - BETAS[0] ** (index + 1), math.sqrt(1 - BETAS[1] ** (index + 1))
        if not recipe.bias_correction:
            rate, epsilon, decay = rate * first / second, epsilon / second, decay * second / first
        elif recipe.early_epsilon:
            epsilon = epsilon / second
    for group in optimiser.param_groups:
        group.update(lr=rate, eps=epsilon, weight_decay=decay if group["weight_decay"] else 0.0)


def apply_gradients(
    weights: Sequence[Tensor],
    optimiser: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    clip: float,
) -> Tensor:
    """Clip the gradients of a scaled loss to a norm of `clip` and take a step of the optimiser.

    On a GPU AdamW divides by scale and norm while it reads the gradients, which saves two passes
    over them. Steps whose norm is not finite are skipped by an enabled scaler.

    Returns:
        The norm without the scale, before clipping; a scalar on the device.
    """
    if weights[0].device.type == "cpu" or not isinstance(optimiser, torch.optim.AdamW):
        scaler.unscale_(optimiser)
        norm = torch.nn.utils.clip_grad_norm_(weights, clip)
        scaler.step(optimiser)
        scaler.update()
        return norm
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    scale = scaler._scale if scaler.is_enabled() else torch.ones_like(norm)
    assert scale is not None
    # What `GradScaler.step` sets for an optimiser that unscales by itself.
    optimiser.grad_scale = torch.maximum(norm / clip, scale)  # type: ignore[attr-defined]
    if scaler.is_enabled():
        skipped = (norm < math.inf).logical_not().float()  # NaN is skipped, too
        optimiser.found_inf = skipped  # type: ignore[attr-defined]
        scaler._per_optimizer_states[id(optimiser)]["found_inf_per_device"] = {norm.device: skipped}
    optimiser.step()
    del optimiser.grad_scale  # type: ignore[attr-defined]
    if scaler.is_enabled():
        del optimiser.found_inf  # type: ignore[attr-defined]
        scaler.update()
    return norm / scale
