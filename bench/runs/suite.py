"""The models of a configuration: its keys, their meaning, and checks of their values."""

import itertools
import os
import re
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from bench.datasets.tasks import GROUPS
from bench.runs import AnalysisName
from bench.runs.run import Recipe, convert
from bench.utils.errors import did_you_mean
from bench.utils.validation import StrictModel

LONGEST_NAME = 80  # letters in the name of a suite

Item = TypeVar("Item")
# Many texts are paths, in which no shell has expanded `~`.
Text = Annotated[str, Field(min_length=1), AfterValidator(os.path.expanduser)]


def _distinct(items: list[Item]) -> list[Item]:
    for item in items:
        if items.count(item) > 1:
            raise ValueError(f"{item!r} is listed twice; keep one")
    return items


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class EncoderEntry(StrictModel):
    """An entry of `encoders`: a model, or a map with these keys."""

    model: Text
    """a folder (Hugging Face, sentence-transformers, or of a run), a name in `BENCH_MODELS`, a
    backbone, or a hub id"""
    label: Annotated[str, Field(max_length=60)] = ""
    """its name in tables; by default the last part of `model`"""
    pooler: str | None = None
    """as of `sentbench evaluate`; by default the model's own"""
    prompt: str | None = None
    """a prompt of a sentence-transformers folder by name, or a text before each sentence (`""`:
    none); by default the folder's default"""
    normalize: bool = False
    """`true` scales vectors to length 1, which changes what classifiers see"""
    template: Annotated[list[str], BeforeValidator(_as_list), AfterValidator(_distinct)] = []
    """text around `<sentence>`; a list or a set of texts is one row (docs/how-to/encoders.md)"""
    dims: PositiveInt | None = None
    """how many first dimensions are kept; by default all"""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """of weights and states; vectors are float32"""


def _distinct_in_print(stand_ins: dict[str, list[str]]) -> dict[str, list[str]]:
    _distinct(list(itertools.chain.from_iterable(stand_ins.values())))
    return stand_ins


def _suite_name(name: str) -> str:
    if not re.fullmatch(rf"[a-z0-9][a-z0-9-]{{0,{LONGEST_NAME - 1}}}", name):
        raise ValueError(
            f"'{name}' is no name of a suite; use small letters, digits and dashes, at most "
            f"{LONGEST_NAME}"
        )
    return name


def _or_text(field: str) -> BeforeValidator:
    """Let an entry with no other field be given as the text of this one."""
    return BeforeValidator(lambda value: {field: value} if isinstance(value, str) else value)


_OR_NOTHING = BeforeValidator(lambda value: {} if value is None else value)

# Strict: 1.0 and true are no seeds, since they would give a run another identity than 1.
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Distinct = Annotated[list[Item], Field(min_length=1), AfterValidator(_distinct)]
Names = Annotated[Distinct[Text], BeforeValidator(_as_list)]


class BackboneOptions(StrictModel):
    """Seeds and tasks of the runs of a backbone, in place of the suite's."""

    seeds: Distinct[Seed] = []
    """instead of the suite's"""
    tasks: Distinct[str] = []
    """instead of the suite's"""


class MethodEntry(BackboneOptions):
    """An entry of `methods`: a run's text, or a map with these keys."""

    method: Text
    """the text of the run"""
    settings: Distinct[Literal["paper", "official"]] = []
    """`[paper]`, `[official]` or both; the text then has no `@`"""
    backbones: Names = ["all"]
    """names, or `all`: without backbones that have `tasks` or another kind than the method needs"""
    analyses: Distinct[AnalysisName] = []
    """further measurements (docs/reference/analyses.md)"""
    sweep: dict[str, Distinct[Any]] = {}
    """the values of each `{name}` in the text; several names give all combinations"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        unmatched = set(re.findall(r"\{(\w+)\}", self.method)) ^ set(self.sweep)
        if unmatched:
            name = min(unmatched)
            raise ValueError(f"'{{{name}}}' must be both in '{self.method}' and in its sweep")
        return self

    @property
    def texts(self) -> Iterator[str]:
        """Every combination of the sweep in each of the settings."""
        settings = [f"@{setting}" for setting in self.settings] or [""]
        for values in itertools.product(*self.sweep.values()):
            text = self.method
            for name, value in zip(self.sweep, values, strict=True):
                text = text.replace(f"{{{name}}}", str(value))
            for setting in settings:
                yield text + setting


class ClaimEntry(StrictModel):
    """An entry of `claims`: a run's text, or a map with these keys."""

    method: Text
    """the method that gains, as in `methods`"""
    backbones: Names = ["all"]
    """names, or `all`"""
    margin: PositiveFloat | None = None
    """in points; by default the margin of the comparison"""
    leaderboards: Names = []
    """by default those of the comparison"""


