"""Commands that list what the project has: methods, tasks and papers."""

from typing import Annotated, Any

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

    Below its default, a hyper-parameter has its values in the paper and in the released code; those
    of * hold on all backbones that are not listed.
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
    """Rows for each hyper-parameter of a method: its default, and its values in both settings where
    they are declared."""
    from bench.registry.methods import format_value

    rows = []
    for key, field in cls.Hyper.model_fields.items():
        default = {"name": key, "setting": "default", "value": format_value(field.default)}
        rows.append(default | {"meaning": field.description})
        for setting in ("paper", "official"):
            for backbone, values in (getattr(cls, setting) or {}).items():
                if key in values:
                    value = format_value(values[key])
                    rows.append({"setting": f"{setting}, {backbone}", "value": value})
    return rows


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
