"""The planned runs that a user's text names."""

from collections.abc import Sequence
from pathlib import Path

from bench.runs.plan import PlannedRun, deviations, read_plan
from bench.utils.errors import UserError, did_you_mean, errors_of


def find_runs(text: str, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The runs whose method, and setting if the text has one, a text names.

    An outside encoder is named by its label. Any other run is named by its method or its label. The
    label may be in upper or lower case, and may lack its parentheses if one method alone has the
    rest. In methods, spaces, the order of keys and ingredients, the spelling of numbers, and keys
    that change nothing make no difference. A run whose method or backbone has left the project is
    named as in the plan. `UserError` gives the nearest names.
    """
    plain = text.strip().lower()
    short = [run for run in runs if run.label.partition(" (")[0].lower() == plain]
    matches = [  # the most exact first: labels of encoders are free text, as of methods
        [run for run in runs if run.outside and run.label == text],
        [run for run in runs if text.strip() in (run.text, run.method)],
        [run for run in runs if run.label.lower() == plain],
        short if len({run.method for run in short}) == 1 else [],
    ]
    return next(filter(None, matches), []) or _spelled_otherwise(text, runs)


def _spelled_otherwise(text: str, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The runs whose method a text names in another spelling."""
    from bench.runs.text import parse  # loads torch, which names of planned runs do not need

    labels = {run.label for run in runs if run.outside}
    try:
        _, setting = parse(text)
    except UserError:
        if "[" in text and not labels:
            raise
        # It may be meant as a label, and no text of a method.
        names = {run.label for run in runs}
        raise UserError(f"'{text}' is not planned{did_you_mean(text, names)}") from None
    method = text.strip().removesuffix(f"@{setting}")
    # All seeds of a row have one text, so one of them is resolved.
    examples = {(run.text, run.backbone): run for run in runs if setting in (None, run.setting)}
    same = {key for key, run in examples.items() if _would_be(method, run)}
    if same:
        return [run for run in runs if (run.text, run.backbone) in same]
    texts = {run.text if setting else run.method for run in runs}
    raise UserError(f"'{text}' is not planned{did_you_mean(text, texts | labels)}")


def find_run(text: str, runs: Sequence[PlannedRun]) -> PlannedRun:
    """A run of the planned method that a text names. Without `@` the official setting comes first,
    as in configurations; of several corpora or recipes, one that is comparable with the papers."""
    return min(
        find_runs(text, runs), key=lambda run: (run.setting != "official", bool(deviations([run])))
    )


def _would_be(method: str, planned: PlannedRun) -> bool:
    """Tell whether a method's text would be this run if it were planned instead of it."""
    from bench.runs.resolve import resolve, suite_recipe

    try:
        run = resolve(
            f"{method}@{planned.setting}",
            backbone_name=planned.reference or planned.backbone,
            corpus="wiki1m",  # the text does not depend on it, nor on data and seed
            data="senteval",
            seed=planned.seed,
            recipe=suite_recipe(planned),
        )
    except UserError:  # the method is impossible in this setting or on this backbone
        return False
    return run.method == planned.method


def planned_text(suite_dir: Path, name: str) -> str:
    """The text, with the setting, of the method of a suite's plan that a name means."""
    plan = read_plan(suite_dir / "plan.json")
    with errors_of(f"suite {plan.suite}"):
        return find_run(name, plan.runs).text
