"""Find the planned runs that a text, written as in configurations, names, and the boards on which
others can be compared with them."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from bench.datasets.tasks import boards_of, expand_tasks
from bench.results.records import OUTSIDE, is_outside
from bench.runs.resolve import Keys, parse, resolve, spell, suite_recipe
from bench.utils.errors import UserError, did_you_mean, suggestion

Plan = Mapping[str, Any]  # a run, as `Run.describe` describes it


def named(text: str, plans: Sequence[Plan]) -> list[Plan]:
    """The runs whose method, and setting if the text has one, a text names.

    An outside encoder is named by its label. Of other runs, spaces, the order of keys and
    ingredients, the spelling of numbers, and keys that change nothing make no difference. A run of
    a method or backbone that is not here any more is named as in the plan.

    Raises:
        UserError: no run is, or the text cannot be parsed. The message gives the nearest names.
    """
    label = text.removesuffix(OUTSIDE)
    labels = {_outside_label(plan) for plan in plans} - {""}
    if label in labels:
        return [plan for plan in plans if _outside_label(plan) == label]
    try:
        parts, setting = parse(text)
    except UserError:
        if suggestion(label, labels):
            raise UserError(f"'{text}' is not planned{did_you_mean(label, labels)}") from None
        raise
    by_name = {_name(plan): plan for plan in plans if setting in (None, plan["setting"])}
    spelling = _spelling(parts)
    names = [name for name in by_name if _spelling(parse(name[0])[0]) == spelling]
    names = names or [name for name, plan in by_name.items() if _would_be(spelling, plan)]
    if names:
        return [plan for plan in plans if _name(plan) in names]
    texts = {f"{plan['method']}@{plan['setting']}" if setting else plan["method"] for plan in plans}
    raise UserError(f"'{text}' is not planned{did_you_mean(text, texts | labels)}")


def compared_boards(baseline: str, plans: Sequence[Plan]) -> list[str]:
    """The boards (`bench.datasets.tasks`) with a task on which the baseline and another method are
    scored, on one backbone or one of them without.

    Raises:
        UserError: there is none, or no run is of the baseline.
    """
    ours = named(baseline, plans)
    if any(plan["setting"] == "official" for plan in ours):
        ours = [plan for plan in ours if plan["setting"] == "official"]
    shared: set[str] = set()
    # Distinct backbones and tasks: a plan may have thousands of runs.
    others = {_scored(plan) for plan in plans if plan not in ours}
    for (backbone, tasks), (compared, more) in itertools.product(set(map(_scored, ours)), others):
        if backbone == compared or "none" in (backbone, compared):
            shared |= set(expand_tasks(tasks)) & set(expand_tasks(more))
    boards = boards_of(expand_tasks([task for plan in plans for task in plan["tasks"]]))
    names = [name for name, board in boards.items() if shared & set(board.tasks)]
    if not names:
        raise UserError(
            f"no other method is scored on the tasks and a backbone of '{baseline}'; add one to "
            "'methods', or remove 'compare'"
        )
    return names


def _outside_label(plan: Plan) -> str:
    label = plan.get("label", "")
    return label.removesuffix(OUTSIDE) if is_outside(label) else ""


def _name(plan: Plan) -> tuple[str, str, str]:
    return plan["method"], plan["setting"], plan["backbone"]


def _scored(plan: Plan) -> tuple[str, tuple[str, ...]]:
    """The backbone and the tasks that a run is scored on."""
    return plan["backbone"], tuple(plan["tasks"])


def _spelling(parts: list[tuple[str, Keys]]) -> str:
    first, *rest = [spell(name, keys) for name, keys in parts]
    return "+".join([first, *sorted(rest)])


def _would_be(spelling: str, plan: Plan) -> bool:
    """Whether a text would be this run if it were planned instead of it."""
    try:
        run = resolve(
            f"{spelling}@{plan['setting']}",
            backbone_name=plan.get("reference") or plan["backbone"],
            corpus="wiki1m",  # the text does not depend on it, nor on data and seed
            data="senteval",
            seed=plan["seed"],
            recipe=suite_recipe(plan),
        )
    except UserError:  # it is not possible in this setting or on this backbone
        return False
    return run.text == plan["method"]
