# From scores to rows, and from rows to tables, figures and the page.
from bench.judged.store import FILE, rule_sum

JUDGED = f"{RESULTS}/{FILE}"


def judging_rule(wildcards):
    """Sums of the rule and of the printed numbers; when they change, the suite is judged again."""
    return rule_sum()


def judging_plan(wildcards):
    """A sum of the plan; when it changes, as by stand-ins, a baseline or seeds that were added, the suite is judged again."""
    return sha256_text(GROWN.model_dump_json())


rule judge:
    input:
        outputs_of("score"),
        outputs_of("analyse"),
    output:
        JUDGED,
    log:
        f"{RESULTS}/logs/judge.log",
    params:
        suite=suite_folder,
        plan=judging_plan,
        rule=judging_rule,
    shell:
        "python -m bench judge {params.suite:q} > {log:q} 2>&1"


rule render:
    input:
        JUDGED,
    output:
        page=report(
            f"{RESULTS}/report/index.html",
            caption="captions/page.rst",
            category="Results",
            labels={"content": "page"},
        ),
        table=report(
            f"{RESULTS}/tables/sts.csv",
            caption="captions/tables.rst",
            category="Results",
            labels={"content": "STS, table"},
        ),
        figure=report(
            f"{FIGURES}/leaderboard.png",
            caption="captions/figures.rst",
            category="Results",
            labels={"content": "STS, every seed"},
        ),
        coverage=report(
            f"{RESULTS}/tables/coverage.md",
            caption="captions/coverage.rst",
            category="Print",
            labels={"content": "coverage"},
        ),
    log:
        f"{RESULTS}/logs/render.log",
    params:
        suite=suite_folder,
        figures=subpath(output.figure, parent=True),
    shell:
        "python -m bench render {params.suite:q} --figures {params.figures:q} > {log:q} 2>&1"
