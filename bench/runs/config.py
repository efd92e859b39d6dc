"""The configuration of a suite: read from YAML, validated against config/schema.yaml, expanded into
runs.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, validators

from bench.datasets.corpora import check_name
from bench.datasets.manifest import check_listed
from bench.datasets.tasks import STS_TASKS, XPROBE_TASKS, expand_tasks
from bench.download import local_folder
from bench.registry.backbones import BACKBONE_KINDS, backbone
from bench.registry.methods import method_class
from bench.registry.plugins import add_method_paths, python_files
from bench.results.records import ANALYSES
from bench.runs.paths import data_folder
from bench.runs.recipe import RECIPE_FIELDS, convert_recipe
from bench.runs.resolve import parse, resolve
from bench.runs.run import Run
from bench.utils.errors import UserError, did_you_mean

# `configurations` is a link to config/, so that an installed package contains it.
SCHEMA = (Path(__file__).parent / "configurations" / "schema.yaml").resolve()

MAX_SWEEP = 10_000  # combinations of one sweep; listing more takes minutes, and is most likely a typing error

# JSON Schema counts 1.0 as an integer, but a run with seed 1.0 would have another id than one with
# seed 1.
_Validator = validators.extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: type(value) is int
    ),
)


class _Loader(yaml.SafeLoader):
    """Rejects keys that are not strings and duplicate keys.

    PyYAML accepts both and keeps the last duplicate.
    """

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            where = f"configuration {key.start_mark.name}, line {key.start_mark.line + 1}"
            if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                raise UserError(f"{where}: a key is not a string; put it in quotes")
            if key.value in seen:
                raise UserError(f"{where}: duplicate key '{key.value}'; keep one")
            seen.add(key.value)
        return node


def load(path: Path) -> dict[str, Any]:
    """Read and validate a configuration file.

    Raises:
        UserError: the file cannot be read or is invalid; the message names the key.
    """
    config = read(path)
    validate(config)
    return config


def read(path: Path) -> Any:
    """Parse a configuration file.

    Raises:
        UserError: the file is missing, is not YAML, is nested too deeply, or has a duplicate key.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            return _Loader(stream).get_single_data()
    except FileNotFoundError:
        raise UserError(
            f"configuration {path} does not exist; config/ holds the suites of the project"
        ) from None
    except IsADirectoryError:
        raise UserError(
            f"configuration {path} is a folder; give a file such as config/smoke.yaml"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(
            f"configuration {path} is not YAML ({' '.join(str(error).split())}); fix it"
        ) from None
    except RecursionError:
        raise UserError(f"configuration {path} is nested too deeply; use fewer levels") from None


def validate(config: Any) -> None:
    """Validate a configuration.

    Its `method_paths` are then added to `BENCH_METHODS` of this and of child processes.

    Raises:
        UserError: names the invalid key, and the closest valid one if it is misspelt.
    """
    _check_schema(config)
    _check_concurrency(config)
    _check_recipe(config)
    _check_tasks_and_data(config)
    _check_analyses(config)
    _check_stand_ins(config)
    for path in config.get("method_paths", ()):
        python_files(Path(path))  # raises if nothing is there
    add_method_paths(config.get("method_paths", ()))


def _check_schema(config: Any) -> None:
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    errors = sorted(
        _Validator(schema).iter_errors(config),
        key=lambda error: (len(error.absolute_path), str(error.path)),
    )
    if errors:
        raise UserError(f"configuration: {_explain(errors[0])}")


def _check_concurrency(config: Mapping[str, Any]) -> None:
    together, per_job = config.get("runs_together", 1), config.get("runs_per_job", 1)
    if together > per_job:
        raise UserError(
            f"configuration: 'runs_together' is {together}, but a job has {per_job} runs; raise 'runs_per_job' too"
        )


def _check_recipe(config: Mapping[str, Any]) -> None:
    recipe = config.get("recipe", {})
    for name in recipe:
        if name not in RECIPE_FIELDS:
            raise UserError(
                f"configuration: unknown key 'recipe.{name}'{did_you_mean(name, RECIPE_FIELDS)}"
            )
    convert_recipe(recipe)


def _check_tasks_and_data(config: Mapping[str, Any]) -> None:
    """Check that all tasks exist, that the data has them, and that a comparison has STS tasks."""
    suite_tasks = [tasks_of(config, name) for name in (None, *config["backbones"])]
    entry_tasks = [entry.get("tasks", ()) for entry in _entries(config)]
    try:
        tasks = expand_tasks([*itertools.chain(*suite_tasks, *entry_tasks)])
        if config["data"] not in ("world", "senteval"):
            data_folder(config["data"], Path())  # raises if the folder does not exist
    except UserError as error:
        raise UserError(f"configuration: {error}") from None
    if config["data"] == "world" and (foreign := [task for task in tasks if task in XPROBE_TASKS]):
        raise UserError(
            f"configuration: the embedded world has no '{foreign[0]}'; remove it from 'tasks', or choose other data"
        )
    if "compare" in config and not set(tasks) & set(STS_TASKS):
        raise UserError(
            "configuration: 'compare' needs STS tasks, but 'tasks' has none; add one, or remove 'compare'"
        )


def _check_analyses(config: Mapping[str, Any]) -> None:
    for name in itertools.chain(*(entry.get("analyses", ()) for entry in _entries(config))):
        if name not in ANALYSES:
            raise UserError(
                f"configuration: unknown analysis '{name}'{did_you_mean(name, ANALYSES)}"
            )


def _check_stand_ins(config: Mapping[str, Any]) -> None:
    """Check that each stand-in is a backbone of the suite and replaces one that some paper
    reports."""
    stand_ins = _stand_ins(config)
    if not stand_ins:
        return
    for printed, _ in stand_ins:
        if [name for name, _ in stand_ins].count(printed) > 1:
            raise UserError(
                f"configuration: two backbones stand in for '{printed}'; keep one in 'stand_ins'"
            )
    if unknown := {own for _, own in stand_ins} - set(config["backbones"]):
        raise UserError(
            f"configuration: 'stand_ins.{min(unknown)}' is not among the suite's backbones"
            f"{did_you_mean(min(unknown), config['backbones'])}"
        )
    from bench.reported import mapped  # imports pandas, which other configurations do not need

    rows = mapped().query("run != ''")
    reported = set(rows["suite_backbone"].where(rows["suite_backbone"] != "", rows["backbone"])) - {
        "none"
    }
    for printed, own in stand_ins:
        if printed not in reported:
            raise UserError(
                f"configuration: 'stand_ins.{own}' is '{printed}', which no paper reports"
                f"{did_you_mean(printed, reported)}"
            )


def _stand_ins(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of a backbone in print and the suite's backbone that replaces it."""
    entries = config.get("stand_ins", {}).items()
    return [
        (name, own)
        for own, printed in entries
        for name in ([printed] if isinstance(printed, str) else printed)
    ]


def _explain(error: Any) -> str:
    """Describe a schema error in one sentence."""
    while error.context:  # `anyOf` and `oneOf`: take the alternative that matched furthest
        error = max(
            error.context,
            key=lambda inner: (len(inner.absolute_path), inner.validator == "additionalProperties"),
        )
    where = ".".join(str(step) for step in error.absolute_path) or "the top level"
    if error.validator == "additionalProperties":
        valid = error.schema["properties"]
        unknown = min(set(error.instance) - set(valid))
        prefix = "" if where == "the top level" else f"{where}."
        return f"unknown key '{prefix}{unknown}'{did_you_mean(unknown, valid)}"
    if error.validator == "required":
        return f"{error.message.replace(' is a required property', '')} is missing at {where}; see config/README.md"
    if error.validator == "uniqueItems":
        duplicate = next(
            item for index, item in enumerate(error.instance) if item in error.instance[:index]
        )
        return f"'{where}' has {_yaml(duplicate)} twice; keep one"
    if (
        error.validator == "type"
        and error.schema["type"] == "string"
        and isinstance(error.instance, int | float | date)
    ):
        return f"'{where}' is {_yaml(error.instance)}, which is not a string; put it in quotes"
    remedy = error.schema.get("description", "see config/README.md")
    return f"'{where}' is {_yaml(error.instance)}, which is invalid; {remedy}"


def _yaml(value: Any) -> str:
    """A value in YAML syntax where that differs from Python's."""
    if isinstance(value, date):
        return str(value)
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)


@dataclass(frozen=True)
class Planned:
    """A run of a suite, the tasks (or groups of tasks) it is scored on, and the names of its
    analyses.
    """

    run: Run
    tasks: tuple[str, ...]
    analyses: tuple[str, ...]

    def describe(self) -> dict[str, Any]:
        """The planned run as JSON-serialisable data, for plans."""
        return self.run.describe() | {"tasks": list(self.tasks), "analyses": list(self.analyses)}


def planned(config: Mapping[str, Any]) -> list[Planned]:
    """Expand a validated configuration into runs, in order.

    Entries that resolve to one run are merged.

    Raises:
        UserError: an entry cannot be resolved, a corpus is unknown, the data lacks a task, or the
            baseline of the comparison is not planned.
    """
    by_id: dict[str, Planned] = {}
    for run, entry in _runs(config):
        tasks = entry.get("tasks") or tasks_of(config, run.backbone.name)
        earlier = by_id.get(run.id, Planned(run, (), ()))
        by_id[run.id] = Planned(
            earlier.run,
            tuple(dict.fromkeys((*earlier.tasks, *tasks))),
            tuple(dict.fromkeys((*earlier.analyses, *entry.get("analyses", ())))),
        )
    plan_runs = list(by_id.values())
    for name in dict.fromkeys(name for one in plan_runs for name in one.run.corpora):
        check_name(name)
    if folder := _existing_data(config["data"]):
        names = [
            task for one in plan_runs for task in (*one.tasks, *one.run.recipe.select_on.split("+"))
        ]
        check_listed(list(dict.fromkeys(expand_tasks(names))), folder)
    if "compare" in config:
        _check_baseline(config["compare"]["baseline"], [one.run for one in plan_runs])
    return plan_runs


def _check_baseline(baseline: str, planned_runs: Iterable[Run]) -> None:
    texts = {text for run in planned_runs for text in (run.text, f"{run.text}@{run.setting}")}
    if baseline not in texts:
        raise UserError(
            f"configuration: 'compare.baseline' is '{baseline}', which is not planned{did_you_mean(baseline, texts)}"
        )


def runs(config: Mapping[str, Any]) -> list[Run]:
    """All runs of a validated configuration, in order, without duplicates.

    Raises:
        UserError: as in `planned`.
    """
    return [one.run for one in planned(config)]


def reseeded(config: Mapping[str, Any], seeds: Iterable[int]) -> dict[str, Any]:
    """A copy of a validated configuration in which every run has these seeds.

    Seeds of backbones and entries go.
    """
    entries = [{**entry, "seeds": list(seeds)} for entry in _entries(config)]
    backbones = {
        name: {"tasks": options["tasks"]} if "tasks" in (options or {}) else None
        for name, options in config["backbones"].items()
    }
    return {**config, "seeds": list(seeds), "backbones": backbones, "methods": entries}


def _existing_data(data: str) -> Path | None:
    """The data folder if it exists before the suite runs: it is neither generated by the suite nor
    yet to download.
    """
    if data == "senteval":
        return local_folder()
    return None if data == "world" else data_folder(data, Path())


def mode_of(config: Mapping[str, Any]) -> str:
    """The mode of the classifiers (`bench.evaluation.classifier.MODES`); the default is what papers
    report.
    """
    return str(config.get("mode", "test"))


def tasks_of(config: Mapping[str, Any], backbone_name: str | None) -> list[str]:
    """The tasks of a backbone (for example one of another language), else those of the suite."""
    return (config["backbones"].get(backbone_name) or {}).get("tasks", config["tasks"])


def _entries(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"method": entry} if isinstance(entry, str) else entry for entry in config["methods"]]


