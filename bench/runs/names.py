"""Find the planned runs that a text, written as in configurations, names, and the boards on which
others can be compared with them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from bench.datasets.tasks import boards_of, expand_tasks
from bench.registry.backbones import UnknownBackbone
from bench.results.records import OUTSIDE, is_outside
from bench.runs.resolve import resolve, suite_recipe
from bench.runs.text import Keys, parse, spell
from bench.utils.errors import UserError, did_you_mean, suggestion

Plan = Mapping[str, Any]  # a run, as `Run.describe` describes it


def named(text: str, plans: Sequence[Plan]) -> list[Plan]:
    """The runs whose method, and setting if the text has one, a text names.

    An outside encoder is named by its label. Of other runs, spaces, the order of keys and
    ingredients, the spelling of numbers, and keys that change nothing make no difference. A run of
    a method or backbone that is not here any more is named by its own spelling.

    Raises:
        UserError: no run is, or the text cannot be parsed. The message gives the nearest names.
    """
    label = text.removesuffix(OUTSIDE)
    if label and (found := [plan for plan in plans if _outside_label(plan) == label]):
        return found
    labels = {label: None for label in map(_outside_label, plans) if label}
    try:
        parts, setting = parse(text)
    except UserError as error:  # or the label of an encoder, which need not be the text of a run
        if suggestion(label, labels):
            raise UserError(f"'{text}' is not planned{did_you_mean(label, labels)}") from None
        known = f" (labels of encoders: {', '.join(labels)})" if labels else ""
        raise UserError(f"{error}{known}") from None
    by_name = {_name(plan): plan for plan in plans if setting in (None, plan["setting"])}
    spelled = {
        name for name, plan in by_name.items()
        if _comparable(parts) == _comparable(parse(plan["method"])[0])
    }  # fmt: skip
    unknown: set[str] = set()
    if not spelled:
        for name, plan in by_name.items():
            try:
                if _would_be(parts, plan):
                    spelled.add(name)
            except UnknownBackbone:
                unknown.add(plan["backbone"])
    if spelled:
        return [plan for plan in plans if _name(plan) in spelled]
    texts = {f"{plan['method']}@{plan['setting']}" if setting else plan["method"] for plan in plans}
    missing = f" in this spelling, and backbone '{min(unknown)}' is not here" if unknown else ""
    raise UserError(f"'{text}' is not planned{missing}{did_you_mean(text, {*texts, *labels})}")


def compared_boards(baseline: str, plans: Sequence[Plan]) -> list[str]:
    """The boards (`bench.datasets.tasks`) with a task on which the baseline and another method are
    scored, on one backbone or one of them without.

    Raises:
        UserError: there is none, or no run is of the baseline.
    """
    found = named(baseline, plans)
    first = min(found, key=lambda plan: plan["setting"] != "official")  # if it has both settings
    ours = [plan for plan in found if plan["setting"] == first["setting"]]
    rest = [plan for plan in plans if plan not in ours]
    shared: set[str] = set()
    for (backbone, tasks), (other, others_tasks) in itertools.product(_scored(ours), _scored(rest)):
        if backbone == other or "none" in (backbone, other):
            shared |= set(expand_tasks(tasks)) & set(expand_tasks(others_tasks))
    boards = boards_of(expand_tasks([task for plan in plans for task in plan["tasks"]]))
    if names := [name for name, board in boards.items() if shared & set(board.tasks)]:
        return names
    raise UserError(
        f"no other method is scored on the tasks and a backbone of '{baseline}'; add one to "
        "'methods', or remove 'compare'"
    )


def _outside_label(plan: Plan) -> str:
    label = plan.get("label", "")
    return label.removesuffix(OUTSIDE) if is_outside(label) else ""


def _name(plan: Plan) -> tuple[str, str, str]:
    return plan["method"], plan["setting"], plan["backbone"]


def _scored(plans: Sequence[Plan]) -> set[tuple[str, tuple[str, ...]]]:
    """Backbones with the tasks that runs are scored on."""
    return {(plan["backbone"], tuple(plan["tasks"])) for plan in plans}


def _would_be(parts: list[tuple[str, Keys]], plan: Plan) -> bool:
    """Whether parts would be this run if they were planned instead of it.

    Raises:
        UnknownBackbone: that cannot be said without the backbone.
    """
    spelled = "+".join(spell(name, keys) for name, keys in parts)
    # The text of a run does not depend on its corpus, data and seed.
    rest: dict[str, Any] = {"corpus": "wiki1m", "data": "senteval", "seed": plan["seed"]}
    try:
        run = resolve(
            f"{spelled}@{plan['setting']}",
            backbone_name=plan.get("reference") or plan["backbone"],
            recipe=suite_recipe(plan),
            **rest,
        )
    except UnknownBackbone:
        raise
    except UserError:  # it is not possible in this setting or on this backbone
        return False
    return run.text == plan["method"]


def _comparable(parts: list[tuple[str, Keys]]) -> list[tuple[str, dict[str, float | str]]]:
    def value(text: str) -> float | str:
        try:
            return float(text)
        except ValueError:
            return text.lower()

    first, *rest = [
        (name, {key: value(given) for key, given in keys.items()}) for name, keys in parts
    ]
    return [first, *sorted(rest, key=itemgetter(0))]
