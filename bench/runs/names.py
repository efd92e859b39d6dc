"""Find the planned runs that a text, written as in configurations, names."""

from collections.abc import Sequence

from bench.runs.labels import OUTSIDE, is_outside
from bench.runs.resolve import Keys, parse, resolve, spell, suite_recipe
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError, did_you_mean, suggestion


def named(text: str, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The runs whose method, and setting if the text has one, a text names.

    An outside encoder is named by its label. Of other runs, spaces, the order of keys and
    ingredients, the spelling of numbers, and keys that change nothing make no difference. A run of
    a method or backbone that is not here any more is named as in the plan.

    Raises:
        UserError: no run is, or the text cannot be parsed. The message gives the nearest names.
    """
    label = text.removesuffix(OUTSIDE)
    labels = {_outside_label(run) for run in runs} - {""}
    if label in labels:
        return [run for run in runs if _outside_label(run) == label]
    try:
        parts, setting = parse(text)
    except UserError:
        if suggestion(label, labels):
            raise UserError(f"'{text}' is not planned{did_you_mean(label, labels)}") from None
        raise
    by_name = {_name(run): run for run in runs if setting in (None, run.setting)}
    spelling = _spelling(parts)
    names = [name for name in by_name if _spelling(parse(name[0])[0]) == spelling]
    names = names or [name for name, run in by_name.items() if _would_be(spelling, run)]
    if names:
        return [run for run in runs if _name(run) in names]
    texts = {run.text if setting else run.method for run in runs}
    raise UserError(f"'{text}' is not planned{did_you_mean(text, texts | labels)}")


def _outside_label(run: PlannedRun) -> str:
    return run.label.removesuffix(OUTSIDE) if is_outside(run.label) else ""


def _name(run: PlannedRun) -> tuple[str, str, str]:
    return run.method, run.setting, run.backbone


def _spelling(parts: list[tuple[str, Keys]]) -> str:
    first, *rest = [spell(name, keys) for name, keys in parts]
    return "+".join([first, *sorted(rest)])


def _would_be(spelling: str, planned: PlannedRun) -> bool:
    """Whether a text would be this run if it were planned instead of it."""
    try:
        run = resolve(
            f"{spelling}@{planned.setting}",
            backbone_name=planned.reference or planned.backbone,
            corpus="wiki1m",  # the text does not depend on it, nor on data and seed
            data="senteval",
            seed=planned.seed,
            recipe=suite_recipe(planned),
        )
    except UserError:  # it is not possible in this setting or on this backbone
        return False
    return run.method == planned.method
