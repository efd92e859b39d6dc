"""From a configuration file to a plan: read, validate, expand to runs and claims."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from bench.datasets.corpora import check_name, check_structure
from bench.datasets.labelled import check_dev, read_scored
from bench.datasets.manifest import listed_task
from bench.datasets.tasks import OWN_PROBING, OWN_STS, expand_tasks, leaderboards_of
from bench.registry.backbones import BACKBONE_KINDS, NO_BACKBONE, backbone
from bench.registry.methods import add_method_paths, method_class, method_classes, python_files
from bench.registry.templates import templates_of
from bench.runs import SUITES
from bench.runs.naming import find_run
from bench.runs.paths import local_data
from bench.runs.plan import Claim, Plan
from bench.runs.printed import printed_numbers
from bench.runs.resolve import resolve
from bench.runs.run import Run, in_order
from bench.runs.suite import ClaimEntry, Compare, EncoderEntry, MethodEntry, Suite
from bench.runs.text import parse, spell
from bench.utils.documents import document
from bench.utils.errors import UserError, did_you_mean, errors_of
from bench.utils.files import slug
from bench.utils.validation import validated

# Links to Snakefile, rules/ and profiles/, so that an installed package has the workflow.
_LINKS = Path(__file__).parents[1] / "workflow"
SNAKEFILE = (_LINKS / "Snakefile").resolve()
SLURM = (_LINKS / "profiles/slurm").resolve()
# The suites that plan the runs of all printed values. The second needs Chinese evaluation data,
# which cannot be downloaded.
PAPERS = (SUITES / "paper.yaml", SUITES / "chinese.yaml")
# Reading

# By what PyYAML says.
_REMEDIES = {
    r"'\t'": "indent with spaces, not tabs",
    "expected ',' or ']', but got '['": "write a text with brackets in quotes",
    "codec can't decode": "save it as UTF-8",
}


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys, of which PyYAML keeps the last."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        keys: list[Any] = []
        for key, _ in node.value:
            if key.value in keys:
                mark = key.start_mark
                raise UserError(f"line {mark.line + 1}: duplicate key '{key.value}'; keep one")
            keys.append(key.value)
        return node


def load(path: Path) -> Suite:
    """Read and validate a configuration file; `UserError` names the file and the key."""
    with errors_of(f"configuration {path}"):
        return validate(read(path), path.parent)


def read(path: Path) -> Any:
    """Parse a file; `UserError` if it is missing, not YAML, or has a duplicate key."""
    try:
        with open(path, encoding="utf-8") as stream:
            return _Loader(stream).get_single_data()
    except OSError as error:
        raise UserError(
            f"it cannot be read ({error.strerror}); config/ holds the suites of the project"
        ) from None
    # PyYAML has no error of its own for dates, numbers and depths that it cannot build.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        text = " ".join(str(error).split())
        remedy = next((words for sign, words in _REMEDIES.items() if sign in text), "fix it")
        raise UserError(f"it is not YAML ({text}); {remedy}") from None


def validate(values: Any, folder: Path = Path()) -> Suite:
    """Validate the content of a configuration in a folder, and that its methods are there. The
    `UserError` names the invalid key, and the closest valid one if it is misspelt.

    Its `method_paths` are then added to `BENCH_METHODS` of this and of child processes.
    """
    if not isinstance(values, dict):
        raise UserError(
            "the file is empty, or no map from keys to values; see "
            + document("reference/configuration")
        )
    suite = validated(Suite, values)
    if suite.printed:
        suite = suite.changed(printed=str(folder / suite.printed))
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
    the runs that it needs; those that no entry lists are added.

    `UserError`: an entry cannot be resolved, a corpus is unknown, the data lacks a task, or the
    baseline of the comparison is not planned.
    """
    by_id: dict[str, Run] = {}
    for entry, run in _entry_runs(suite):
        tasks = entry.tasks or suite.tasks_of(run.backbone)
        earlier_run = by_id.get(run.id) or run
        update = {
            "tasks": tuple(dict.fromkeys((*earlier_run.tasks, *tasks))),
            "analyses": tuple(dict.fromkeys((*earlier_run.analyses, *entry.analyses))),
        }
        by_id[run.id] = earlier_run.model_copy(update=update)
    for run in encoder_runs(suite.encoders, suite.data):
        if run.id in by_id:
            raise UserError(f"'{run.label}' is the same as '{by_id[run.id].label}'; remove one")
        by_id[run.id] = run.model_copy(update={"tasks": tuple(suite.tasks)})
    runs = []
    for run in in_order(by_id.values()):
        # A run that no entry lists, such as a teacher, has the tasks of its backbone.
        update = {"tasks": tuple(suite.tasks_of(run.backbone))}
        runs.append(by_id.get(run.id) or run.model_copy(update=update))
    _check_names(suite.backbones, lambda name: backbone(name).name)
    _check_corpora(suite, runs)
    _check_sets(suite, runs)
    return runs


