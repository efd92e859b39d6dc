"""The optimisers of the training loop and their learning rates
(docs/reference/training.md#optimisation)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bench.runs.run import Recipe

# Of AdamW: the defaults of torch, transformers and BERT's code.
BETAS = (0.9, 0.999)
# The smallest rate of a slanted triangle is this part of the largest: the default of AllenNLP.
SLANTED_RATIO = 32


def make_optimiser(weights: Sequence[Tensor], recipe: Recipe) -> torch.optim.Optimizer:
    """Return AdamW or RMSProp. RMSProp decays its mean by 0.9, as TensorFlow does, for which
    Contrastive Tension was written (docs/reference/methods.md#ct-bert)."""
    rate, epsilon, decay = recipe.learning_rate, recipe.epsilon, recipe.weight_decay
    groups: list[dict[str, Any]] = [{"params": list(weights)}]
    if not recipe.decay_biases:
        # Biases and the weights of layer norms are the vectors among the weights.
        groups = [
            {"params": [weight for weight in weights if weight.dim() > 1]},
            {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
        ]
    if recipe.optimiser == "rmsprop":
        return torch.optim.RMSprop(groups, lr=rate, alpha=0.9, eps=epsilon, weight_decay=decay)
    return _AdamW(groups, lr=rate, betas=BETAS, eps=epsilon, weight_decay=decay, fused=True)


class _AdamW(torch.optim.AdamW):
    """Fused AdamW whose host needs a third of the time to list its tensors. Where torch does not
    call `_init_group`, it is the AdamW of torch."""

    def _init_group(self, group: Any, weights: Any, gradients: Any, *state: list[Tensor]) -> Any:
        """Fill the lists: weights that have gradients, their gradients, and their state."""
        learned = [weight for weight in group["params"] if weight.grad is not None]
        states = [self.state[weight] for weight in learned]
        if not all(states):  # of weights with a first gradient it is empty
            return super()._init_group(group, weights, gradients, *state)
        weights += learned
        gradients += [weight.grad for weight in learned]
        for tensors, name in zip(
            state, ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"), strict=True
        ):
            tensors += [moments[name] for moments in states if name in moments]
        return False


def learning_rate(index: int, total: int, recipe: Recipe) -> float:
    """The rate of the step after `index` of `total`: linear warm-up, then the schedule."""
    if recipe.schedule == "slanted":
        # AllenNLP's slanted triangle (docs/reference/methods.md#declutr); the largest rate is at
        # step `cut`.
        step, cut = index + 1, int(recipe.warmup * total)
        rising = step / cut if step < cut else 1 - (step - cut) / (total - cut)
        return recipe.learning_rate * ((1 + rising * (SLANTED_RATIO - 1)) / SLANTED_RATIO)
    warm = round(recipe.warmup * total)
    if index < warm:
        return recipe.learning_rate * (index + 1) / warm
    if recipe.schedule == "linear":
        return recipe.learning_rate * ((total - index) / max(1, total - warm))
    # n boundaries make n + 1 blocks, whose rates fall in equal steps; "constant" has no boundary.
    # The step at a boundary belongs to the block before it, as in TensorFlow
    # (docs/reference/methods.md#ct-bert).
    blocks = len(recipe.boundaries) + 1
    passed = sum(index > round(share * total) for share in recipe.boundaries)
    return recipe.learning_rate * ((blocks - passed) / blocks)


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float, recipe: Recipe) -> None:
    """Set the learning rate of the next step.

    Without `bias_correction` (the optimiser of BERT's code), AdamW gets the rate, epsilon and decay
    that cancel its bias correction at this step. With `early_epsilon`, epsilon counts before that
    correction, as in the AdamW of transformers before it took torch's.
    """
    epsilon, decay = recipe.epsilon, recipe.weight_decay
    if recipe.optimiser == "adamw" and (recipe.early_epsilon or not recipe.bias_correction):
        # By the count of the optimiser, which leaves out the steps that a scaler skipped. To read
        # it is to wait for a GPU. All weights have the same.
        step = 1 + next((int(state["step"]) for state in optimiser.state.values()), 0)
        mean_factor, root_factor = 1 - BETAS[0] ** step, math.sqrt(1 - BETAS[1] ** step)
        # In both cases epsilon is added before the correction.
        epsilon = epsilon / root_factor
        if not recipe.bias_correction:
            rate, decay = rate * mean_factor / root_factor, decay * root_factor / mean_factor
    for group in optimiser.param_groups:
        group.update(lr=rate, eps=epsilon, weight_decay=decay if group["weight_decay"] else 0.0)


def clip_and_step(
    weights: Sequence[Tensor],
    optimiser: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    clip: float,
) -> Tensor:
    """Take a step of AdamW on a GPU, with the gradients of a scaled loss clipped to a norm of
    `clip`: it divides by scale and norm while it reads them, which saves two passes over them. An
    enabled scaler skips a step whose norm is not finite. Returns the norm, unscaled and unclipped.
    """
    gradients = [slope for weight in weights if (slope := weight.grad) is not None]
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
