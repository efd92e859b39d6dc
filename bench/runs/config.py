"""A suite's configuration: validated against one schema, expanded into runs."""

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
from bench.registry.backbones import KINDS, backbone
from bench.registry.methods import method_class
from bench.registry.plugins import add_method_paths, python_files
from bench.results.records import ANALYSES
from bench.runs.paths import data_folder
from bench.runs.recipe import RECIPE_FIELDS, convert_recipe
from bench.runs.run import Run, parse, resolve
from bench.utils.errors import UserError, did_you_mean

# A link to config/, so that an installed package has them too.
SCHEMA = (Path(__file__).parent / "configurations" / "schema.yaml").resolve()

MOST_RUNS = 10_000  # that a sweep may fill in; more is a slip, and listing them alone takes minutes

# JSON's 1.0 is an integer, but a run with that seed would have another name than one with seed 1.
_Validator = validators.extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int),
)


class _Loader(yaml.SafeLoader):
    """Refuses what PyYAML lets pass: a key that is no text, or stands twice, of which it would keep the last."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            where = f"configuration {key.start_mark.name}, line {key.start_mark.line + 1}"
            if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                raise UserError(f"{where}: a key is no text; write it between quotes")
            if key.value in seen:
                raise UserError(f"{where}: the key '{key.value}' stands twice; keep one")
            seen.add(key.value)
        return node


def load(path: Path) -> dict[str, Any]:
    """Read and validate a configuration file.

    Raises:
        UserError: the file cannot be read, or breaks the schema; the message names the key.
    """
    config = read(path)
    validate(config)
    return config


def read(path: Path) -> Any:
    """The content of a configuration file.

    Raises:
        UserError: the file is missing, is no YAML, is nested too deeply, or has a key twice.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            return _Loader(stream).get_single_data()
    except FileNotFoundError:
        raise UserError(
            f"configuration {path} does not exist; see config/ for the suites that come with the project"
        ) from None
    except IsADirectoryError:
        raise UserError(f"configuration {path} is a folder; name a file, as config/smoke.yaml") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"configuration {path} is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UserError(f"configuration {path} is nested too deeply; write it on fewer levels") from None


def validate(config: Any) -> None:
    """Raise `UserError` naming the key that breaks the schema, with the nearest valid name where it is misspelt.

    The `method_paths` of a configuration that is sound join `BENCH_METHODS`, for this process and those it starts.
    """
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    errors = sorted(
        _Validator(schema).iter_errors(config), key=lambda error: (len(error.absolute_path), str(error.path))
    )
    if errors:
        raise UserError(f"configuration: {_explain(errors[0])}")
    together, per_job = config.get("runs_together", 1), config.get("runs_per_job", 1)
    if together > per_job:
        raise UserError(
            f"configuration: 'runs_together' is {together}, but a job has {per_job} runs; raise 'runs_per_job' too"
        )
    recipe = config.get("recipe", {})
    for name in recipe:
        if name not in RECIPE_FIELDS:
            raise UserError(f"configuration: unknown key 'recipe.{name}'{did_you_mean(name, RECIPE_FIELDS)}")
    convert_recipe(recipe)
    try:
        named = [tasks_of(config, name) for name in (None, *config["backbones"])]
        tasks = expand_tasks([*itertools.chain(*named, *(entry.get("tasks", ()) for entry in _entries(config)))])
        if config["data"] not in ("world", "senteval"):
            data_folder(config["data"], Path())  # there is such a folder
    except UserError as error:
        raise UserError(f"configuration: {error}") from None
    if config["data"] == "world" and (foreign := [task for task in tasks if task in XPROBE_TASKS]):
        raise UserError(
            f"configuration: the embedded world has no '{foreign[0]}'; leave it out of 'tasks', or name other data"
        )
    if "compare" in config and not set(tasks) & set(STS_TASKS):
        raise UserError(
            "configuration: 'compare' needs STS tasks, and there are none in 'tasks'; add one, or leave it out"
        )
    for name in itertools.chain(*(entry.get("analyses", ()) for entry in _entries(config))):
        if name not in ANALYSES:
            raise UserError(f"configuration: unknown analysis '{name}'{did_you_mean(name, ANALYSES)}")
    stand_ins = _stand_ins(config)
    for printed, _ in stand_ins:
        if [name for name, _ in stand_ins].count(printed) > 1:
            raise UserError(f"configuration: two backbones stand in for '{printed}'; keep one in 'stand_ins'")
    strangers = {own for _, own in stand_ins} - set(config["backbones"])
    if strangers:
        raise UserError(
            f"configuration: 'stand_ins.{min(strangers)}' is not among the suite's backbones"
            f"{did_you_mean(min(strangers), config['backbones'])}"
        )
    if stand_ins:
        from bench.reported import mapped  # pandas, for which no other configuration waits

        judged = mapped().query("run != ''")
        known = set(judged["suite_backbone"].where(judged["suite_backbone"] != "", judged["backbone"])) - {"none"}
        for printed, own in stand_ins:
            if printed not in known:
                raise UserError(
                    f"configuration: 'stand_ins.{own}' is '{printed}', which no paper prints"
                    f"{did_you_mean(printed, known)}"
                )
    for path in config.get("method_paths", ()):
        python_files(Path(path))  # there is such a file or folder
    add_method_paths(config.get("method_paths", ()))


