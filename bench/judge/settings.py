"""The hyper-parameters that papers print, beside those that ours are trained with."""

from functools import cache
from typing import Any

from bench.judged.rows import SettingRow
from bench.registry.methods import method_class, method_classes
from bench.reported import SOURCES, paper_name
from bench.reported.address import row_name
from bench.reported.number import numbers
from bench.results.suite_results import NEUTRAL_CHANGES, SuiteResults
from bench.runs.resolve import resolve

# Printed name -> field of our recipe or of the method's hyper-parameters. The others are of no run.
FIELDS = {
    "batch_size": "batch_size", "learning_rate": "learning_rate", "epochs": "epochs",
    "max_sequence_length": "max_length", "dropout": "dropout", "tau": "temperature",
    "lambda": "weight", "sigma2": "std", "M_over_batch_size": "multiple",
    "buffer_size_L": "buffer", "k_neighbours": "neighbours", "beta": "beta",
    "alpha_constant": "alpha", "alpha_start": "alpha_start", "alpha_end": "alpha",
    "kmeans_groups": "clusters", "noise_probability": "probability",
}  # fmt: skip

# Printed name -> name in tables, where that is not the printed one without underscores.
NAMES = {
    "sigma2": "sigma squared", "M_over_batch_size": "M / batch size",
    "k_neighbours": "k nearest neighbours", "alpha_constant": "alpha, constant",
    "alpha_start": "alpha, start", "alpha_end": "alpha, end", "kmeans_groups": "k-means groups",
    "random_seeds_figure5": "random seeds of Figure 5",
}  # fmt: skip

# (method, printed name) -> why ours is another, or none. docs/methods.md has the evidence.
REASONS = {
    ("gs-infonce", "batch_size"): "the released log of roberta-large has 128",
    ("gs-infonce", "M_over_batch_size"): "the released log of roberta-large has 1.5 x 128 = 3 x 64",
    ("gs-infonce", "sigma2"): "of the released logs; without effect, since a cosine ignores length",
    ("gs-infonce", "mu"): "not a setting: the vectors are always drawn around 0",
    ("is-cse", "random_seeds_figure5"): "not of a run: the paper suite plans as many seeds",
    ("word-noise[noise=none]", "dropout"): "of the base code, which the report builds on",
}


def run_name(source: str, method: str) -> str:
    """Our method that a paper's hyper-parameters are of, as in the text of a run."""
    if (source, method) == ("simcse-zh-noise", "SimCSE"):
        return "word-noise[noise=none]"  # the report's own
    return next(name for name, cls in method_classes().items() if cls.title == method)


def backbones(source: str, stated: str) -> list[str]:
    """The backbones that a paper states hyper-parameters for: all of its own, or those named."""
    if stated == "all":
        known = ["bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large"]
        used = {number.backbone for number in numbers() if number.source == source}
        return [name for name in known if name in used]
    return stated.replace("bert-base (Chinese)", "bert-base-chinese").split(" and ")


@cache
def _fields(method: str, setting: str, backbone: str) -> dict[str, Any]:
    """Recipe and hyper-parameters of a method in a setting, by name."""
    text = f"{method}@{setting}"
    run = resolve(text, backbone_name=backbone, corpus="wiki1m", data="senteval", seed=0)
    _, _, hyper = run.parts[0]
    return run.recipe.model_dump() | hyper


def resolved(method: str, setting: str, backbone: str, name: str) -> Any:
    """The value of a printed hyper-parameter, a key of `FIELDS`, in a setting of ours, in the
    paper's terms; None if no code was released."""
    if setting == "official" and method_class(method.partition("[")[0]).official is None:
        return None
    value = _fields(method, setting, backbone)[FIELDS[name]]
    return value**2 if name == "sigma2" else value


def _shown_name(name: str) -> str:
    return NAMES.get(name, name.replace("_", " "))


def _value_text(value: Any) -> str:
    """A value, a fraction as papers write it: 3e-5."""
    if value is None:
        return "–"
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


def _text(values: dict[str, Any]) -> str:
    """Values by backbone as one text: once if all are equal, else with the backbones of each; a
    dash if there are none."""
    by_text: dict[str, list[str]] = {}
    for name, value in values.items():
        by_text.setdefault(_value_text(value), []).append(name)
    if len(by_text) < 2:
        return next(iter(by_text), "–")
    return "; ".join(f"{text} ({', '.join(names)})" for text, names in by_text.items())


def settings() -> list[SettingRow]:
    """Every printed hyper-parameter beside ours in both settings, in the order of print."""
    rows = []
    for place, number in enumerate(numbers()):
        if number.is_measurement:
            continue
        method, name = run_name(number.source, number.method), number.task
        names = backbones(number.source, number.backbone) if name in FIELDS else []
        paper = {backbone: resolved(method, "paper", backbone, name) for backbone in names}
        official = {backbone: resolved(method, "official", backbone, name) for backbone in names}
        values = {None, number.value, *paper.values(), *official.values()}
        remark = REASONS[method, name] if len(values) > 2 or not names else ""
        rows.append(SettingRow(
            place=place,
            paper=paper_name(number.source),
            paper_title=SOURCES[number.source],
            source=number.source,
            table=number.table,
            label=row_name(number.method, number.variant),
            method=number.method,
            backbone=number.backbone,
            name=_shown_name(name),
            printed=number.text,
            ours_paper=_text(paper),
            ours_official=_text(official),
            remark=remark,
            reason=number.reason,
        ))  # fmt: skip
    return rows


def recipe_of(suite: SuiteResults) -> str:
    """The values that a suite sets instead of those of the methods; empty if there are none."""
    changes: dict[str, dict[str, None]] = {}
    for run in suite.runs:
        for name, value in run.run.recipe_changes.items():
            if name not in NEUTRAL_CHANGES:
                changes.setdefault(name, {})[_value_text(value)] = None
    texts = [f"{_shown_name(name)} {' or '.join(changes[name])}" for name in sorted(changes)]
    return f"Suite {suite.plan.suite} sets its own: {', '.join(texts)}." if texts else ""
