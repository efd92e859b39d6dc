"""Tables as they are written, beside what they were when somebody last read them: `rendered/`.

Numbers in them are held by tests of `bench.comparison`; here are their words, marks, bold type,
order, decimals and escaping. After a change that is meant, copy what the failure names.
"""

from pathlib import Path

import pytest

from bench.comparison.reproduction import judge
from bench.datasets.tasks import STS_TASKS
from bench.report.comparison_table import render_versus
from bench.report.printed_table import NOTHING_RUN, captioned, legend, printed_tables
from bench.report.tables import render_tables
from bench.results.suite_results import read_suite
from tests.support.synthetic_suite import seeds, write_suite

RENDERED = Path(__file__).with_name("rendered")
NASTY = "<script>alert(1)</script> & 50% of_it | {\\x}"
# SimCSE on bert-base as printed (Gao et al. 2021, Table 5).
PRINTED = dict(zip(STS_TASKS, (68.40, 82.41, 74.38, 80.91, 78.56, 76.85, 72.23), strict=True))


def steady(method: str, values: list[float], **more) -> list[dict]:
    return seeds(method, [dict.fromkeys(STS_TASKS, value) for value in values], **more)


TWO_TASKS = {"STS-B": 70.0, "SICK-R": 60.0}
# Two seeds of `sscl` are above five of SimCSE; one score of `is-cse` has fewer seeds than its row.
ENTRIES = [
    *steady("simcse", [75.0, 75.4, 75.8, 76.2, 76.6], label="SimCSE"),
    *steady("simcse", [75.0, 75.4], setting="paper", label="SimCSE"),
    *steady("gs-infonce", [75.4 + step for step in (-2, -1, 0, 1, 2) * 2]),
    *steady("gs-infonce[multiple=8]", [79.0, 79.0]),
    {"method": "gs-infonce", "seed": 0, "backbone": "bert-large-uncased", "status": "diverged",
     "reason": "loss is nan"},
    *steady("sscl", [79.0, 80.0]),
    *seeds("is-cse", [{"STS-B": 84.0, "SICK-R": 78.0, "STS12": 70.0}, TWO_TASKS]),
    *steady("is-cse", [77.0, 78.0, 79.0], backbone="roberta-base"),
    *steady("simcse", [76.0, 77.0, 77.5], backbone="roberta-base", label="SimCSE"),
    *seeds("simcse", [TWO_TASKS] * 2, backbone="roberta-large", label="SimCSE"),
    {"method": "untrained", "setting": "paper", "scores": dict.fromkeys(STS_TASKS, 56.7)},
    {"method": "published", "setting": "paper", "backbone": "none",
     "scores": {task: value + 0.05 for task, value in PRINTED.items()}},
    {"method": "word-overlap", "setting": "paper", "backbone": "none", "label": NASTY,
     "scores": dict.fromkeys(STS_TASKS, 40.0)},
]  # fmt: skip
TOY = {"name": "smoke", "data": "world", "stand_ins": {"bert-base-uncased": "toy-bert"}}


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> dict[str, str]:
    """The texts of all tables by the names of their files."""
    folder = tmp_path_factory.mktemp("suites")
    for entry in ENTRIES:
        if entry["method"] == "sscl":
            entry["outcome"] = {"best_step": 1250 + 250 * entry["seed"]}
    suite = read_suite(write_suite(folder / "suite", ENTRIES))
    cells = judge(suite)
    render_tables(suite, cells, folder / "tables")
    render_versus(suite, "simcse", out=folder / "tables")
    names = zip(("simcse", "is-cse", "sscl"), (60.0, 62.0, 61.0), strict=True)
    toy = [
        run
        for name, value in names
        for run in steady(name, [value, value + 1], backbone="toy-bert", corpus="world")
    ]
    smoke = read_suite(write_suite(folder / "smoke", toy, **TOY))
    render_tables(smoke, judge(smoke), folder / "tables" / "toy")
    texts = {
        path.relative_to(folder / "tables").as_posix(): path.read_text(encoding="utf-8")
        for path in (folder / "tables").rglob("*.*")
        if path.suffix in (".md", ".tex", ".html")
    }
    texts["compare.txt"] = render_versus(suite, "simcse")
    texts["compare_gs-infonce.txt"] = render_versus(suite, "simcse", ["gs-infonce"])
    texts["captions.txt"] = "\n\n".join(
        f"{captioned(NOTHING_RUN, table)}\n{legend(table)}"
        for table in printed_tables(judge(NOTHING_RUN)).values()
    )
    return texts


NAMES = sorted(path.relative_to(RENDERED).as_posix() for path in RENDERED.rglob("*.*"))


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_what_was_read(written, name, tmp_path):
    (tmp_path / Path(name).name).write_text(written[name], encoding="utf-8")
    expected = (RENDERED / name).read_text(encoding="utf-8")
    assert written[name] == expected, f"written to {tmp_path / Path(name).name}"
