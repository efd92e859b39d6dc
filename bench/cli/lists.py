"""Commands that list what the project has: methods, tasks and papers."""

from collections import defaultdict
from typing import Annotated, Any, Literal, get_args, get_origin

from bench.cli.parameters import arg, command


def _print(rows: list[dict[str, Any]], width: int = 44) -> None:
    """Print a table of cells by heading, `width` letters at most in a line of a cell."""
    from tabulate import tabulate

    print(tabulate(rows, "keys", disable_numparse=True, maxcolwidths=width))


@command(epilog="Example: sentbench methods gs-infonce")
def methods(
    name: Annotated[str | None, arg("List the hyper-parameters of this method.", "METHOD")] = None,
) -> None:
    """List the methods, or the hyper-parameters of one.

    Below its default, a hyper-parameter or a field of the recipe has its values in the paper and in
    the released code (official). Those of * hold on all backbones that have none of their own; a
    backbone that is nowhere listed has those of bert-base-uncased.
    """
    from bench.registry.methods import method_class

    if name:
        cls = method_class(name)
        print(f"{cls.title}: {cls.reference}\n")
        _print(hyper_parameters(cls))
    else:
        _print(methods_table(), 28)


def methods_table() -> list[dict[str, Any]]:
    """A row for each method."""
    from bench.registry.methods import method_classes

    rows = []
    for name, cls in sorted(method_classes().items()):
        paper, _, code = cls.reference.partition("; code ")
        backbones = {*cls.paper, *(cls.official or ())} - {"*"}
        row = {
            "name": name,
            "idea": cls.__doc__,
            "paper": paper,
            "released code": code,
            "own settings for": ", ".join(sorted(backbones)),
        }
        rows.append(row)
    return rows


def hyper_parameters(cls: Any) -> list[dict[str, Any]]:
    """Rows for each hyper-parameter of a method, and for each field of the recipe that it sets: the
    default, and each value that is declared, with its settings and backbones."""
    from bench.registry.methods import format_value
    from bench.runs.run import Recipe

    rows = []
    for key, field in (Recipe.model_fields | cls.Hyper.model_fields).items():
        settings: dict[tuple[str, str], list[str]] = defaultdict(list)  # by value and backbones
        for setting in ("paper", "official"):
            backbones: dict[str, list[str]] = defaultdict(list)  # by value
            for backbone, values in (getattr(cls, setting) or {}).items():
                if key in values:
                    backbones[format_value(values[key])].append(backbone)
            for value, names in backbones.items():
                settings[value, ", ".join(names)].append(setting)
        if key in cls.Hyper.model_fields or settings:
            default = {"name": key, "setting": "default", "value": format_value(field.default)}
            rows.append(default | {"meaning": _meaning(field)})
        for (value, where), of in settings.items():
            rows.append({"setting": f"{' and '.join(of)}: {where}", "value": value})
    return rows


def description(field: Any) -> str:
    """The text below a field of a model, in one line."""
    return " ".join((field.description or "").split())


def _meaning(field: Any) -> str:
    """The description of a hyper-parameter, with the choices that it leaves out."""
    text = description(field)
    choices = _choices(field.annotation)
    # Poolers have a table of their own.
    if len(choices) < 6 and not all(choice in text for choice in choices):
        text += f": {', '.join(choices)}"
    return text


def _choices(annotation: Any) -> list[str]:
    """The values of a Literal, also of one that may be none."""
    if get_origin(annotation) is Literal:
        return list(map(str, get_args(annotation)))
    return [choice for part in get_args(annotation) for choice in _choices(part)]


@command(epilog="Example: sentbench tasks")
def tasks() -> None:
    """List the tasks, with their data sets."""
    _print(tasks_table())


def tasks_table() -> list[dict[str, Any]]:
    """A row for each task. Where classifiers are cross-validated, all items are test items."""
    from bench.datasets.metrics import metrics_of
    from bench.datasets.tasks import PAIRS, TASKS

    return [
        {
            "name": task.name,
            "group": task.group,
            "protocol": "pairs" if task.protocol == PAIRS else "classifier",
            "metric": min(metrics_of(task.protocol, task.name)),
            "test items": task.sizes.get("test") or sum(task.sizes.values()),
            "dev items": task.sizes.get("dev"),
            "source": task.source,
        }
        for task in TASKS.values()
    ]


@command(epilog="Example: sentbench papers")
def papers() -> None:
    """List the papers with printed numbers, and their tables."""
    _print(papers_table())


def papers_table() -> list[dict[str, Any]]:
    """A row for each paper, with how many of its printed numbers are compared with a run."""
    from bench.reported import PAPERS
    from bench.reported.address import tables_of
    from bench.reported.number import numbers

    sources = [number.source for number in numbers()]
    compared = [number.source for number in numbers() if number.run]
    return [
        {
            "key": source,
            "title": paper["title"],
            "year": paper["year"],
            "tables": ", ".join(tables_of(source)),
            "numbers": sources.count(source),
            "with a run": compared.count(source),
        }
        for source, paper in PAPERS.items()
    ]