def _stand_ins(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Printed backbones, each with the suite's own one that stands in its rows."""
    asked = config.get("stand_ins", {}).items()
    return [(name, own) for own, printed in asked for name in ([printed] if isinstance(printed, str) else printed)]


def _explain(error: Any) -> str:
    """One sentence about the most telling schema error."""
    while error.context:  # of alternatives, the one that got furthest says most
        error = max(
            error.context, key=lambda inner: (len(inner.absolute_path), inner.validator == "additionalProperties")
        )
    where = ".".join(str(step) for step in error.absolute_path) or "the top level"
    if error.validator == "additionalProperties":
        known = error.schema["properties"]
        unknown = min(set(error.instance) - set(known))
        prefix = "" if where == "the top level" else f"{where}."
        return f"unknown key '{prefix}{unknown}'{did_you_mean(unknown, known)}"
    if error.validator == "required":
        return f"{error.message.replace(' is a required property', '')} is missing at {where}; see config/README.md"
    if error.validator == "uniqueItems":
        twice = next(item for place, item in enumerate(error.instance) if item in error.instance[:place])
        return f"'{where}' has {_written(twice)} twice; keep one"
    if (
        error.validator == "type"
        and error.schema["type"] == "string"
        and isinstance(error.instance, int | float | date)
    ):
        return f"'{where}' is {_written(error.instance)}, which is no text; put it in quotes"
    remedy = error.schema.get("description", "see config/README.md")
    return f"'{where}' is {_written(error.instance)}, which cannot be; {remedy}"


def _written(value: Any) -> str:
    """A value as YAML has it, where Python writes it in another way."""
    if isinstance(value, date):
        return str(value)
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)


@dataclass(frozen=True)
class Planned:
    """A run of a suite, with what is measured of it: tasks or groups of them, and names of analyses."""

    run: Run
    tasks: tuple[str, ...]
    analyses: tuple[str, ...]

    def describe(self) -> dict[str, Any]:
        """As plain data, for plans."""
        return self.run.describe() | {"tasks": list(self.tasks), "analyses": list(self.analyses)}


def planned(config: Mapping[str, Any]) -> list[Planned]:
    """What a validated configuration asks for, in order; lines that meet in one run add up.

    Raises:
        UserError: a line cannot be run, nobody knows its corpus, or what is compared with is not planned.
    """
    found: dict[str, Planned] = {}
    for run, entry in _runs(config):
        tasks = entry.get("tasks") or tasks_of(config, run.backbone.name)
        earlier = found.get(run.id, Planned(run, (), ()))
        found[run.id] = Planned(
            earlier.run,
            tuple(dict.fromkeys((*earlier.tasks, *tasks))),
            tuple(dict.fromkeys((*earlier.analyses, *entry.get("analyses", ())))),
        )
    for name in dict.fromkeys(name for one in found.values() for name in one.run.corpora):
        check_name(name)
    if folder := _present_data(config["data"]):
        wanted = [task for one in found.values() for task in (*one.tasks, *one.run.recipe.select_on.split("+"))]
        check_listed(list(dict.fromkeys(expand_tasks(wanted))), folder)
    if "compare" in config:
        baseline, known = config["compare"]["baseline"], [one.run for one in found.values()]
        texts = {run.text for run in known} | {f"{run.text}@{run.setting}" for run in known}
        if baseline not in texts:
            raise UserError(
                f"configuration: 'compare.baseline' is '{baseline}', which no line plans{did_you_mean(baseline, texts)}"
            )
    return list(found.values())


