"""How a suite is named: each command takes its name, its folder or its configuration."""

from pathlib import Path

import pytest
import yaml

from bench.cli.parameters import suite_configuration, suite_folder
from bench.runs import SUITES
from tests.support.tiny_suite import tiny_configuration


@pytest.fixture(autouse=True)
def working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def file():
    content = tiny_configuration("toy-bert", "world", "world", suite="tiny", methods=["simcse"])
    path = Path("my.yaml")
    path.write_text(yaml.safe_dump(content))
    return path


def test_name_folder_and_file_are_one_folder(file):
    words = ["tiny", "results/tiny", "results/tiny/", "my.yaml"]
    assert {*map(suite_folder, words)} == {Path("results/tiny")}


@pytest.mark.parametrize("folder", ["./paper", "other/paper", "/other/paper"])
def test_a_folder_outside_of_results_has_a_slash(folder):
    Path("paper").mkdir()
    assert suite_folder(folder) == Path(folder)
    assert suite_folder("paper") == Path("results/paper")


@pytest.mark.parametrize("word", ["smoke", "results/smoke", "smoke/"])
def test_a_configuration_of_the_project_is_found_by_name_and_folder(word):
    assert suite_configuration(word) == SUITES / "smoke.yaml"


def test_a_local_configuration_comes_before_one_of_the_project_and_one_in_the_folder_first():
    for path in map(Path, ("config/smoke.yaml", "results/smoke/config.yaml")):
        path.parent.mkdir(parents=True)
        path.touch()
        assert suite_configuration("smoke") == path


def test_a_file_is_the_configuration_whatever_its_name(file):
    assert suite_configuration("my.yaml") == file
    assert suite_configuration(file.rename("smoke")) == Path("smoke")


def test_plan_and_status_take_the_same_words(file, said):
    said("plan", file, "--out", "results/tiny/plan.json")
    (text,) = {said("status", word).out for word in ("tiny", "results/tiny", "my.yaml")}
    assert text.startswith("tiny: 0 of 1 runs done")
