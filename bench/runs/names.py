"""Whether a text, written as in configurations, names the method of a planned run."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from bench.runs.resolve import resolve
from bench.runs.text import Keys, parse, spell
from bench.utils.errors import UserError


def is_named(text: str, plan: Mapping[str, Any]) -> bool:
    """Whether a text names the method of a run, and its setting if the text has one.

    Spaces, the order of keys and ingredients, the spelling of numbers, and keys that change nothing
    make no difference.

    Args:
        text: see `bench.runs.text`.
        plan: the run, as `Run.describe` describes it. It may be of a method that is not there any
            more, which only its own spelling names.

    Raises:
        UserError: the text cannot be parsed.
    """
    parts, setting = parse(text)
    if setting not in (None, plan["setting"]):
        return False
    if _comparable(parts) == _comparable(parse(plan["method"])[0]):
        return True
    spelled = "+".join(spell(name, keys) for name, keys in parts)
    # The text of a run does not depend on its corpus, data and seed.
    rest: dict[str, Any] = {"corpus": "wiki1m", "data": "senteval", "seed": plan["seed"]}
    try:
        run = resolve(
            f"{spelled}@{plan['setting']}",
            backbone_name=plan.get("reference") or plan["backbone"],
            recipe=plan.get("recipe_changes") or {},
            **rest,
        )
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
