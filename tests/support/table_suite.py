"""A suite with every kind of verdict, and one of the world, whose tables are in
`tests/report/rendered`."""

from bench.datasets.tasks import STS_TASKS
from tests.support.synthetic_suite import claims, seeds

BASE = "bert-base-uncased"
NASTY = "<script>alert(1)</script> & 50% of_it | {\\x}"
# SimCSE on bert-base as printed (Gao et al. 2021, Table 5).
PRINTED = dict(zip(STS_TASKS, (68.40, 82.41, 74.38, 80.91, 78.56, 76.85, 72.23), strict=True))


TWO_TASKS = {"STS-B": 70.0, "SICK-R": 60.0}
# Two seeds of `sscl` are above five of SimCSE; one score of `is-cse` has fewer seeds than its row.
ENTRIES = [
    *seeds("simcse", [75.0, 75.4, 75.8, 76.2, 76.6], label="SimCSE"),
    *seeds("simcse", [75.0, 75.4], setting="paper", label="SimCSE"),
    *seeds("gs-infonce", [75.4 + step for step in (-2, -1, 0, 1, 2) * 2]),
    *seeds("gs-infonce[multiple=8]", [79.0, 79.0]),
    {"method": "gs-infonce", "seed": 0, "backbone": "bert-large-uncased", "status": "diverged",
     "reason": "loss is nan"},
    *[run | {"outcome": {"best_step": 1250 + 250 * run["seed"]}}
      for run in seeds("sscl", [79.0, 80.0])],
    *seeds("is-cse", [{"STS-B": 84.0, "SICK-R": 78.0, "STS12": 70.0}, TWO_TASKS]),
    *seeds("is-cse", [77.0, 78.0, 79.0], backbone="roberta-base"),
    *seeds("simcse", [76.0, 77.0, 77.5], backbone="roberta-base", label="SimCSE"),
    *seeds("simcse", [TWO_TASKS] * 2, backbone="roberta-large", label="SimCSE"),
    {"method": "untrained", "setting": "paper", "scores": 56.7},
    {"method": "published", "setting": "paper", "backbone": "none",
     "scores": {task: value + 0.05 for task, value in PRINTED.items()}},
    {"method": "word-overlap", "setting": "paper", "backbone": "none", "label": NASTY,
     "scores": 40.0},
]  # fmt: skip
CLAIMS = [
    *claims("gs-infonce", "gs-infonce[multiple=8]", "sscl"),
    *claims("is-cse", backbone="roberta-base", family=2),
]
TOY = {"name": "smoke", "data": "world", "stand_ins": {BASE: "toy-bert"}}

_TOY = {"backbone": "toy-bert", "corpus": "world"}
TOY_ENTRIES = [
    *seeds("simcse", [60.0, 61.0], **_TOY),
    *seeds("is-cse", [62.0, 63.0], **_TOY),
    *seeds("sscl", [61.0, 62.0], **_TOY),
]
