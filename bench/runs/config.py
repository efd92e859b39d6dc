"""The configuration of a suite: read from YAML, checked by config/schema.yaml, expanded to runs."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.datasets.corpora import check_name, check_structure
from bench.datasets.manifest import check_listed
from bench.datasets.own import check_dev, check_own
from bench.datasets.tasks import OWN_PROBING, OWN_STS, XPROBE_TASKS, expand_tasks
from bench.download import local_folder
from bench.registry.backbones import BACKBONE_KINDS, backbone
from bench.registry.methods import method_class
from bench.registry.plugins import add_method_paths, python_files
from bench.results.records import ANALYSES
from bench.runs.encoders import encoder_runs
from bench.runs.names import compared_boards
from bench.runs.needs import in_order
from bench.runs.paths import comparison_stem, data_folder
from bench.runs.recipe import convert_recipe
from bench.runs.resolve import resolve
from bench.runs.run import Run
from bench.runs.schema import check_schema
from bench.runs.text import parse
from bench.utils.errors import UserError, did_you_mean, errors_of
from bench.utils.files import refuse_special

# `configurations` is a link to config/, so that an installed package contains it.
SCHEMA = (Path(__file__).parent / "configurations" / "schema.yaml").resolve()
# The suites that plan what papers print. The second needs Chinese evaluation data, which cannot be
# downloaded.
PAPERS = tuple(SCHEMA.with_name(name) for name in ("paper.yaml", "chinese.yaml"))

MAX_SWEEP = 10_000  # combinations of one sweep; more is most likely a typing error


class _Loader(yaml.SafeLoader):
    """Rejects keys that are not strings; duplicate keys, of which PyYAML keeps the last; and whole
    numbers that YAML 1.1 reads in other bases, such as 010 and 1:30."""

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

    def construct_yaml_int(self, node: Any) -> int:
        if not re.fullmatch(r"[-+]?(0|[1-9][0-9]*)", node.value):
            mark = node.start_mark
            raise UserError(
                f"configuration {mark.name}, line {mark.line + 1}: '{node.value}' is not a plain "
                "whole number; write it in decimal digits, or put it in quotes"
            )
        return int(node.value)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def load(path: Path) -> dict[str, Any]:
    """Read and validate a configuration file.

    Raises:
        UserError: the file cannot be read or is invalid; the message names the key.
    """
    config = read(path)
    with errors_of(f"configuration {path}"):
        validate(config)
    return config


def read(path: Path) -> Any:
    """Parse a configuration file.

    Raises:
        UserError: the file is missing, no regular file, not YAML or nested too deeply, or has a
            duplicate key.
    """
    refuse_special(path)
    try:
        with open(path, encoding="utf-8") as stream:
            return _Loader(stream).get_single_data()
    except FileNotFoundError:
        why = "does not exist; config/ holds the suites of the project"
    except IsADirectoryError:
        why = "is a folder; give a file such as config/smoke.yaml"
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        remedy = "indent with spaces, not tabs" if r"'\t'" in str(error) else "fix it"
        why = f"is not YAML ({' '.join(str(error).split())}); {remedy}"
    except RecursionError:
        why = "is nested too deeply; use fewer levels"
    raise UserError(f"configuration {path} {why}")


def validate(config: Any) -> None:
    """Validate a configuration.

    Its `method_paths` are then added to `BENCH_METHODS` of this and of child processes.

    Raises:
        UserError: names the invalid key, and the closest valid one if it is misspelt.
    """
    check_schema(config, SCHEMA)
    convert_recipe(config.get("recipe", {}))
    _check_tasks_and_data(config)
    for name in itertools.chain(*(entry.get("analyses", ()) for entry in _entries(config))):
        if name not in ANALYSES:
            raise UserError(f"unknown analysis '{name}'{did_you_mean(name, ANALYSES)}")
    _check_stand_ins(config)
    for path in config.get("method_paths", ()):
        python_files(Path(path))  # raises if nothing is there
    add_method_paths(config.get("method_paths", ()))


def _check_tasks_and_data(config: Mapping[str, Any]) -> None:
    """Check that all tasks exist and that the data has them."""
    suite_tasks = [tasks_of(config, name) for name in (None, *config["backbones"])]
    entry_tasks = [entry.get("tasks", ()) for entry in _entries(config)]
    tasks = expand_tasks([*itertools.chain(*suite_tasks, *entry_tasks)])
    if config["data"] not in ("world", "senteval"):
        data_folder(config["data"], Path())  # raises if the folder does not exist
    if config["data"] == "world" and (foreign := [task for task in tasks if task in XPROBE_TASKS]):
        raise UserError(
            f"the embedded world has no '{foreign[0]}'; remove it from 'tasks', "
            "or choose other data"
        )


def _check_stand_ins(config: Mapping[str, Any]) -> None:
    """Check that each stand-in is a backbone of the suite and replaces one that a paper reports."""
    if not (stand_ins := _stand_ins(config)):
        return
    printed, count = Counter(name for name, _ in stand_ins).most_common(1)[0]
    if count > 1:
        raise UserError(f"two backbones stand in for '{printed}'; keep one in 'stand_ins'")
    if unknown := {own for _, own in stand_ins} - set(config["backbones"]):
        raise UserError(
            f"'stand_ins.{min(unknown)}' is not among the suite's backbones"
            f"{did_you_mean(min(unknown), config['backbones'])}"
        )
    from bench.reported import mapped  # imports pandas, which other configurations do not need

    rows = mapped().query("run != ''")
    suite_names = rows["suite_backbone"].where(rows["suite_backbone"] != "", rows["backbone"])
    reported = set(suite_names) - {"none"}
    for printed, own in stand_ins:
        if printed not in reported:
            raise UserError(
                f"'stand_ins.{own}' is '{printed}', which no paper reports"
                f"{did_you_mean(printed, reported)}"
            )


def _stand_ins(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of a backbone in print and the suite's backbone that replaces it."""
    return [
        (name, own)
        for own, printed in config.get("stand_ins", {}).items()
        for name in ([printed] if isinstance(printed, str) else printed)
    ]


