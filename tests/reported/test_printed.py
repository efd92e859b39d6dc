"""The papers' numbers: complete, with every label mapped; and quoted scores of other papers."""

from collections import defaultdict

import pytest
import yaml

from bench.datasets.metrics import PRINTED
from bench.datasets.tasks import LEADERBOARDS, STS_TASKS
from bench.registry.methods import method_class
from bench.reported import FOLDER, ROW_COLUMNS, public_sd, quoted
from bench.reported.figures import load_figures
from bench.reported.number import REASONS, load_mapping, sweep_lines
from bench.runs.text import parse
from tests.support.method_runs import run_of
from tests.support.printed_numbers import mapped
from tests.support.refusals import refused

# Leaderboards with quoted scores; the numbers of the five papers have files of their own.
BOARDED = sorted(path.stem.removeprefix("quoted_") for path in FOLDER.glob("quoted_*.csv"))


def test_spread_of_public_seeds():
    spreads = {
        "bert-base-uncased": 0.84, "bert-large-uncased": 1.74, "roberta-base": 0.21,
        "roberta-large": 0.50,
    }  # fmt: skip
    result = {backbone: round(public_sd(backbone, "Avg"), 2) for backbone in spreads}
    assert result == spreads
    assert public_sd("toy-bert", "Avg") is None


def test_every_row_has_exactly_one_entry_and_every_entry_a_row():
    numbers = mapped()  # raises unless every row matches exactly one entry
    assert ((numbers["run"] == "") != (numbers["reason"] == "")).all()
    setting = ~numbers["metric"].isin(PRINTED)
    assert ((numbers["reason"] == "hyper-parameter, not a score") == setting).all()
    rows = numbers[ROW_COLUMNS].drop_duplicates()
    for entry in load_mapping().entries:
        result = rows
        for field in entry.model_fields_set & set(ROW_COLUMNS):
            result = result[result[field].isin(getattr(entry, field))]
        assert len(result), f"{entry} matches nothing"


def test_the_lines_of_sweeps_have_three_values_of_a_variant():
    result = defaultdict(lambda: defaultdict(set))
    for number, line in sweep_lines().items():
        result[number.label[:2]][line].add(number.variant)
    for lines in result.values():
        assert all(len(variants) > 2 and "" not in variants for variants in lines.values())


def test_every_run_is_one_that_the_suite_knows_by_that_name():
    rows = mapped().itertuples()
    pairs = {(run, row.our_backbone) for row in rows for run in (row.run, row.minus)}
    # Scores that are quoted, and lines of figures, name runs, too.
    rows = (row for leaderboard in BOARDED for row in quoted(leaderboard).itertuples())
    pairs |= {(row.run, row.backbone) for row in rows}
    for figure in load_figures():
        for series in figure.series:
            pairs |= {(run, series.backbone) for _, runs in series.points for run in runs}
    for run, on in pairs:
        if run:
            result = run_of(run, on)
            assert (result.text, result.skip) == (run, None)


def test_released_code_is_judged_on_the_official_setting():
    for run in {*mapped()["run"], *mapped()["minus"]} - {""}:
        text, _, setting = run.partition("@")
        parts = [method_class(name) for name, _ in parse(text)[0]]
        # `untrained` has no values that a setting could change, but a flow after it has.
        parts = [part for part in parts if part.paper or part.official] or parts
        released = all(part.official is not None for part in parts)
        assert setting == ("official" if released else "paper"), run


@pytest.mark.parametrize("host", ["DCLR", "CARDS"])
def test_is_cse_is_added_to_the_method_that_it_is_compared_with(host):
    table = mapped().query("source == 'is-cse' and table == 'Table 1' and task == 'Avg'")
    table = table[table["backbone"] == "roberta-large"].set_index(["method", "variant"])["run"]
    alone, added = table[host, "(ours)"], table[f"IS-CSE+{host}"].item()
    host_alone, combined, plain = (
        run_of(text, "roberta-large") for text in (alone, added, "is-cse@official")
    )
    assert combined.recipe == host_alone.recipe
    assert combined.parts[0] == host_alone.parts[0]
    decided_by_host = {"temperature"}
    hyper = {
        key: combined.parts[1][2].get(key) for key in plain.parts[0][2].keys() - decided_by_host
    }
    assert hyper == {key: plain.parts[0][2][key] for key in hyper}


