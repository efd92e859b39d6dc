"""Methods joined with `+`."""

from collections.abc import Sequence
from typing import Any

from methods.base.contract import Method, Refusal, Shape
from methods.base.contrastive import Contrastive
from methods.base.transform import Transform

__all__ = ["compose", "refuse_composition"]


def compose(parts: Sequence[tuple[type[Method], Any]], shape: Shape) -> Method:
    """Build a method from classes with hyper-parameters; the first has the pairs and the recipe."""
    refuse_composition(parts)
    first, *added = [cls(hyper, shape) for cls, hyper in parts]
    for part in added:
        (first.transforms if isinstance(part, Transform) else first.parts).append(part)
    return first


def refuse_composition(parts: Sequence[tuple[type[Method], Any]]) -> None:
    """Raise `Refusal` if parts cannot be combined."""
    (first, first_hyper), *added = parts
    names = [cls.name for cls, _ in parts]
    # A transform may follow any method; slots are filled only for one that fits the formula.
    if issubclass(first, Transform):
        raise Refusal(
            f"'{first.name}' maps finished vectors; write it after a method, "
            f"as in 'simcse+{first.name}'"
        )
    for cls, hyper in added:
        if names.count(cls.name) > 1:
            raise Refusal(f"'{cls.name}' appears twice in '{'+'.join(names)}'; write it once")
        if issubclass(cls, Transform):
            continue
        if not issubclass(first, Contrastive):
            kind = "does not use the contrastive formula" if first.trained else "is not trained"
            raise Refusal(f"'{first.name}' {kind}, so nothing can be added to it with '+'")
        if not issubclass(cls, Contrastive) or not cls.joins():
            raise Refusal(
                f"'{cls.name}' adds nothing to another method; write it first or leave it out"
            )
        _refuse_slots(cls, hyper, first, first_hyper)


def _refuse_slots(
    cls: type[Contrastive], hyper: Any, first: type[Contrastive], first_hyper: Any
) -> None:
    """Raise `Refusal` if slots of an added method do not fit the method written first."""
    positive = cls.fixed_positive(hyper)
    if positive is not None:
        raise Refusal(
            f"'{cls.name}' with {positive} defines its own positive, so it can only be written "
            "first"
        )
    parts_setting = first.in_parts(first_hyper)
    if parts_setting is not None:
        raise Refusal(
            f"'{first.name}' with {parts_setting} contrasts within parts of a batch, and "
            f"'{cls.name}' needs the whole; set it to 1"
        )
    if cls.quiet is not Contrastive.quiet and first.step_loss is not Contrastive.step_loss:
        raise Refusal(
            f"'{cls.name}' needs a pass without dropout, and '{first.name}' has no place for it"
        )
    first_positive = first.fixed_positive(first_hyper)
    if cls.terms is not Contrastive.terms and first_positive is not None:
        raise Refusal(
            f"'{cls.name}' needs the dropout positive, and '{first.name}' with {first_positive} "
            "has none"
        )
    for name in cls.Hyper.marked("host"):
        if getattr(hyper, name) != cls.Hyper.model_fields[name].default:
            raise Refusal(
                f"'{name}' of '{cls.name}' is set by the method written first, '{first.name}'; "
                "set it there"
            )