def _runs(config: Mapping[str, Any]) -> Iterator[tuple[Run, Mapping[str, Any]]]:
    for entry in _entries(config):
        for text in _texts(entry):
            for name in _backbones(entry, text, config["backbones"]):
                seeds = (
                    entry.get("seeds")
                    or (config["backbones"][name] or {}).get("seeds")
                    or config["seeds"]
                )
                for seed in seeds:
                    run = resolve(
                        text,
                        backbone_name=name,
                        corpus=config["corpus"],
                        data=config["data"],
                        seed=seed,
                        recipe=config.get("recipe", {}),
                    )
                    yield run, entry


def _backbones(
    entry: Mapping[str, Any], text: str, suite_backbones: Mapping[str, Any]
) -> list[str]:
    """The backbones of an entry: those it lists, else all of a matching kind that have no tasks of
    their own.
    """
    names = entry.get("backbones", "all")
    if names != "all":
        for name in names:
            if name not in suite_backbones:
                raise UserError(
                    f"configuration: '{entry['method']}' names the backbone '{name}', which is not in 'backbones'"
                    f"{did_you_mean(name, suite_backbones)}"
                )
        return list(names)
    method = method_class(parse(text)[0][0][0])
    common = [name for name, options in suite_backbones.items() if "tasks" not in (options or {})]
    matching = [
        name
        for name in common
        if method.backbone_free or backbone(name).kind == method.backbone_kind
    ]
    if not matching:
        raise UserError(
            f"configuration: '{text}' needs {BACKBONE_KINDS[method.backbone_kind]}; add one to 'backbones'"
        )
    return matching


