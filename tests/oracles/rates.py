"""The tables and the figure of docs/explanation/error-rates.md, from the rates of the restated
rule.

python -m tests.oracles.rates    # writes them
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.stages.cost import one_digit
from tests.oracles.rule import (
    BACKBONES,
    CLAIMS,
    FEWEST,
    NS,
    PAPER,
    PLANNED,
    WIKI_MINI,
    Array,
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

DOCUMENT = Path(__file__).parents[2] / "docs" / "explanation" / "error-rates.md"
DRAWS = 20_000
MEASURED = ("normal", "t3", "skewed", "bimodal")  # which the bound holds for


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def slashed(numbers: Any) -> str:
    return "/".join(f"{number:.0f}" for number in numbers)


@cache
def measured(draws: int) -> pd.DataFrame:
    """The rates of pairs by kind of scores, number of claims and planned seeds."""
    cases = product(MEASURED, CLAIMS, PLANNED)
    return pd.DataFrame(
        {"kind": kind, "claims": claims, "planned": planned}
        | rates(kind, claims, planned, draws)._asdict()
        for kind, claims, planned in cases
    )


def claims_list(draws: int) -> str:
    """The highest rates of each case, as a list in Markdown."""
    found, sizes = measured(draws), list(product((1, 10), PLANNED))
    highest = {kind: found[found["kind"] == kind][list(Rates._fields)].max() for kind in MEASURED}
    one_score, a_third = partial(rates, shared=0), partial(against_untrained, spread=1 / 3)
    cases: dict[str, tuple[Callable[..., Rates], list[tuple[int, int]]]] = {
        "a tenth of the baseline's seeds diverging": (partial(diverging, "baseline"), sizes),
        "a tenth of the methods' seeds diverging": (partial(diverging, "method"), sizes),
        "seeds of a method sharing a tenth of its variance": (
            partial(rates, "normal", common=0.1), sizes,
        ),
        "best or worst of 13 scored rows, claimed late": (
            chosen_late, [(13, planned) for planned in PLANNED],
        ),
        "beside one score": (partial(one_score, "normal"), sizes),
        "one score, public seeds of bert-large": (partial(one_score, "bert-large"), sizes),
        "one score, one seed in ten 5 sd lower": (partial(one_score, "collapses"), sizes),
        "beside classifier seeds": (partial(against_untrained, spread=1.0), sizes),
        "classifier seeds, a third of the spread, N = 3": (a_third, [(1, 3), (10, 3)]),
        "the same, N of 5 and 8": (a_third, [size for size in sizes if size[1] > FEWEST]),
    }  # fmt: skip
    for case, (simulated, cells) in cases.items():
        highest[case] = np.max([simulated(*cell, draws) for cell in cells], 0)
    return "\n".join(
        f"* {case}: {', '.join(percent(x) for x in values if np.isfinite(x))}"
        for case, values in highest.items()
    )


def print_table(draws: int) -> str:
    rows = []
    for backbone in BACKBONES:
        averages = public_seeds(backbone)[:, -1]
        row = {"backbone": backbone, "sd": f"{averages.std(ddof=1):.2f}"}
        row["skewness"] = f"{skewness(averages):.1f}"
        for planned in (3, 5, 8, 10):
            found = print_rates(backbone, planned, draws)
            false = "/".join(percent(found[name]) for name in ("above", "below", "accused"))
            row[f"N = {planned}"] = f"{false}; {slashed(100 * x for x in found['power'])}"
        rows.append(row)
    return markdown(rows)


def power_row(shares: Mapping[int, Array], of_seed: float) -> dict[str, Any]:
    """Cells of a claim; shares (looks, 2) in percent by N."""
    cells = {f"N = {n}": "; ".join(map(slashed, found.T)) for n, found in shares.items()}
    return cells | {"hours a seed": one_digit(of_seed)}


def power_table(draws: int) -> str:
    plan, fewest = plan_of(PAPER), needed(PAPER, draws // 5)
    found = {n: 100 * power(PAPER, n, draws) for n in NS}
    rows, runs = [], {}
    for place, claim in enumerate(plan.claims):
        sides = rows_of(plan, claim)
        runs |= {(claim.backbone, side[0].text): hours(side, "a GPU") for side in sides}
        of_seed = sum(runs[claim.backbone, side[0].text] for side in sides)
        n = fewest[place]
        row = {"backbone": claim.backbone, "claim": claim.method.removesuffix("@official")}
        row["margin"] = f"{claim.margin:.2f}"
        row |= power_row({n: shares[..., place] for n, shares in found.items()}, of_seed)
        rows.append(row | {"80 %": f"{n} ({one_digit(4 * n * of_seed)}h)" if n else "never"})
    rows.sort(key=lambda row: BACKBONES.index(row["backbone"]))
    plan = plan_of(WIKI_MINI)
    found = {n: 100 * power(WIKI_MINI, n, draws).mean(-1) for n in NS}
    sides = [side for claim in plan.claims for side in rows_of(plan, claim)]
    texts = {side[0].text: hours(side, "a thread of a processor") for side in sides}
    row = {"backbone": plan.claims[0].backbone, "claim": f"mean of {len(plan.claims)}"}
    row["margin"] = f"{plan.claims[0].margin:.2f}"
    rows.append(row | power_row(found, sum(texts.values())))
    sums = ", ".join(one_digit(n * sum(runs.values())) for n in NS)
    return f"{markdown(rows)}\n\nHours of all ten claims to the first look: {sums} with these N."


def markdown(rows: list[dict[str, Any]]) -> str:
    table = pd.DataFrame(rows).fillna("")
    return "\n".join(
        f"| {' | '.join(map(str, row))} |"
        for row in (table.columns, ["---"] * table.shape[1], *table.to_numpy())
    )


def blocks(draws: int) -> dict[str, str]:
    """The generated parts of docs/explanation/error-rates.md as Markdown, by name."""
    return {
        "claims": claims_list(draws),
        "print": print_table(draws),
        "power": power_table(draws),
    }


def replace_blocks(text: str, new: Mapping[str, str]) -> str:
    """`text` with each part between `<!-- generated: name -->` and `<!-- end -->` replaced."""
    for name, content in new.items():
        pattern = rf"(<!-- generated: {name} -->\n\n).*?(\n\n<!-- end -->)"
        text = re.sub(pattern, lambda at, new=content: at[1] + new + at[2], text, flags=re.DOTALL)
    return text


def draw(path: Path, draws: int) -> None:
    """Draw the rates of pairs by question, number of claims, kind and planned seeds."""
    from matplotlib import pyplot

    styles = dict(zip(PLANNED, (":", "--", "-"), strict=True))
    titles = {"differs": "better or worse", "below": "below the margin", "either": "either"}
    figure, panels = pyplot.subplots(1, 3, figsize=(9, 2.8), sharey=True, layout="constrained")
    found = measured(draws)
    for (name, title), panel in zip(titles.items(), panels, strict=True):
        for color, kind in enumerate(MEASURED):
            for planned, style in styles.items():
                of = found[(found["kind"] == kind) & (found["planned"] == planned)]
                panel.plot(of["claims"], 100 * of[name], style, marker=".", color=f"C{color}")
            panel.plot([], [], color=f"C{color}", label=kind)
        panel.axhline(12 if name == "either" else 6, color="black", linewidth=0.8)
        panel.set(title=title, xlabel="claims", xticks=CLAIMS, ylim=(0, 12.5))
        panel.grid(alpha=0.3)
    for planned, style in styles.items():
        panels[1].plot([], [], style, color="black", label=f"N = {planned}")
    panels[0].set_ylabel("% of families with a false verdict")
    panels[0].legend(frameon=False)
    panels[1].legend(handles=panels[1].lines[-3:], frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    page = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(replace_blocks(page, blocks(DRAWS)), encoding="utf-8")
    draw(DOCUMENT.parent / "false-words.png", DRAWS)