def test_a_difference_has_two_runs_and_nothing_else_has():
    numbers = mapped()
    two = numbers["method"].str.contains(" minus ")
    assert ((numbers["minus"] != "") == two).all()
    bases = {name: name.lower() for name in ("IS-CSE", "GS-InfoNCE", "SimCSE")}
    bases |= {
        "SSCL-SimCSE": "sscl", "SSCL-BERT": "sscl[positive=self]",
        "BERT": "untrained[pooler=cls_before_pooler]",
    }  # fmt: skip
    for row in numbers[two].itertuples():
        runs = [run.partition("@")[0] for run in (row.run, row.minus)]
        # Figures 1 and 4 of SSCL have one layer of negatives.
        runs = [run.removesuffix("[layer=11]") for run in runs]
        assert runs == [bases[name] for name in row.method.split(" minus ")]


def test_reasons_are_a_closed_list():
    content = yaml.safe_load((FOLDER / "mapping.yaml").read_text())
    assert {entry.get("reason") for entry in content["entries"]} == {None, *REASONS}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"reason": "not descirbed"}, ", not 'not descirbed'"),
        ({}, "either 'run' or 'reason'"),
        ({"reason": REASONS[0], "run": "glove@official"}, "either 'run' or 'reason'"),
    ],
)
def test_an_entry_has_a_run_or_a_known_reason(entry, message, tmp_path):
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump({"entries": [entry]}))
    refused(lambda: load_mapping(tmp_path / "mapping.yaml"), message)


def test_the_rows_that_print_weighted_means():
    """Figures of BERT-flow's and BERT-whitening's papers, which SimCSE's table has under "all"."""
    rows = mapped().query("aggregation != ''")
    assert set(rows["aggregation"]) == {"wmean"}
    places = rows[["source", "table", "backbone", "method"]].drop_duplicates().to_numpy().tolist()
    place = ["sscl", "Table 2", "bert-large-uncased"]
    assert places == [[*place, "BERT-flow"], [*place, "BERT-whitening"]]
    assert [*rows["task"]] == [*STS_TASKS[:5], "Avg"] * 2  # the others have no subsets


def test_what_is_quoted_from_a_checkpoint():
    """Every number of the four checkpoints is printed alike wherever it is quoted, and every row
    with their average is one of these."""
    numbers = mapped()
    quoted = numbers[numbers["checkpoint"] != ""]
    assert set(quoted["method"]) == {"SimCSE"}
    values = quoted.groupby(["checkpoint", "task", "split", "metric"])["value"].nunique()
    assert set(values) == {1}
    averages = quoted.query("task == 'Avg' and metric == 'spearman'").groupby("backbone")["value"]
    printed = {
        "bert-base-uncased": 76.25, "bert-large-uncased": 78.41, "roberta-base": 76.57,
        "roberta-large": 78.90,
    }  # fmt: skip
    assert averages.first().to_dict() == printed
    for row in numbers.query("method == 'SimCSE' and metric == 'spearman'").itertuples():
        if row.task == "Avg" and row.value == printed.get(row.backbone):
            assert row.checkpoint, [getattr(row, name) for name in ROW_COLUMNS]


def test_the_checkpoints_are_those_of_simcse():
    quoted = mapped().query("checkpoint != ''")[["checkpoint", "backbone"]].drop_duplicates()
    for text, backbone in quoted.itertuples(index=False):
        run = run_of(text, "none", seed=None)
        assert run.build().hyper.model == f"princeton-nlp/unsup-simcse-{backbone}"


# --- Quoted scores of papers that are not judged ---


@pytest.mark.parametrize("leaderboard", BOARDED)
def test_a_quoted_row_says_where_it_was_read_and_holds_points(leaderboard):
    rows, label = quoted(leaderboard), ["name", "run", "backbone", "quoted_from"]
    assert list(rows.columns) == [*label, *LEADERBOARDS[leaderboard].tasks, "Avg"]
    assert (rows[["name", "backbone", "quoted_from"]] != "").all(axis=None)
    assert not rows.duplicated(["name", "backbone", "quoted_from"]).any()
    scores = rows.drop(columns=label).stack()
    assert scores[scores != ""].str.fullmatch(r"\d{2}\.\d{2}( ± \d\.\d{2})?").all()


def test_averages_that_are_not_the_mean_of_their_row():
    """A change means a typo of ours, or a new row that is wrong where it is quoted from."""
    odd = {}
    for leaderboard in BOARDED:
        for row in quoted(leaderboard).to_dict("records"):
            values = [
                row[task].partition(" ")[0] for task in (*LEADERBOARDS[leaderboard].tasks, "Avg")
            ]
            if all(values):
                *points, average = map(float, values)
                if abs(gap := average - sum(points) / len(points)) > 0.011:
                    odd[row["name"], row["backbone"]] = round(gap, 2)
    assert odd == {("MixCSE", "bert-large-uncased"): 0.01}