def _texts(entry: Mapping[str, Any]) -> Iterator[str]:
    """The texts of an entry: every combination of its sweep in each of its settings."""
    sweep = entry.get("sweep", {})
    placeholders = set(re.findall(r"\{(\w+)\}", entry["method"]))
    if placeholders != set(sweep):
        unmatched = min(placeholders ^ set(sweep))
        raise UserError(
            f"configuration: '{{{unmatched}}}' must be both in '{entry['method']}' and in its sweep"
        )
    settings = [f"@{setting}" for setting in entry.get("settings", [])] or [""]
    if settings != [""] and parse(entry["method"])[1]:
        raise UserError(
            f"configuration: '{entry['method']}' already names its setting; remove 'settings'"
        )
    if (count := math.prod(map(len, [*sweep.values(), settings]))) > MAX_SWEEP:
        raise UserError(
            f"configuration: the sweep of '{entry['method']}' has {count} combinations, above {MAX_SWEEP}; reduce it"
        )
    for values in itertools.product(*sweep.values()):
        filled = dict(zip(sweep, values, strict=True))
        text = re.sub(
            r"\{(\w+)\}", lambda match, filled=filled: str(filled[match[1]]), entry["method"]
        )  # type: ignore[misc]
        yield from (text + setting for setting in settings)


def plan(config: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `plan.json`: the runs of a suite as JSON-serialisable data."""
    return {
        "suite": config["suite"],
        "data": config["data"],
        "corpus": config["corpus"],
        "tasks": config["tasks"],
        "mode": mode_of(config),
        "stand_ins": {printed: backbone(own).name for printed, own in _stand_ins(config)},
        "runs": [one.describe() for one in planned(config)],
    }