@dataclass(frozen=True)
class Planned:
    """A run of a suite, the tasks (or groups) it is scored on, and the names of its analyses."""

    run: Run
    tasks: tuple[str, ...]
    analyses: tuple[str, ...]

    def describe(self) -> dict[str, Any]:
        """The planned run as JSON-serialisable data, for plans."""
        return self.run.describe() | {"tasks": list(self.tasks), "analyses": list(self.analyses)}


def planned(config: Mapping[str, Any]) -> list[Planned]:
    """Expand a validated configuration into runs, in order.

    Entries that resolve to one run are merged. A run follows those that it needs, which are added
    where no entry lists them.

    Raises:
        UserError: an entry cannot be resolved, a corpus is unknown, the data lacks a task, or the
            baseline of the comparison is not planned or has nothing beside it.
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
    for run in encoder_runs(config):
        if same := by_id.get(run.id):
            raise UserError(f"'{run.label}' is the same as '{same.run.label}'; remove one")
        by_id[run.id] = Planned(run, tuple(config["tasks"]), ())
    plan_runs = [
        by_id.get(run.id) or Planned(run, tuple(tasks_of(config, run.backbone.name)), ())
        for run in in_order(one.run for one in by_id.values())
    ]
    for name in dict.fromkeys(name for one in plan_runs for name in one.run.corpora):
        check_name(name)
    trained = [one.run for one in plan_runs if one.run.trained]
    for run in trained:
        _check_structure(run)
    data = config["data"]
    # The data, if it is neither generated by the suite nor yet to download.
    folder = {"senteval": local_folder, "world": lambda: None}.get(data, lambda: Path(data))()
    if data in ("senteval", "world"):
        _refuse_own_sets(plan_runs, data)
    if folder:
        scored = dict.fromkeys(name for one in plan_runs for name in one.tasks)
        check_listed(names := expand_tasks(list(scored)), folder)
        if data != "senteval":
            check_own(names, folder)
        selected = dict.fromkeys(name for run in trained for name in run.recipe.selection)
        check_dev(selected, folder, present=data != "senteval")
    comparison(config, plan_runs)
    return plan_runs


def comparison(config: Mapping[str, Any], plan_runs: Iterable[Planned]) -> str:
    """The stem of the files of the comparison, on its first board; empty without `compare`.

    Raises:
        UserError: the baseline is not planned, or has nothing beside it.
    """
    if "compare" not in config:
        return ""
    with errors_of("'compare.baseline'"):
        plans = [one.describe() for one in plan_runs]
        return comparison_stem(compared_boards(config["compare"]["baseline"], plans)[0])


def _refuse_own_sets(plan_runs: Iterable[Planned], data: str) -> None:
    """Raise `UserError` if a run is scored or selected on a set of a user's own data folder."""
    names = (name for one in plan_runs for name in (*one.tasks, *one.run.recipe.selection))
    if own := next((name for name in names if name.startswith((OWN_STS, OWN_PROBING))), None):
        raise UserError(
            f"'{own}' is a set of a data folder of your own, and 'data' is '{data}'; set 'data' to "
            "the folder whose manifest.json lists it"
        )


def _check_structure(run: Run) -> None:
    """Raise `UserError` if the corpus of a run certainly lacks documents or triples that it
    needs."""
    name, _, hyper = run.parts[0]
    cls = method_class(name)
    if structure := cls.reads(cls.Hyper(**hyper)):
        try:
            check_structure(run.corpus, structure)
        except UserError as error:
            raise UserError(f"'{run.text}' cannot be trained: {error}") from None


