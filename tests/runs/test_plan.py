"""The order in which the runs of a plan are made."""

from bench.runs import config


def test_runs_are_made_seed_by_seed():
    """An interrupted suite then has some seeds of each method."""
    content = {"suite": "s", "data": "world", "corpus": "world", "tasks": ["sts"], "seeds": [2, 1]}
    content |= {"backbones": {"toy-bert": None}, "methods": ["simcse", "sscl", "word-overlap"]}
    plan = config.plan(config.validate(content))
    assert [(run.method, run.seed) for run in plan.chosen()] == [
        ("word-overlap", None),
        ("simcse", 1),
        ("sscl", 1),
        ("simcse", 2),
        ("sscl", 2),
    ]
