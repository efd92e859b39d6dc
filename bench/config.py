"""A suite's configuration: validated against one schema, expanded into runs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from bench.catalogue import KINDS, backbone, method_class
from bench.errors import UserError, nearest
from bench.records import expand_tasks
from bench.suite import RECIPE_FIELDS, Run, convert_recipe, parse, resolve, unique

SCHEMA = Path(__file__).parent.parent / "config" / "schema.yaml"


def load(path: Path) -> dict[str, Any]:
    """Read and validate a configuration file.

    Raises:
        UserError: the file is missing, is no YAML, or breaks the schema; the message names the key.
    """
    import yaml

    try:
        config = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"configuration {path} does not exist; see config/ for the suites that come with the project"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"configuration {path} is not YAML: {' '.join(str(error).split())}") from None
    validate(config)
    return config


def validate(config: Any) -> None:
    """Raise `UserError` naming the key that breaks the schema, with the nearest valid name where it is misspelt."""
    import yaml

    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    errors = sorted(
        Draft202012Validator(schema).iter_errors(config), key=lambda error: (len(error.absolute_path), str(error.path))
    )
    if errors:
        raise UserError(f"configuration: {_explain(errors[0])}")
    recipe = config.get("recipe", {})
    for name in recipe:
        if name not in RECIPE_FIELDS:
            raise UserError(f"configuration: unknown key 'recipe.{name}'{nearest(name, RECIPE_FIELDS)}")
    convert_recipe(recipe)
    try:
        expand_tasks(config["tasks"])
    except UserError as error:
        raise UserError(f"configuration: {error}") from None
    stand_ins = config.get("stand_ins", {})
    for printed in stand_ins.values():
        if list(stand_ins.values()).count(printed) > 1:
            raise UserError(f"configuration: two backbones stand in for '{printed}'; keep one in 'stand_ins'")
    strangers = set(stand_ins) - set(config["backbones"])
    if strangers:
        raise UserError(
            f"configuration: 'stand_ins.{min(strangers)}' is not among the suite's backbones"
            f"{nearest(min(strangers), config['backbones'])}"
        )


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
        return f"unknown key '{prefix}{unknown}'{nearest(unknown, known)}"
    if error.validator == "required":
        return f"{error.message.replace(' is a required property', '')} is missing at {where}; see config/README.md"
    remedy = error.schema.get("description", "see config/README.md")
    return f"'{where}' is {error.instance!r}, which cannot be; {remedy}"


def runs(config: Mapping[str, Any]) -> list[Run]:
    """Every run of a validated configuration, in order, without repetitions."""
    return unique(_runs(config))


def reseeded(config: Mapping[str, Any], seeds: Iterable[int]) -> dict[str, Any]:
    """A validated configuration with these seeds for every run, whatever backbones and entries say of their own."""
    entries = [entry if isinstance(entry, str) else {**entry, "seeds": list(seeds)} for entry in config["methods"]]
    return {**config, "seeds": list(seeds), "backbones": dict.fromkeys(config["backbones"]), "methods": entries}


def _runs(config: Mapping[str, Any]) -> Iterator[Run]:
    for entry in config["methods"]:
        entry = {"method": entry} if isinstance(entry, str) else entry
        for text in _texts(entry):
            for name in _backbones(entry, text, config["backbones"]):
                seeds = entry.get("seeds") or (config["backbones"][name] or {}).get("seeds") or config["seeds"]
                for seed in seeds:
                    yield resolve(
                        text,
                        backbone_name=name,
                        corpus=config["corpus"],
                        data=config["data"],
                        seed=seed,
                        recipe=config.get("recipe", {}),
                    )


def _backbones(entry: Mapping[str, Any], text: str, known: Iterable[str]) -> list[str]:
    """The backbones that an entry names, or all of the suite's that its method can work on."""
    names = entry.get("backbones", "all")
    if names != "all":
        for name in names:
            if name not in known:
                raise UserError(
                    f"configuration: '{entry['method']}' names the backbone '{name}', which is not in 'backbones'"
                    f"{nearest(name, known)}"
                )
        return list(names)
    method = method_class(parse(text)[0][0][0])
    found = [name for name in known if method.backbone_free or backbone(name).kind == method.backbone_kind]
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
        "mode": config.get("mode", "test"),
        "stand_ins": {printed: backbone(own).name for own, printed in config.get("stand_ins", {}).items()},
        "runs": [run.describe() for run in runs(config)],
    }
