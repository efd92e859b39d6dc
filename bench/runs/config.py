"""The configuration of a suite: read from YAML, validated, expanded to runs."""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from bench.datasets.corpora import check_name, check_structure
from bench.datasets.labelled import check_dev, read_scored
from bench.datasets.manifest import listed_task
from bench.datasets.tasks import GROUPS, OWN_PROBING, OWN_STS, boards_of, expand_tasks
from bench.registry.backbones import BACKBONE_KINDS, NO_BACKBONE, backbone
from bench.registry.methods import add_method_paths, method_class, method_classes, python_files
from bench.registry.templates import templates_of
from bench.runs import SUITES, AnalysisName
from bench.runs.naming import named_row
from bench.runs.paths import local_data
from bench.runs.plan import Claim, Plan
from bench.runs.resolve import parse, resolve, spell
from bench.runs.run import Recipe, Run, converted, in_order
from bench.utils.errors import UserError, did_you_mean, errors_of
from bench.utils.files import slug
from bench.utils.validation import StrictModel, validated

Item = TypeVar("Item")
# Many are paths, which no shell has expanded.
Text = Annotated[str, Field(min_length=1), AfterValidator(os.path.expanduser)]


def _distinct(items: list[Item]) -> list[Item]:
    for index, item in enumerate(items):
        if item in items[:index]:
            raise ValueError(f"{item!r} is listed twice; keep one")
    return items


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class EncoderEntry(StrictModel):
    """An entry of `encoders`: a model, or such a map."""

    model: Text
    """a folder (Hugging Face, sentence-transformers, or of a run), a name in `BENCH_MODELS`, a
    backbone's name, or a hub id"""
    label: Annotated[str, Field(max_length=60)] = ""
    """its name in tables; by default the last part of `model`"""
    pooler: str | None = None
    """as `bench evaluate` takes it; by default the one that the model names"""
    prompt: str | None = None
    """a prompt of a sentence-transformers folder by name, or a text before each sentence, such as
    `"query: "`, `""` for none; by default the folder's default"""
    normalize: bool = False
    """`true` scales vectors to length 1, which changes what classifiers see"""
    template: Annotated[list[str], BeforeValidator(_as_list), AfterValidator(_distinct)] = []
    """text around `<sentence>`; a list of texts, or the name of a set, is one row with a score for
    each (docs/encoders.md)"""
    dims: PositiveInt | None = None
    """first dimensions of vectors that are kept; by default all"""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """of weights and states; vectors are float32"""


def encoder_runs(encoders: Sequence[EncoderEntry], data: str) -> Iterator[Run]:
    """The runs of a configuration's `encoders`, in order, labelled as outside encoders; `UserError`
    if a model or its pooler is missing, or a label is given twice or is the name of a method."""
    if encoders:
        from bench.models.load import check_planned  # imports torch's models
        from bench.models.options import Options

    # Tables and comparisons name an encoder by its label, beside methods.
    taken = {text.lower() for cls in method_classes().values() for text in (cls.name, cls.title)}
    labels: set[str] = set()
    for entry in encoders:
        label = entry.label or Path(entry.model).absolute().name
        subject = f"the encoder '{label}'"
        if re.split(r"[\[+@]", label.lower())[0] in taken:
            raise UserError(f"{subject} has the name of a method; give it another 'label'")
        if label.lower() in labels:
            raise UserError(f"{subject} is listed twice; give each a 'label' of its own")
        labels.add(label.lower())
        with errors_of(subject):
            templates: list[str | None] = []
            for text_or_set in entry.template:
                templates += templates_of(text_or_set)
            for template in templates or [None]:
                options = entry.model_dump(exclude={"model", "label"}) | {"template": template}
                check_planned(entry.model, Options(**options))
                run = resolve(
                    "published@paper", backbone_name="none", corpus="", data=data, seed=None,
                    keys={"model": entry.model, **options},
                )  # fmt: skip
                fields: dict[str, Any] = {"label": label, "outside": True}
                if len(templates) > 1:  # they are one row, named after its label
                    row = spell("published", {"model": entry.model, "template": label})
                    fields |= {"method": row, "template": template}
                yield run.model_copy(update=fields)