class Compare(StrictModel):
    """What is compared with a baseline, and which gains are claimed
    (docs/reference/rule.md#claims)."""

    baseline: Text
    """as in `methods`"""
    claims: Annotated[list[Annotated[ClaimEntry, _or_text("method")]], Field(min_length=1)] = []
    """the gains to decide on; by default of each method that is trained without labels"""
    margin: PositiveFloat = 1.0
    """the gain that would matter, in points; by default 1.0"""
    leaderboards: Names = []
    """of the claims, such as `sts`; by default all whose average is planned"""


class Suite(StrictModel):
    """A configuration of a suite, complete by itself."""

    suite: Annotated[str, AfterValidator(_suite_name)]
    """its name: lower-case letters, digits, dashes"""
    data: Text
    """`world` (toy data), `senteval`, or a folder that contains `downstream/`"""
    corpus: Text = ""
    """of methods: training text, by name, or by a path with a `/`"""
    tasks: Distinct[str] = Field(
        description=f"groups ({', '.join(GROUPS)}) and single tasks (`MR`, `STS-B`, `Depth`, "
        "`sts:NAME`, `probing:NAME`, ...)"
    )
    mode: Literal["test", "dev"] = "test"
    """of classifiers: `test` (10 folds, as papers report) or `dev` (5 folds, faster)"""
    seeds: Distinct[Seed] = []
    """of methods: distinct whole numbers from 0 to below `2**63`"""
    backbones: Annotated[
        dict[Text, Annotated[BackboneOptions, _OR_NOTHING]], Field(min_length=1)
    ] = {}
    """of methods: a map from names to nothing or to `{seeds: [...], tasks: [...]}`"""
    methods: Annotated[list[Annotated[MethodEntry, _or_text("method")]], Field(min_length=1)] = []
    """texts of runs, or maps"""
    encoders: list[Annotated[EncoderEntry, _or_text("model")]] = []
    """models trained elsewhere"""
    method_paths: Distinct[Text] = []
    """files or folders with methods of your own, relative to the working folder"""
    recipe: Annotated[dict[str, Any], AfterValidator(partial(convert, Recipe))] = {}
    """fields that override every method's own"""
    runs_per_job: PositiveInt = 1
    """runs that one process trains and then scores"""
    keep_encoders: bool = True
    """`false` deletes an encoder once it is scored and analysed and no other run needs it
    (docs/how-to/clusters.md#disk)"""
    stand_ins: Annotated[dict[str, Names], AfterValidator(_distinct_in_print)] = {}
    """a map from a backbone to the printed ones in whose rows it is shown"""
    printed: Text = ""
    """a CSV file with printed numbers, relative to this file"""
    compare: Annotated[Compare | None, _or_text("baseline")] = None
    """the baseline of all other methods, or a map"""

    def tasks_of(self, backbone_name: str) -> list[str]:
        """The tasks of a backbone, such as one of another language, else the suite's tasks."""
        return self.backbones.get(backbone_name, BackboneOptions()).tasks or self.tasks

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.runs_per_job > 1 and not self.keep_encoders:
            raise ValueError(
                "'keep_encoders: false' needs jobs of one run, because a job that is stopped makes "
                "the results of all its runs again; omit 'runs_per_job'"
            )
        if self.methods or not self.encoders:
            for key in ("methods", "corpus", "seeds", "backbones"):
                if not getattr(self, key):
                    raise ValueError(f"'{key}' is missing")
        sources = dict.fromkeys(self.stand_ins, "in 'stand_ins'")
        entries: list[MethodEntry | ClaimEntry] = [*self.methods]
        if self.compare:
            entries += self.compare.claims
        for entry in entries:
            sources |= {name: f"of '{entry.method}'" for name in entry.backbones if name != "all"}
        for name in sources.keys() - self.backbones:
            hint = did_you_mean(name, self.backbones)
            raise ValueError(f"'{name}' {sources[name]} is not in 'backbones'{hint}")
        return self

    @property
    def printed_backbones(self) -> list[tuple[str, str]]:
        """Pairs of a printed backbone and the suite's backbone that stands in for it."""
        return [(printed, name) for name, names in self.stand_ins.items() for printed in names]