def runs(config: Mapping[str, Any]) -> list[Run]:
    """All runs of a validated configuration, in order, without duplicates.

    Raises:
        UserError: as in `planned`.
    """
    return [one.run for one in planned(config)]


def reseeded(config: Mapping[str, Any], seeds: Iterable[int]) -> dict[str, Any]:
    """A copy of a validated configuration in which every run has these seeds."""
    entries = [{**entry, "seeds": list(seeds)} for entry in _entries(config)]
    backbones = {
        name: {"tasks": options["tasks"]} if "tasks" in (options or {}) else None
        for name, options in config["backbones"].items()
    }
    return {**config, "seeds": list(seeds), "backbones": backbones, "methods": entries}


def dump(config: Mapping[str, Any]) -> str:
    """A configuration as YAML, which `load` reads back."""
    # Lists and maps without further ones in them are written on one line, as in config/.
    layout: dict[str, Any] = {"default_flow_style": None, "sort_keys": False, "width": 100}
    return str(yaml.safe_dump(dict(config), allow_unicode=True, **layout))


def mode_of(config: Mapping[str, Any]) -> str:
    """The classifiers' mode (`bench.evaluation.classifier.MODES`); by default the papers' own."""
    return str(config.get("mode", "test"))


def tasks_of(config: Mapping[str, Any], backbone_name: str | None) -> list[str]:
    """The tasks of a backbone (for example one of another language), else those of the suite."""
    return (config["backbones"].get(backbone_name) or {}).get("tasks", config["tasks"])


def _entries(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"method": entry} if isinstance(entry, str) else entry for entry in config["methods"]]


def _runs(config: Mapping[str, Any]) -> Iterator[tuple[Run, Mapping[str, Any]]]:
    common = {"corpus": config["corpus"], "data": config["data"]}
    for entry in _entries(config):
        for text in _texts(entry):
            for name in _backbones(entry, text, config["backbones"]):
                options = config["backbones"][name] or {}
                for seed in entry.get("seeds") or options.get("seeds") or config["seeds"]:
                    recipe = config.get("recipe", {})
                    yield (
                        resolve(text, backbone_name=name, seed=seed, recipe=recipe, **common),
                        entry,
                    )


def _backbones(
    entry: Mapping[str, Any], text: str, suite_backbones: Mapping[str, Any]
) -> list[str]:
    """Those that an entry lists, else all of a matching kind without tasks of their own."""
    names = entry.get("backbones", "all")
    if names != "all":
        if unknown := [name for name in names if name not in suite_backbones]:
            raise UserError(
                f"'{entry['method']}' names the backbone '{unknown[0]}', which is not in "
                f"'backbones'{did_you_mean(unknown[0], suite_backbones)}"
            )
        return list(names)
    method = method_class(parse(text)[0][0][0])
    matching = [
        name
        for name, options in suite_backbones.items()
        if "tasks" not in (options or {})
        and (method.backbone_free or backbone(name).kind == method.backbone_kind)
    ]
    if not matching:
        needed = BACKBONE_KINDS[method.backbone_kind]
        raise UserError(f"'{text}' needs {needed}; add one to 'backbones'")
    return matching


def _texts(entry: Mapping[str, Any]) -> Iterator[str]:
    """The texts of an entry: every combination of its sweep in each of its settings."""
    method, sweep = entry["method"], entry.get("sweep", {})
    pieces = re.split(r"\{(\w+)\}", method)  # every second is a name
    if unmatched := set(pieces[1::2]) ^ set(sweep):
        raise UserError(f"'{{{min(unmatched)}}}' must be both in '{method}' and in its sweep")
    settings = [f"@{setting}" for setting in entry.get("settings", [])] or [""]
    if settings != [""] and parse(method)[1]:
        raise UserError(f"'{method}' already names its setting; remove 'settings'")
    if (count := math.prod(map(len, [*sweep.values(), settings]))) > MAX_SWEEP:
        raise UserError(
            f"the sweep of '{method}' has {count} combinations, above {MAX_SWEEP}; reduce it"
        )
    for values in itertools.product(*sweep.values()):
        filled = dict(zip(sweep, map(str, values), strict=True))
        text = "".join(filled[one] if place % 2 else one for place, one in enumerate(pieces))
        yield from (text + setting for setting in settings)


def plan(
    config: Mapping[str, Any], planned_runs: Sequence[Planned] | None = None
) -> dict[str, Any]:
    """The content of `plan.json`: the runs of a suite, or those given, as JSON data."""
    return {
        "suite": config["suite"],
        "data": config["data"],
        "corpus": config["corpus"],
        "tasks": config["tasks"],
        "mode": mode_of(config),
        "stand_ins": {printed: backbone(own).name for printed, own in _stand_ins(config)},
        **({"grown": True} if config.get("grown") else {}),
        **({"baseline": config["compare"]["baseline"]} if "compare" in config else {}),
        "runs": [one.describe() for one in planned_runs or planned(config)],
    }