def _claims(compare: Compare, baseline: str, runs: Sequence[Run]) -> list[Claim]:
    """The claims of a comparison, each once, on the backbones that both sides have."""
    tasks = {*expand_tasks([task for run in runs for task in run.tasks])}
    leaderboards = [
        name for name, leaderboard in leaderboards_of(tasks).items() if tasks & {*leaderboard.tasks}
    ]
    baseline_backbones = {run.backbone for run in runs if run.text == baseline}
    entries = compare.claims or [
        ClaimEntry(method=text)
        for text in dict.fromkeys(run.text for run in runs if run.trained and not run.labelled)
        if text != baseline
    ]
    claims: dict[tuple[str, str], Claim] = {}
    for entry in entries:
        chosen = entry.leaderboards or compare.leaderboards
        for name in chosen:
            if name not in leaderboards:
                raise UserError(
                    f"'compare' has the leaderboard '{name}'{did_you_mean(name, leaderboards)}"
                )
        with errors_of("'compare.claims'"):
            method = find_run(entry.method, runs)
        if method.text == baseline:
            raise UserError(f"'compare.claims' has the baseline, '{entry.method}'; leave it out")
        names = [backbone(name).name for name in entry.backbones if name != "all"]
        by_backbone = {
            run.backbone: run for run in runs if run.text == method.text and not run.skip
        }
        possible = {*by_backbone}
        if NO_BACKBONE.name not in baseline_backbones:  # else the baseline is the same on each
            possible &= baseline_backbones
        claimed = [name for name in names or by_backbone if name in possible]
        # Claims by default leave out what cannot be compared; a listed claim must be possible.
        if compare.claims and len(claimed) < max(len(names), 1):
            where = " or ".join(names) or "any backbone"
            raise UserError(
                f"'compare.claims' has '{entry.method}' on {where}, where it or the baseline is "
                "not planned; leave it out"
            )
        for name in claimed:
            if (method.text, name) in claims:
                raise UserError(f"'compare.claims' has '{entry.method}' twice; leave one out")
            claims[method.text, name] = Claim(
                method=method.text,
                backbone=name,
                corpus=by_backbone[name].corpus,
                recipe_changes=by_backbone[name].recipe_changes,
                baseline=baseline,
                margin=entry.margin or compare.margin,
                leaderboards=chosen,
            )
    return [*claims.values()]


def _entry_runs(suite: Suite) -> Iterator[tuple[MethodEntry, Run]]:
    """The runs that the entries of a suite list, in order."""
    expand = partial(resolve, corpus=suite.corpus, data=suite.data, recipe=suite.recipe)
    for entry in suite.methods:
        for text in entry.texts:
            for name in _backbones(entry, text, suite):
                for seed in entry.seeds or suite.backbones[name].seeds or suite.seeds:
                    yield entry, expand(text, backbone_name=name, seed=seed)


def _check_names(names: Iterable[str], short: Callable[[str], str]) -> None:
    """Check that no two backbones, or corpora, of a suite get one file name, made of their `short`
    names: one would overwrite the other's description."""
    by_file: dict[str, str] = {}
    for name in names:
        file = slug(short(name))
        first_name = by_file.setdefault(file, name)
        if first_name != name:
            raise UserError(
                f"'{first_name}' and '{name}' have one name, {file}; leave one out, or rename "
                "its file or folder"
            )


def _check_corpora(suite: Suite, runs: Sequence[Run]) -> None:
    """Check that corpora exist, and have the documents or triples that their runs need."""
    names = dict.fromkeys(name for run in runs for name in run.corpora)
    # The suite's corpus is read by analyses of runs that have none.
    _check_names((suite.corpus, *names), str)
    for name in names:
        check_name(name)
    for run in runs:
        if run.structure:
            with errors_of(f"'{run.method}' cannot be trained"):
                check_structure(run.corpus, run.structure)
                if run.recipe.distinct:
                    raise UserError(f"'distinct' breaks up the corpus's {run.structure}; omit it")


def _check_sets(suite: Suite, runs: Sequence[Run]) -> None:
    """Check that the data has the sets on which runs are scored and selected. Data that are not
    downloaded yet are not checked."""
    tasks = expand_tasks([task for run in runs for task in run.tasks])
    selected = dict.fromkeys(name for run in runs for name in run.selection)
    in_own_folder = suite.data not in ("senteval", "world")
    # Only the manifest of a folder describes sets that the project does not know.
    own_sets = [name for name in (*tasks, *selected) if name.startswith((OWN_STS, OWN_PROBING))]
    if own_sets and not in_own_folder:
        raise UserError(
            f"'{own_sets[0]}' is a set of a data folder of your own, and 'data' is "
            f"'{suite.data}'; set 'data' to the folder whose manifest.json lists it"
        )
    folder = local_data(suite.data)
    if folder:
        for task in tasks:
            listed_task(task, folder)
        check_dev(selected, folder, in_own_folder)
        for name in own_sets:  # a mistake in a user's file shows before a training
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
    return yaml.safe_dump(
        suite.model_dump(exclude_defaults=True),
        default_flow_style=None,
        sort_keys=False,
        allow_unicode=True,
        width=100,
    )


def _backbones(entry: MethodEntry, text: str, suite: Suite) -> list[str]:
    """The backbones that an entry lists, else all of the kind that its method needs. A backbone
    with `tasks`, as of another language, has to be listed."""
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
            baseline = find_run(suite.compare.baseline, runs).text
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
        printed=printed_numbers(Path(suite.printed), runs) if suite.printed else [],
        runs=runs,
    )


def encoder_runs(encoders: Sequence[EncoderEntry], data: str) -> Iterator[Run]:
    """The runs of a configuration's `encoders`, in order, labelled as outside encoders; `UserError`
    if a model or its pooler is missing, or if a label stands twice or is the name of a method."""
    if encoders:
        from bench.models.load import check_planned  # imports torch's models
        from bench.models.options import Options

    # Tables and comparisons name an encoder by its label, beside methods, in any case of letters.
    methods = {text.lower() for cls in method_classes().values() for text in (cls.name, cls.title)}
    labels: set[str] = set()
    for entry in encoders:
        label = entry.label or Path(entry.model).absolute().name
        subject = f"the encoder '{label}'"
        if re.split(r"[\[+@]", label.lower())[0] in methods:
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
