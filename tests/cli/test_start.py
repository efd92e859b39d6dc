"""What a workflow takes is printed before it starts, and somebody has to agree to a long one."""

import io
from pathlib import Path

import pytest
import yaml

from bench.cli import main
from bench.cli.start import EXIT_NOT_STARTED
from bench.runs.paths import result_file
from bench.stages import workflow
from bench.utils.files import write_json
from tests.support.tiny_suite import seeds_of_simcse, tiny_configuration

LONG = tiny_configuration(
    "bert-base-uncased", "senteval", "wiki1m", suite="s", tasks=["MR"], seeds=[1, 2],
    methods=["simcse"],
)  # fmt: skip
SHORT = tiny_configuration("toy-bert", "world", "world", methods=["simcse"])
COSTS = "4 trainings and scorings: some 0.1 h on a GPU or 200 h on a thread of a processor"
HINT = "not started, because it takes long; add --yes to start it, or -n to look at it"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a configuration with options, of an answer in a terminal or without one (None): the
    status, whether the workflow was started, and what was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)

    def begin(content, *options, answer=None):
        started = []
        monkeypatch.setattr(workflow, "run_workflow", lambda *words: started.append(words) or 0)
        monkeypatch.setattr("bench.cli.start.os.isatty", lambda _: answer is not None)
        monkeypatch.setattr("sys.stdin", io.StringIO(answer or ""))
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(content))
        status = main(["run", "c.yaml", *options])
        out, err = capsys.readouterr()
        return status, bool(started), out, err

    return begin


def test_long_work_starts_if_the_user_agrees(run):
    status, is_started, out, err = run(LONG, answer="y\n")
    assert (status, is_started, out) == (0, True, "Go on? [y/N] ")
    assert "Device: cpu.\n" in err
    assert COSTS in err
    assert "0.87  2 encoders" in err


@pytest.mark.parametrize("answer", ["\n", "n\n", ""])
def test_any_other_answer_starts_nothing(run, answer):
    assert run(LONG, answer=answer)[:3] == (EXIT_NOT_STARTED, False, "Go on? [y/N] ")


def test_without_a_terminal_long_work_needs_an_option(run):
    status, is_started, out, err = run(LONG, "--cores", "2")
    assert (status, is_started, out) == (EXIT_NOT_STARTED, False, "")
    assert COSTS in err
    assert err.endswith(f"\n{HINT}\n")
    for option in (["--yes"], ["--profile", "mine"], ["--executor=slurm"]):
        assert run(LONG, *option)[:3] == (0, True, "")
    assert run(LONG, "--executor", "local")[:2] == (EXIT_NOT_STARTED, False)


@pytest.mark.parametrize("option", ["-n", "-np", "--dry-run", "--unlock"])
@pytest.mark.parametrize("answer", [None, "n\n"])
def test_what_starts_no_job_never_asks(run, option, answer):
    status, is_started, out, err = run(LONG, option, answer=answer)
    assert (status, is_started, out) == (0, True, "")
    assert COSTS in err
    assert HINT not in err


@pytest.mark.parametrize("answer", [None, "n\n"])
def test_short_work_starts_without_a_question(run, answer):
    status, is_started, out, err = run(SHORT, answer=answer)
    assert (status, is_started, out) == (0, True, "")
    assert "2 trainings and scorings: some 0.1 h on a GPU or 0.1 h on a thread" in err


def test_only_what_is_left_counts(run):
    plan = seeds_of_simcse(2)
    plan.write(Path("results/s/plan.json"))
    first, second = plan.runs
    finished = [(first, "train"), (first, "score"), (second, "train")]
    for planned, stage in finished:
        write_json(result_file(Path("results/s"), planned.id, stage), {})
    status, is_started, _, err = run(LONG, answer="n\n")
    assert (status, is_started) == (0, True)
    assert "1 trainings and scorings: some 0.1 h" in err
    assert "0.00  0 encoders" in err
    write_json(result_file(Path("results/s"), second.id, "score"), {})
    assert run(LONG, answer="n\n") == (0, True, "", "")


def test_hours_are_those_of_the_gpu_here(run, monkeypatch):
    """Measured steps on a card need no answer; the name of another card says nothing."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    for name, first_line in (("NVIDIA H200", "runs  h on one h200, measured"), ("X", "Device: X.")):
        monkeypatch.setattr("torch.cuda.get_device_name", lambda _, name=name: name)
        status, is_started, _, err = run(LONG)
        assert (status, is_started) == (0, True)
        assert err.splitlines()[0] == first_line
