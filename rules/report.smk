# From scores to tables, figures and the page.


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
        audit=report(
            f"{RESULTS}/tables/audit.md",
            caption="captions/audit.rst",
            category="Print",
            labels={"content": "audit"},
        ),
    log:
        f"{RESULTS}/logs/render.log",
    params:
        suite=suite_folder,
        figures=subpath(output.figure, parent=True),
        # What the plan has besides its runs: stand-ins, the baseline.
        config=suite_config,
    shell:
        "python -m bench render {params.suite:q} --figures {params.figures:q} > {log:q} 2>&1"