# Links to Snakefile, rules/ and profiles/, so that an installed package has the workflow.
_LINKS = Path(__file__).parents[1] / "workflow"
SNAKEFILE, SLURM = ((_LINKS / name).resolve() for name in ("Snakefile", "profiles/slurm"))
# The suites that plan what papers print. The second needs Chinese evaluation data, which cannot be
# downloaded.
PAPERS = (SUITES / "paper.yaml", SUITES / "chinese.yaml")

LONGEST_NAME = 80  # letters in the name of a suite

# Models of a configuration


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
_OR_ITEM = BeforeValidator(_as_list)

# Strict: 1.0 and true are no seeds, since they would give a run another identity than 1.
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Distinct = Annotated[list[Item], Field(min_length=1), AfterValidator(_distinct)]
Names = Annotated[Distinct[Text], _OR_ITEM]


class BackboneOptions(StrictModel):
    """Seeds and tasks that the runs of a backbone have instead of the suite's own."""

    seeds: Distinct[Seed] = []
    """their seeds, instead of the suite's"""
    tasks: Distinct[str] = []
    """their tasks, instead of the suite's"""


class MethodEntry(BackboneOptions):
    """An entry of `methods`: a run's text, or such a map."""

    method: Text
    """the text of the run"""
    settings: Distinct[Literal["paper", "official"]] = []
    """`[paper]`, `[official]` or both; the text then has no `@`"""
    backbones: Names = ["all"]
    """`all`, or a list of this suite's backbones; `all` excludes those with `tasks` of their own,
    and those of another kind than the method needs"""
    analyses: Distinct[AnalysisName] = []
    """further measurements (docs/analyses.md)"""
    added: bool = False
    """`true` if its tasks were added for its seeds after a look at the scores; a plan that is
    written again finds that out itself (docs/statistics.md)"""
    sweep: dict[str, Distinct[Any]] = {}
    """a map from each `{name}` in the text to its values; several names give every combination"""

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
    """An entry of `claims`: a run's text, or such a map."""

    method: Text
    """the method that gains, as in `methods`"""
    backbones: Names = ["all"]
    """`all`, or a list of this suite's backbones"""
    margin: PositiveFloat | None = None
    """in points; by default that of the comparison"""


class Compare(StrictModel):
    """What is compared with a baseline, and which gains are claimed (docs/statistics.md#claims)."""

    baseline: Text
    """the method that every other one is compared with, as in `methods`"""
    claims: Annotated[list[Annotated[ClaimEntry, _or_text("method")]], Field(min_length=1)] = []
    """the gains to decide on; by default those of every method that is trained without labels"""
    margin: PositiveFloat = 1.0
    """in points: is a gain above 0, is it below this margin?"""
    boards: Names = []
    """the boards of the claims, such as `sts`; by default all whose average is planned"""


