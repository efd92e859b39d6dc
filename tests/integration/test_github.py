"""What GitHub reads: workflows that call make, forms, the template of pull requests."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))
FORMS = [path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]
# https://docs.github.com/communities/using-templates-to-encourage-useful-issues-and-pull-requests
KINDS = {"markdown", "input", "textarea", "dropdown", "checkboxes"}


def read(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def commands(job: dict[str, Any]) -> set[str]:
    """What a job runs, with every value of its matrix."""
    matrix = dict(job.get("strategy", {}).get("matrix", {}))
    included = matrix.pop("include", [])
    lists = [[(name, value) for value in values] for name, values in matrix.items()]
    chosen = [dict(one) for one in itertools.product(*lists)] + included
    runs = [step["run"] for step in job["steps"] if "run" in step]
    replaced = re.compile(r"\${{ matrix\.(\w+) }}")
    return {replaced.sub(lambda m, one=one: one[m[1]], run) for run in runs for one in chosen}


def test_workflows_call_make_and_nothing_else():
    """The four that must stay green, and only targets that exist."""
    paths = sorted((GITHUB / "workflows").iterdir())
    jobs = [job for path in paths for job in read(path)["jobs"].values()]
    run = set().union(*map(commands, jobs))
    assert {f"make {name}" for name in ("check", "test", "test-lowest", "smoke")} <= run
    assert all(re.fullmatch(r"make [a-z-]+", command) for command in run)
    assert {command.split()[1] for command in run} <= TARGETS
    assert "clean" in TARGETS
    assert "nonsense" not in TARGETS


@pytest.mark.parametrize("path", sorted((GITHUB / "workflows").iterdir()), ids=lambda p: p.name)
def test_a_workflow_may_only_read_and_uses_released_actions(path):
    content = read(path)
    assert content["permissions"] == {"contents": "read"}
    assert set(content[True]) == {"push", "pull_request"}  # YAML 1.1 reads the key `on` as true
    for job in content["jobs"].values():
        assert job["timeout-minutes"] <= 60
        used = [step["uses"] for step in job["steps"] if "uses" in step]
        assert all(re.fullmatch(r"actions/(checkout|setup-python)@v\d+", name) for name in used)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_github_requires(path):
    form = read(path)
    assert {"name", "description", "body"} <= set(form)
    assert {part["type"] for part in form["body"]} <= KINDS
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    ids = [part["id"] for part in fields]
    labels = [part["attributes"]["label"] for part in fields]
    assert len(set(ids)) == len(ids)
    assert len(set(labels)) == len(labels)
    assert all(re.fullmatch(r"[\w-]+", name) for name in ids)
    assert any(part.get("validations", {}).get("required") for part in fields)
    for part in fields:
        options = part["attributes"].get("options")
        assert bool(options) == (part["type"] in ("dropdown", "checkboxes"))
        if part["type"] == "checkboxes":
            assert all(option["label"] for option in options)
    for part in form["body"]:
        assert part["type"] != "markdown" or part["attributes"]["value"].strip()


def test_there_is_a_form_for_a_method_and_one_for_a_number():
    asked = {path.stem: {part.get("id") for part in read(path)["body"]} for path in FORMS}
    assert asked["method"] >= {"paper", "code", "formula", "settings", "differences"}
    assert asked["number"] >= {"address", "what", "why"}
    assert read(GITHUB / "ISSUE_TEMPLATE" / "config.yml")["blank_issues_enabled"] is True


def test_a_pull_request_says_whether_numbers_move():
    text = (GITHUB / "PULL_REQUEST_TEMPLATE.md").read_text(encoding="utf-8")
    _, answers = text.split("**Do numbers move?**")
    assert re.findall(r"^- \[ \] (No|Yes)\b", answers, re.MULTILINE) == ["No", "Yes"]
    named = re.findall(r"`make ([a-z -]+)`", text)
    assert named
    assert {target for names in named for target in names.split()} <= TARGETS


def test_what_forms_and_template_refer_to_exists():
    """Documents, and sections in quotes after them."""
    for path in [*FORMS, GITHUB / "PULL_REQUEST_TEMPLATE.md"]:
        text = path.read_text(encoding="utf-8")
        for name, section in re.findall(r'((?:docs/)?[\w-]+\.md)(?:,? \(?"([^"]+)")?', text):
            content = (ROOT / name).read_text(encoding="utf-8")
            assert not section or f"\n## {section}\n" in content, f"{path.name}: {name} {section}"