def runs(config: Mapping[str, Any]) -> list[Run]:
    """Every run of a validated configuration, in order, without repetitions.

    Raises:
        UserError: as in `planned`.
    """
    return [found.run for found in planned(config)]


def reseeded(config: Mapping[str, Any], seeds: Iterable[int]) -> dict[str, Any]:
    """A validated configuration with these seeds for every run, whatever backbones and entries say of their own."""
    entries = [{**entry, "seeds": list(seeds)} for entry in _entries(config)]
    backbones = {
        name: {"tasks": options["tasks"]} if "tasks" in (options or {}) else None
        for name, options in config["backbones"].items()
    }
    return {**config, "seeds": list(seeds), "backbones": backbones, "methods": entries}


def _present_data(data: str) -> Path | None:
    """The data folder, where it is there before anything runs: neither made by the suite nor still to be fetched."""
    if data == "senteval":
        return local_folder()
    return None if data == "world" else data_folder(data, Path())


def mode_of(config: Mapping[str, Any]) -> str:
    """How classifiers are trained: as papers report, unless the configuration says otherwise."""
    return str(config.get("mode", "test"))


def tasks_of(config: Mapping[str, Any], backbone_name: str | None) -> list[str]:
    """What a backbone's runs are scored on: its own tasks, as of another language, or the suite's."""
    return (config["backbones"].get(backbone_name) or {}).get("tasks", config["tasks"])


def _entries(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"method": entry} if isinstance(entry, str) else entry for entry in config["methods"]]


def _runs(config: Mapping[str, Any]) -> Iterator[tuple[Run, Mapping[str, Any]]]:
    for entry in _entries(config):
        for text in _texts(entry):
            for name in _backbones(entry, text, config["backbones"]):
                seeds = entry.get("seeds") or (config["backbones"][name] or {}).get("seeds") or config["seeds"]
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


def _backbones(entry: Mapping[str, Any], text: str, known: Mapping[str, Any]) -> list[str]:
    """The backbones that an entry names, or all of the suite's that its method can work on and its tasks are for."""
    names = entry.get("backbones", "all")
    if names != "all":
        for name in names:
            if name not in known:
                raise UserError(
                    f"configuration: '{entry['method']}' names the backbone '{name}', which is not in 'backbones'"
                    f"{did_you_mean(name, known)}"
                )
        return list(names)
    method = method_class(parse(text)[0][0][0])
    common = [name for name, options in known.items() if "tasks" not in (options or {})]
    found = [name for name in common if method.backbone_free or backbone(name).kind == method.backbone_kind]
    if not found:
        raise UserError(f"configuration: '{text}' needs {KINDS[method.backbone_kind]}; add one to 'backbones'")
    return found


def _texts(entry: Mapping[str, Any]) -> Iterator[str]:
    """The entry's text with every combination of its sweep filled in, in each of its settings."""
    sweep = entry.get("sweep", {})
    asked = set(re.findall(r"\{(\w+)\}", entry["method"]))
    if asked != set(sweep):
        odd = min(asked ^ set(sweep))
        raise UserError(f"configuration: '{{{odd}}}' should stand both in '{entry['method']}' and in its sweep")
    settings = [f"@{setting}" for setting in entry.get("settings", [])] or [""]
    if settings != [""] and parse(entry["method"])[1]:
        raise UserError(f"configuration: '{entry['method']}' names its setting already; leave 'settings' out")
    if (count := math.prod(map(len, [*sweep.values(), settings]))) > MOST_RUNS:
        raise UserError(
            f"configuration: the sweep of '{entry['method']}' has {count} combinations; leave at most {MOST_RUNS}"
        )
    for values in itertools.product(*sweep.values()):
        filled = dict(zip(sweep, values, strict=True))
        text = re.sub(r"\{(\w+)\}", lambda match, filled=filled: str(filled[match[1]]), entry["method"])  # type: ignore[misc]
        yield from (text + setting for setting in settings)


def plan(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a suite consists of, as plain data: the file `plan.json` that rendering starts from."""
    return {
        "suite": config["suite"],
        "data": config["data"],
        "corpus": config["corpus"],
        "tasks": config["tasks"],
        "mode": mode_of(config),
        "stand_ins": {printed: backbone(own).name for printed, own in _stand_ins(config)},
        "runs": [found.describe() for found in planned(config)],
    }