class Suite(StrictModel):
    """A configuration of a suite, complete by itself."""

    suite: Annotated[str, AfterValidator(_suite_name)]
    """its name: lower-case letters, digits, dashes"""
    data: Text
    """evaluation data: `world` (generated), `senteval`, or a folder that contains `downstream/`"""
    corpus: Text = ""
    """needed by methods: training text, by name (`world`, `wiki1m`, ..., a name in `BENCH_DATA`) or
    by a path with a `/` in it"""
    tasks: Distinct[str] = Field(
        description=f"the tasks to score: a list of groups ({', '.join(GROUPS)}) and of single "
        "tasks (`MR`, `STS-B`, `Depth`, `sts:NAME`, `probing:NAME`, ...)"
    )
    mode: Literal["test", "dev"] = "test"
    """how classifiers are trained: `test` (10 folds, what papers report) or `dev` (5 folds,
    faster)"""
    seeds: Distinct[Seed] = []
    """needed by methods: distinct whole numbers from 0 to below `2**63`"""
    backbones: Annotated[
        dict[Text, Annotated[BackboneOptions, _OR_NOTHING]], Field(min_length=1)
    ] = {}
    """needed by methods: a map from names to nothing, or to `{seeds: [...], tasks: [...]}`"""
    methods: Annotated[list[Annotated[MethodEntry, _or_text("method")]], Field(min_length=1)] = []
    """a list of run texts, or of maps with the keys of an entry"""
    encoders: list[Annotated[EncoderEntry, _or_text("model")]] = []
    """models trained elsewhere that are scored beside the runs"""
    method_paths: Distinct[Text] = []
    """files or folders with methods of your own, relative to the working folder"""
    recipe: Annotated[dict[str, Any], AfterValidator(partial(converted, Recipe))] = {}
    """recipe fields that override every method's own"""
    runs_per_job: PositiveInt = 1
    """number of runs that one process trains, and then scores"""
    keep_encoders: bool = True
    """`false` deletes an encoder once it is scored and analysed and no other run needs it
    (docs/first-gpu-day.md#disk)"""
    stand_ins: Annotated[dict[str, Names], AfterValidator(_distinct_in_print)] = {}
    """a map from a backbone of this suite to the printed one, or a list of them, in whose rows it
    is shown"""
    compare: Compare | None = None
    """`{baseline: METHOD, claims: [...], margin: 1.0}`: every other method is compared with this
    one, and claimed gains are decided"""

    def tasks_of(self, backbone_name: str) -> list[str]:
        """The tasks of a backbone (for example one of another language), else those of the
        suite."""
        options = self.backbones.get(backbone_name)
        return options.tasks if options and options.tasks else self.tasks

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
        for entry in self.methods:
            sources |= {name: f"of '{entry.method}'" for name in entry.backbones if name != "all"}
        for claim in self.compare.claims if self.compare else []:
            sources |= {name: f"of '{claim.method}'" for name in claim.backbones if name != "all"}
        for name in sources.keys() - self.backbones:
            hint = did_you_mean(name, self.backbones)
            raise ValueError(f"'{name}' {sources[name]} is not in 'backbones'{hint}")
        return self

    @property
    def printed_backbones(self) -> list[tuple[str, str]]:
        """Pairs of a backbone in print and the suite's backbone that stands in for it."""
        return [(printed, name) for name, names in self.stand_ins.items() for printed in names]


# Reading


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys, of which PyYAML keeps the last."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen: list[Any] = []
        for key, _ in node.value:
            if key.value in seen:
                mark = key.start_mark
                raise UserError(f"line {mark.line + 1}: duplicate key '{key.value}'; keep one")
            seen.append(key.value)
        return node


def load(path: Path) -> Suite:
    """Read and validate a configuration file; `UserError` names the file and the key."""
    with errors_of(f"configuration {path}"):
        return validate(read(path))


def read(path: Path) -> Any:
    """Parse a file; `UserError` if it is missing, not YAML, or has a duplicate key."""
    try:
        with open(path, encoding="utf-8") as stream:
            return _Loader(stream).get_single_data()
    except OSError as error:
        raise UserError(
            f"it cannot be read ({error.strerror}); config/ holds the suites of the project"
        ) from None
    # Of dates, numbers and depths that it cannot build PyYAML raises others than its own.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        remedy = "indent with spaces, not tabs" if r"'\t'" in str(error) else "fix it"
        raise UserError(f"it is not YAML ({' '.join(str(error).split())}); {remedy}") from None


def validate(values: Any) -> Suite:
    """Validate the content of a configuration, and that its methods are there. The `UserError`
    names the invalid key, and the closest valid one if it is misspelt.

    Its `method_paths` are then added to `BENCH_METHODS` of this and of child processes.
    """
    if not isinstance(values, dict):
        raise UserError("the file is empty, or no map from keys to values; see config/README.md")
    suite = validated(Suite, values)
    if suite.stand_ins:
        _check_stand_ins(suite)
    for path in suite.method_paths:
        python_files(Path(path))  # raises if nothing is there
    add_method_paths(suite.method_paths)
    return suite


def _check_stand_ins(suite: Suite) -> None:
    # Imports pandas, which other configurations do not need.
    from bench.reported.number import numbers

    reported = {number.our_backbone for number in numbers() if number.run} - {"none"}
    for printed, name in suite.printed_backbones:
        if printed not in reported:
            raise UserError(
                f"'stand_ins.{name}' is '{printed}', which no paper reports"
                f"{did_you_mean(printed, reported)}"
            )


# Expansion


