"""The rates of docs/explanation/error-rates.md as CSV files and figures beside it, from the
restated rule.

python -m tests.oracles.rates    # writes them
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.report.figures import style
from bench.report.figures.compared import Mark, Strip, figure_of_rows
from bench.report.formats import csv
from bench.stages.cost import one_digit
from tests.oracles.rule import (
    BACKBONES,
    CLAIMS,
    FEWEST,
    LOOKS,
    NS,
    PAPER,
    PLANNED,
    Rates,
    against_untrained,
    chosen_late,
    diverging,
    hours,
    needed,
    plan_of,
    power,
    print_rates,
    public_seeds,
    rates,
    rows_of,
    skewness,
)

FOLDER = Path(__file__).parents[2] / "docs" / "explanation"
DRAWS = 20_000
# Kinds of scores that the bound holds for.
MEASURED = {
    "normal": "normal scores",
    "t3": "Student's t with 3 degrees of freedom",
    "skewed": "skewed scores",
    "bimodal": "bimodal scores",
}
# The look of each of `Rates`, and its bound in percent.
QUESTIONS: Mapping[str, tuple[style.Look, int]] = {
    "better or worse": (style.OFFICIAL, 6),
    "below the margin": (style.PAPER_LOOK, 6),
    "both together": (style.UNTRAINED_LOOK, 12),
}


NOTE = f"Highest of 1 to 14 claims, N of 3 to 8 and three ways to add seeds; {DRAWS:,} draws."
YES = {True: "yes", False: "no"}
VERDICTS = {"better": "-", "below the margin": ":"}  # with their lines
NAMES = {"gs-infonce": "GS-InfoNCE", "is-cse": "IS-CSE", "sscl": "SSCL-SimCSE"}
POWER_TITLE = "The paper suite can decide all printed gains but GS-InfoNCE's on bert-large"
POWER_NOTE = (
    "At N, 2N and 4N seeds. Solid: the gain is as printed, and found better than SimCSE. Dotted: "
    "the gain is 0, and found below the printed one. Grey: 80 %."
)


def percent(shares: Any) -> Any:
    return np.round(100 * np.asarray(shares), 1)


def false_verdicts(draws: int) -> pd.DataFrame:
    """The highest rates of each case over numbers of claims and planned seeds, in percent."""
    sizes = list(product((1, 10), PLANNED))
    one_score, a_third = partial(rates, shared=0), partial(against_untrained, spread=1 / 3)
    cases: dict[str, tuple[Callable[..., Rates], list[tuple[int, int]]]] = {
        name: (partial(rates, kind), list(product(CLAIMS, PLANNED)))
        for kind, name in MEASURED.items()
    }
    cases |= {
        "a tenth of the baseline's seeds diverging": (partial(diverging, "baseline"), sizes),
        "a tenth of the methods' seeds diverging": (partial(diverging, "method"), sizes),
        "beside one score": (partial(one_score, "normal"), sizes),
        "beside classifier seeds": (partial(against_untrained, spread=1.0), sizes),
        "classifier seeds, a third of the deviation, N of 5 and 8": (
            a_third, [size for size in sizes if size[1] > FEWEST],
        ),
        "the same, N = 3": (a_third, [(1, 3), (10, 3)]),
        "best or worst of 13 scored rows, claimed late": (
            chosen_late, [(13, planned) for planned in PLANNED],
        ),
        "one score, public seeds of bert-large": (partial(one_score, "bert-large"), sizes),
        "one score, one seed in ten 5 deviations lower": (partial(one_score, "collapses"), sizes),
        "seeds of a method sharing a tenth of its variance": (
            partial(rates, "normal", common=0.1), sizes,
        ),
    }  # fmt: skip
    rows = {
        case: percent(np.max([simulated(*cell, draws) for cell in cells], 0))
        for case, (simulated, cells) in cases.items()
    }
    return pd.DataFrame.from_dict(rows, "index", columns=list(QUESTIONS)).reset_index(names="case")


def printed_verdicts(draws: int) -> pd.DataFrame:
    """The rates of verdicts on printed values by backbone and planned seeds, in percent."""
    rows, plan = [], plan_of(PAPER)
    seeds = {claim.backbone: len(rows_of(plan, claim)[0]) for claim in plan.claims}
    for backbone, planned in product(BACKBONES, (FEWEST, *NS)):
        averages, found = public_seeds(backbone)[:, -1], print_rates(backbone, planned, draws)
        row = {"backbone": backbone, "sd": f"{averages.std(ddof=1):.2f}"}
        row |= {"skewness": round(skewness(averages), 1), "N": planned}
        row["planned"] = YES[planned == seeds[backbone]]
        row |= {"reproduced, T above": percent(found["above"])}
        row |= {"reproduced, T below": percent(found["below"])}
        row |= {"paper lower or higher": percent(found["accused"])}
        rows.append(row | {"reproduced, truly": slashed(found["power"])})
    return pd.DataFrame(rows)


def slashed(shares: Any) -> str:
    """`16/86/100`, in percent at the three looks."""
    return "/".join(f"{100 * share:.0f}" for share in shares)


def power_of_claims(draws: int) -> pd.DataFrame:
    """How often each look finds what the true gain is: `better` for the margin, `below the margin`
    for 0."""
    plan, fewest = plan_of(PAPER), needed(PAPER, draws // 5)
    found = {planned: power(PAPER, planned, draws) for planned in NS}
    rows = []
    for place, claim in enumerate(plan.claims):
        sides = rows_of(plan, claim)
        of_seed, n = sum(hours(side, "a GPU") for side in sides), fewest[place]
        for planned, shares in found.items():
            row = {"backbone": claim.backbone, "claim": claim.method.removesuffix("@official")}
            row |= {"margin": claim.margin, "N": planned}
            row["planned"] = YES[planned == len(sides[0])]
            row |= dict(zip(VERDICTS, map(slashed, shares[..., place].T), strict=True))
            row["hours to the first look"] = one_digit(planned * of_seed)
            row |= {"N for 80 %": n, "hours for 80 %": n and one_digit(4 * n * of_seed)}
            rows.append(row)
    rows.sort(key=lambda row: BACKBONES.index(row["backbone"]))
    return pd.DataFrame(rows)


def false_verdicts_figure(table: pd.DataFrame) -> Figure:
    """The rates of each case, with the bounds that the rule promises."""
    strips = []
    for case, *values in table.itertuples(index=False):
        marks: list[Mark] = [
            ([value], 0, look | {"label": f"{name} (at most {most} %)"})
            for value, (name, (look, most)) in zip(values, QUESTIONS.items(), strict=True)
            if np.isfinite(value)
        ]
        text = " · ".join(f"{value:.1f}" for value in values if np.isfinite(value))
        strips.append(Strip("Highest share of families with a false verdict", case, text, marks))
    bounds = [most for _, most in QUESTIONS.values()]
    beyond = (table[list(QUESTIONS)] > bounds).any(axis=1).sum()
    title = f"At most 6 % of families have a false verdict, except in the last {beyond} cases"
    figure = figure_of_rows(strips, title, [NOTE], "% of families, at any look")
    for panel in figure.axes:
        for most, line in ((6, "-"), (12, ":")):
            panel.axvline(most, color=style.GREY, lw=1, ls=line, zorder=1)
    return figure


def power_figure(table: pd.DataFrame) -> Figure:
    """The power of the paper suite at its looks, a panel per backbone."""
    planned = table[table["planned"] == "yes"]
    figure = Figure((style.WIDTH, 2.0), layout="constrained")
    panels = figure.subplots(1, len(BACKBONES), sharey=True)
    for backbone, panel in zip(BACKBONES, panels, strict=True):
        for row in planned[planned["backbone"] == backbone].to_dict("records"):
            seeds = [row["N"] * look for look in LOOKS]
            name = NAMES[row["claim"]]
            for verdict, line in VERDICTS.items():
                shares = [*map(int, row[verdict].split("/"))]
                panel.plot(seeds, shares, **style.SERIES[name] | {"ls": line, "label": name})
        panel.set(xscale="log", xlabel="seeds", ylim=(-4, 104), title=backbone)
        panel.set_xticks(seeds, seeds, minor=False)
        panel.minorticks_off()
        panel.axhline(80, color=style.GREY, lw=1, zorder=1)
    panels[0].set_ylabel("% decided")
    style.add_texts(figure, POWER_TITLE, [POWER_NOTE])
    return figure


TABLES: Mapping[str, Callable[[int], pd.DataFrame]] = {
    "false-verdicts": false_verdicts,
    "printed-verdicts": printed_verdicts,
    "power": power_of_claims,
}
FIGURES = {"false-verdicts": false_verdicts_figure, "power": power_figure}

if __name__ == "__main__":
    for name, simulated in TABLES.items():
        table = simulated(DRAWS)
        (FOLDER / f"{name}.csv").write_text(csv(table), encoding="utf-8")
        if name in FIGURES:
            with style.drawing():
                style.save_picture(FIGURES[name](table), FOLDER / f"{name}.png")
