"""Lines that a workflow prints while it runs, from the files of its suite."""

import logging

import pytest

from bench.runs import paths
from bench.stages import watch
from bench.stages.activity import working
from bench.utils.files import write_json
from tests.support.tiny_suite import seeds_of_simcse


def test_a_line_says_how_much_is_done_and_left_and_what_is_at_work(tmp_path, monkeypatch, capsys):
    """One of five trainings (weight 4) ends and no scoring (1): 4 of 25 in 60 seconds leave 5:15.
    Lines have at most 120 characters."""
    plan = seeds_of_simcse(5)
    first, second, third, *_ = plan.runs
    clock = iter([0.0, 60.0, 70.0])  # at its end the process has ended
    done = paths.result_file(tmp_path, first.id, "train")
    monkeypatch.setattr(watch.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(watch.time, "sleep", lambda _: write_json(done, {}))
    with (
        pytest.raises(StopIteration),
        working(tmp_path, second.id, "train"),
        working(tmp_path, third.id, "score"),
    ):
        watch.watch(plan, tmp_path)
    line, again = capsys.readouterr().err.splitlines()
    assert line == (
        "0:01:00 16 % done; about 0:05:15 left; training SimCSE on bert-base-uncased, seed 2; "
        "scoring SimCSE on bert-base- ..."
    )
    assert again.startswith("0:01:10 16 % done; about 0:06:08 left")
    assert max(map(len, (line, again))) <= 120


def test_nothing_that_snakemake_logs_after_ctrl_c_is_shown(capsys):
    log_filter, logger = watch.LogFilter(), logging.getLogger("snakemake of a test")
    logger.addFilter(log_filter)
    logger.addHandler(logging.StreamHandler())
    for line in ("Select jobs to execute...", "Execute 1 jobs...", "1 of 2 steps (50%) done"):
        logger.error(line)
    assert not log_filter.is_interrupted
    logger.error("Terminating processes on user request, this might take some time.")
    logger.error("RuleException:")
    assert log_filter.is_interrupted
    assert capsys.readouterr().err == "1 of 2 steps (50%) done\n"