def planned(suite: Suite) -> list[Run]:
    """Expand a suite into runs, in order. Entries that resolve to one run are merged. A run follows
    those that it needs, which are added where no entry lists them.

    `UserError`: an entry cannot be resolved, a corpus is unknown, the data lacks a task, or the
    baseline of the comparison is not planned.
    """
    by_id: dict[str, Run] = {}
    addition = itertools.count(1)
    for entry, run in _entry_runs(suite):
        tasks = entry.tasks or suite.tasks_of(run.backbone)
        merged = by_id.get(run.id) or run
        more: dict[str, Any] = {
            "tasks": tuple(dict.fromkeys((*merged.tasks, *tasks))),
            "analyses": tuple(dict.fromkeys((*merged.analyses, *entry.analyses))),
        }
        if entry.added:
            more["added"] = merged.added | dict.fromkeys(tasks, next(addition))
        by_id[run.id] = merged.model_copy(update=more)
    for run in encoder_runs(suite.encoders, suite.data):
        if run.id in by_id:
            raise UserError(f"'{run.label}' is the same as '{by_id[run.id].label}'; remove one")
        by_id[run.id] = run.model_copy(update={"tasks": tuple(suite.tasks)})
    runs = []
    for run in in_order(by_id.values()):
        # A run that no entry lists has the tasks of its backbone.
        usual = {"tasks": tuple(suite.tasks_of(run.backbone))}
        runs.append(by_id.get(run.id) or run.model_copy(update=usual))
    _check_names({name: backbone(name).name for name in suite.backbones})
    _check_corpora(suite, runs)
    _check_sets(suite, runs)
    return runs


def _claims(compare: Compare, baseline: str, runs: Sequence[Run]) -> list[Claim]:
    """The claims of a comparison, each once; on the backbones of both sides."""
    tasks = {*expand_tasks([task for run in runs for task in run.tasks])}
    known = [name for name, board in boards_of(tasks).items() if tasks & {*board.tasks}]
    for name in compare.boards:
        if name not in known:
            raise UserError(f"'compare.boards' has '{name}'{did_you_mean(name, known)}")
    places = {run.backbone for run in runs if run.text == baseline}
    entries = compare.claims or [
        ClaimEntry(method=text)
        for text in dict.fromkeys(run.text for run in runs if run.trained and not run.labelled)
        if text != baseline
    ]
    found: dict[tuple[str, str], Claim] = {}
    for entry in entries:
        with errors_of("'compare.claims'"):
            method = named_row(entry.method, runs)
        if method.text == baseline:
            raise UserError(f"'compare.claims' has the baseline, '{entry.method}'; leave it out")
        listed = [backbone(name).name for name in entry.backbones if name != "all"]
        shared = {run.backbone: run for run in runs if run.text == method.text and not run.skip}
        both = [
            name
            for name in listed or shared
            if name in shared and {name, NO_BACKBONE.name} & places
        ]
        if compare.claims and len(both) < max(len(listed), 1):
            where = " or ".join(listed) or "any backbone"
            raise UserError(
                f"'compare.claims' has '{entry.method}' on {where}, where it or the baseline is "
                "not planned; leave it out"
            )
        for name in both:
            if (method.text, name) in found:
                raise UserError(f"'compare.claims' has '{entry.method}' twice; leave one out")
            found[method.text, name] = Claim(
                method=method.text,
                backbone=name,
                corpus=shared[name].corpus,
                recipe_changes=shared[name].recipe_changes,
                baseline=baseline,
                margin=entry.margin or compare.margin,
                boards=compare.boards,
            )
    return [*found.values()]


def _entry_runs(suite: Suite) -> Iterator[tuple[MethodEntry, Run]]:
    """The runs that the entries of a suite list, in order."""
    expand = partial(resolve, corpus=suite.corpus, data=suite.data, recipe=suite.recipe)
    for entry in suite.methods:
        for text in entry.texts:
            for name in _backbones(entry, text, suite):
                for seed in entry.seeds or suite.backbones[name].seeds or suite.seeds:
                    yield entry, expand(text, backbone_name=name, seed=seed)


