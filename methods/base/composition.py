"""Methods joined with `+`."""

from collections.abc import Sequence
from typing import Any

from methods.base.contract import Method, Refusal, Shape
from methods.base.contrastive import Contrastive
from methods.base.transform import Transform

__all__ = ["compose", "refuse_composition"]


def compose(parts: Sequence[tuple[type[Method], Any]], shape: Shape) -> Method:
    """Build a method from classes with hyper-parameters. The first class is the host: it
    has the pairs and the recipe."""
    refuse_composition(parts)
    host, *added = [cls(hyper, shape) for cls, hyper in parts]
    for part in added:
        (host.transforms if isinstance(part, Transform) else host.parts).append(part)
    return host


def refuse_composition(parts: Sequence[tuple[type[Method], Any]]) -> None:
    """Raise `Refusal` if parts cannot be combined."""
    (host, host_hyper), *added = parts
    names = [cls.name for cls, _ in parts]
    # A transform may follow any method; slots are filled only for one that fits the formula.
    if issubclass(host, Transform):
        raise Refusal(
            f"'{host.name}' maps finished vectors; write it after a method, "
            f"as in 'simcse+{host.name}'"
        )
    for cls, hyper in added:
        if names.count(cls.name) > 1:
            raise Refusal(f"'{cls.name}' appears twice in '{'+'.join(names)}'; write it once")
        if issubclass(cls, Transform):
            continue
        if not issubclass(host, Contrastive):
            kind = "does not use the contrastive formula" if host.trained else "is not trained"
            raise Refusal(f"'{host.name}' {kind}, so nothing can be added to it with '+'")
        if not issubclass(cls, Contrastive) or not cls.joins():
            raise Refusal(
                f"'{cls.name}' adds nothing to another method; write it first or leave it out"
            )
        _refuse_slots(cls, hyper, host, host_hyper)


def _refuse_slots(
    cls: type[Contrastive], hyper: Any, host: type[Contrastive], host_hyper: Any
) -> None:
    """Raise `Refusal` if slots of an added method do not fit the host."""
    # Each check finds something that the loss of the host would silently leave out.
    positive = cls.fixed_positive(hyper)
    if positive is not None:
        raise Refusal(
            f"'{cls.name}' with {positive} defines its own positive, so it can only be written "
            "first"
        )
    parts_setting = host.in_parts(host_hyper)
    if parts_setting is not None:
        raise Refusal(
            f"'{host.name}' with {parts_setting} contrasts within parts of a batch, and "
            f"'{cls.name}' needs the whole; set it to 1"
        )
    if cls.quiet is not Contrastive.quiet and host.step_loss is not Contrastive.step_loss:
        raise Refusal(
            f"'{cls.name}' needs a pass without dropout, and '{host.name}' has no place for it"
        )
    host_positive = host.fixed_positive(host_hyper)
    if cls.terms is not Contrastive.terms and host_positive is not None:
        raise Refusal(
            f"'{cls.name}' needs the dropout positive, and '{host.name}' with {host_positive} "
            "has none"
        )
    for name in cls.Hyper.marked("host"):
        if getattr(hyper, name) != cls.Hyper.model_fields[name].default:
            raise Refusal(
                f"'{name}' of '{cls.name}' is set by the method written first, '{host.name}'; "
                "set it there"
            )
