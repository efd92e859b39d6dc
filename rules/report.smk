# From scores to tables, figures and the page.
from bench.utils.files import sha256_file


def judging_rule(wildcards):
    """A sum of the code that judges and of the printed numbers; when it changes, the suite is judged and rendered again."""
    # Not Snakemake's own folder: the Snakefile of an installed package is in bench/workflow.
    bench = Path(suites.__file__).parents[1]
    patterns = ["judge/*.py", "judged/*.py", "reported/*.*", "results/*.py"]
    patterns += ["runs/plan.py", "datasets/tasks.*", "datasets/metrics.py"]
    files = [path for pattern in patterns for path in bench.glob(pattern)]
    return sha256_text("".join(map(sha256_file, sorted(files))))


def judging_plan(wildcards):
    """A sum of the plan; when it changes, as by stand-ins, a baseline or seeds that were added, the suite is judged again."""
    return sha256_text(GROWN.model_dump_json())


rule render:
    input:
        outputs_of("score"),
        outputs_of("analyse"),
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
        plan=judging_plan,
        rule=judging_rule,
        figures=subpath(output.figure, parent=True),
    shell:
        "python -m bench render {params.suite:q} --figures {params.figures:q} > {log:q} 2>&1"