def _check_names(shown: Mapping[str, str]) -> None:
    """Check that no two backbones, or corpora, of a suite have one name in names of files; each is
    given with the name that is shown."""
    first: dict[str, str] = {}
    for name, short in shown.items():
        other = first.setdefault(slug(short), name)
        if other != name:
            raise UserError(
                f"'{other}' and '{name}' have one name, {slug(short)}; leave one out, or rename "
                "its file or folder"
            )


def _check_corpora(suite: Suite, runs: Sequence[Run]) -> None:
    """Check that corpora exist, and have the documents or triples that their runs need."""
    names = dict.fromkeys(name for run in runs for name in run.corpora)
    # Analyses of runs without a corpus read the suite's.
    _check_names({name: name for name in (suite.corpus, *names)})
    for name in names:
        check_name(name)
    for run in runs:
        if run.structure:
            with errors_of(f"'{run.method}' cannot be trained"):
                check_structure(run.corpus, run.structure)
                if run.recipe.distinct:
                    raise UserError(f"'distinct' breaks up the corpus's {run.structure}; omit it")


def _check_sets(suite: Suite, runs: Sequence[Run]) -> None:
    """Check that the data has the sets on which runs are scored and selected, if it is here."""
    tasks = expand_tasks([task for run in runs for task in run.tasks])
    selected: dict[str, None] = {}
    for run in runs:
        if run.trained:
            selected |= dict.fromkeys(run.recipe.selection)
    in_own_folder = suite.data not in ("senteval", "world")
    # Only the manifest of a folder describes sets that the project does not know.
    described = [name for name in (*tasks, *selected) if name.startswith((OWN_STS, OWN_PROBING))]
    if described and not in_own_folder:
        raise UserError(
            f"'{described[0]}' is a set of a data folder of your own, and 'data' is "
            f"'{suite.data}'; set 'data' to the folder whose manifest.json lists it"
        )
    folder = local_data(suite.data)
    if folder:
        for task in tasks:
            listed_task(task, folder)
        check_dev(list(selected), folder, in_own_folder)
        for name in described:  # a mistake in them shows before a training
            read_scored(name, folder)


def reseeded(suite: Suite, seeds: Iterable[int]) -> Suite:
    """A copy of a suite in which every run has these seeds."""
    backbones = {
        name: options.model_copy(update={"seeds": []}) for name, options in suite.backbones.items()
    }
    entries = [entry.changed(seeds=list(seeds)) for entry in suite.methods]
    return suite.changed(seeds=list(seeds), backbones=backbones, methods=entries)


def dump(suite: Suite) -> str:
    """A suite as YAML, which `load` reads back."""
    # Lists and maps without further ones in them are written on one line, as in config/.
    return str(
        yaml.safe_dump(
            suite.model_dump(exclude_defaults=True),
            default_flow_style=None,
            sort_keys=False,
            allow_unicode=True,
            width=100,
        )
    )


def _backbones(entry: MethodEntry, text: str, suite: Suite) -> list[str]:
    """The backbones that an entry lists, else all of a matching kind without tasks of their own."""
    if entry.backbones != ["all"]:
        return entry.backbones
    method = method_class(parse(text)[0][0][0])
    matching = [
        name
        for name, options in suite.backbones.items()
        if not options.tasks
        and (method.backbone_free or backbone(name).kind == method.backbone_kind)
    ]
    if not matching:
        needed = BACKBONE_KINDS[method.backbone_kind]
        raise UserError(f"'{text}' needs {needed}; add one to 'backbones'")
    return matching


def plan(suite: Suite) -> Plan[Run]:
    """The content of `plan.json`: the runs of a suite, and what all of them have in common."""
    runs = planned(suite)
    baseline, claims = "", list[Claim]()
    if suite.compare:
        with errors_of("'compare.baseline'"):
            baseline = named_row(suite.compare.baseline, runs).text
        claims = _claims(suite.compare, baseline, runs)
    return Plan[Run](
        suite=suite.suite,
        data=suite.data,
        corpus=suite.corpus,
        tasks=suite.tasks,
        mode=suite.mode,
        stand_ins={printed: backbone(name).name for printed, name in suite.printed_backbones},
        baseline=baseline,
        keep_encoders=suite.keep_encoders,
        claims=claims,
        runs=runs,
    )
