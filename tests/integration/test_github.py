"""What GitHub reads: workflows that call make, and forms that refer to what exists."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))


def read(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def commands(job: dict[str, Any]) -> set[str]:
    """What a job runs, with every value of its matrix."""
    matrix = job.get("strategy", {}).get("matrix", {})
    rows = [{name: value} for name in matrix if name != "include" for value in matrix[name]]
    runs = {step["run"] for step in job["steps"] if "run" in step}
    for row in [*rows, *matrix.get("include", [])]:
        for name, value in row.items():
            runs |= {run.replace(f"${{{{ matrix.{name} }}}}", str(value)) for run in runs}
    return {run for run in runs if "matrix." not in run}


def test_workflows_call_make_and_nothing_else():
    """The four that must stay green, and only targets that exist."""
    jobs = [job for path in (GITHUB / "workflows").iterdir() for job in read(path)["jobs"].values()]
    run = set().union(*map(commands, jobs))
    assert {f"make {name}" for name in ("check", "test", "test-lowest", "smoke")} <= run
    assert all(re.fullmatch(r"make [a-z-]+", command) for command in run)
    assert {command.split()[1] for command in run} <= TARGETS


@pytest.mark.parametrize("path", sorted((GITHUB / "workflows").iterdir()), ids=lambda p: p.name)
def test_a_workflow_may_only_read_and_uses_released_actions(path):
    content = read(path)
    assert content["permissions"] == {"contents": "read"}
    assert set(content[True]) == {"push", "pull_request"}  # YAML 1.1 reads the key `on` as true
    for job in content["jobs"].values():
        assert job["timeout-minutes"] <= 60
        used = [step["uses"] for step in job["steps"] if "uses" in step]
        assert all(re.fullmatch(r"actions/(checkout|setup-python)@v\d+", name) for name in used)


def test_what_forms_and_template_refer_to_exists():
    """Documents, sections in quotes after them, and targets of make."""
    for path in [*(GITHUB / "ISSUE_TEMPLATE").glob("*.yml"), GITHUB / "PULL_REQUEST_TEMPLATE.md"]:
        text = path.read_text(encoding="utf-8")
        named = re.findall(r"`make ([a-z -]+)`", text)
        assert {target for names in named for target in names.split()} <= TARGETS
        for name, section in re.findall(r'((?:docs/)?[\w-]+\.md)(?:,? \(?"([^"]+)")?', text):
            content = (ROOT / name).read_text(encoding="utf-8")
            assert not section or f"\n## {section}\n" in content, f"{path.name}: {name} {section}"
