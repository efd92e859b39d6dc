"""Runs that a run needs first: hyper-parameters with the mark `MODEL` name their encoders.

The value is `run:TEXT`, or `run:TEXT on BACKBONE`. Such a run has the corpus, data and seed of the
run that needs it, and the suite's recipe.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from bench.registry.backbones import NO_BACKBONE, Backbone
from bench.runs.run import PlannedRun, Run, model_fields
from bench.utils.errors import UserError
from methods.base import Method

RUN = "run:"


@dataclass
class Needs:
    """The runs that one run needs.

    Attributes:
        text: of the run that needs them.
        trained: whether it is trained.
        chosen: its backbone.
        resolve: makes a run from its text and the name of its backbone.
        runs: those that were named, by their only spelling.
    """

    text: str
    trained: bool
    chosen: Backbone
    resolve: Callable[[str, str], Run]
    runs: dict[str, Run] = field(default_factory=dict)

    def spelled(self, cls: type[Method], hyper: Any) -> Any:
        """Hyper-parameters of a method in which every needed run has its only spelling.

        Raises:
            UserError: a value names no run, one that is not trained, or one that needs itself.
        """
        spellings = {}
        for key in model_fields(cls):
            value = getattr(hyper, key)
            if isinstance(value, str) and value.startswith(RUN):
                run = self._named(value)
                spellings[key] = f"{RUN}{run.text}"
                if run.reference not in (self.chosen.reference, NO_BACKBONE.reference):
                    spellings[key] += f" on {run.reference}"
                self.runs[spellings[key]] = run
        return hyper.model_copy(update=spellings)

    def _named(self, value: str) -> Run:
        text, backbone_name = split_run(value)
        if not text:
            raise UserError(f"'{value}' in '{self.text}' names no run; write run:METHOD")
        if not self.trained:
            raise UserError(
                f"'{self.text}' is not trained, so it cannot use '{value}'; the run itself is a "
                "row of the suite where 'methods' lists it"
            )
        run = self.resolve(text, backbone_name or self.chosen.reference)
        if not run.trained:
            raise UserError(
                f"'{value}' in '{self.text}' is not trained; name a method that is trained, a "
                "folder, or a model of the hub"
            )
        return run

    def check(self, hyper: Any) -> None:
        """Raise `UserError` if the encoder of a run is not what the hyper-parameter needs that
        names it."""
        for key in hyper.marked("model"):
            run = self.runs.get(getattr(hyper, key))
            if run is not None:
                self._check(key, hyper, run)

    def _check(self, key: str, hyper: Any, run: Run) -> None:
        subject = f"'{key}' in '{self.text}'"
        if key in hyper.marked("language"):
            raise UserError(
                f"{subject} needs a masked language model, and '{run.method}' keeps no head of "
                "one; name a folder or a model of the hub"
            )
        pooler = hyper.marked("pooler").get(key)
        if pooler is None:
            return
        needed, kept = getattr(hyper, pooler, pooler), run.transformer_pooler
        if kept != needed:
            has = f"has the pooler '{kept}'" if kept else "has an encoder of its own kind"
            remedy = f"set {pooler}={kept}" if pooler != needed and kept else "name another"
            raise UserError(
                f"{subject} needs a transformer with the pooler '{needed}', and "
                f"'{run.method}' {has}; {remedy}"
            )

    def of(self, parts: Iterable[tuple[type[Method], Mapping[str, Any]]]) -> dict[str, Run]:
        """Those that the final hyper-parameters of methods name, by their spelling."""
        values = [hyper.get(key) for cls, hyper in parts for key in model_fields(cls)]
        return {value: self.runs[value] for value in values if value in self.runs}


def split_run(value: str) -> tuple[str, str]:
    """The text of the run that a value names, and its backbone, empty if it names none.

    >>> split_run("run:simcse@paper on roberta-base")
    ('simcse@paper', 'roberta-base')
    """
    value = value.removeprefix(RUN)
    text, separator, backbone = value.rpartition(" on ")
    if not separator or set(backbone) & set("[]"):  # the word is part of the text
        return value.strip(), ""
    return text.strip(), backbone.strip()


def in_order(runs: Iterable[Run]) -> list[Run]:
    """Runs and those that they need, each once and after what it needs."""
    ordered: dict[str, Run] = {}
    for run in runs:
        for needed in (*in_order(run.needs.values()), run):
            ordered.setdefault(needed.id, needed)
    return list(ordered.values())


def chains(runs: Iterable[PlannedRun]) -> list[list[PlannedRun]]:
    """Planned runs in groups: each with those of them that it needs, before it. One process takes a
    group."""
    groups: list[list[PlannedRun]] = []
    for run in runs:
        needed = {need.id for need in run.needs.values()}
        joined = [group for group in groups if needed & {member.id for member in group}]
        if joined:
            joined[0] += [*chain.from_iterable(joined[1:]), run]
            groups = [group for group in groups if group not in joined[1:]]
        else:
            groups.append([run])
    return groups
