# From scores to tables, figures and the page.


rule plan:
    output:
        report(
            f"{RESULTS}/plan.json",
            caption="captions/plan.rst",
            category="Suite",
            labels={"content": "plan"},
        ),
    log:
        f"{RESULTS}/logs/plan.log",
    benchmark:
        f"{RESULTS}/benchmarks/plan.tsv"
    # First: `python -m bench status` and `render` read it while runs are made.
    priority: 1000000
    params:
        config=suite_config,
    shell:
        "python -m bench plan --json {params.config:q} --out {output:q} > {log:q} 2>&1"


rule tables:
    input:
        f"{RESULTS}/plan.json",
        outputs_of("score"),
        outputs_of("analyse"),
    output:
        report(
            f"{RESULTS}/tables/sts.csv",
            caption="captions/tables.rst",
            category="Results",
            labels={"content": "STS, table"},
        ),
    log:
        f"{RESULTS}/logs/tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/tables.tsv"
    params:
        suite=suite_folder,
        out=subpath(output[0], parent=True),
    shell:
        "python -m bench tables --suite {params.suite:q} --out {params.out:q} > {log:q} 2>&1"


rule figures:
    input:
        f"{RESULTS}/plan.json",
        outputs_of("score"),
        outputs_of("analyse"),
    output:
        report(
            f"{FIGURES}/leaderboard.png",
            caption="captions/figures.rst",
            category="Results",
            labels={"content": "STS, every seed"},
        ),
    log:
        f"{RESULTS}/logs/figures.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures.tsv"
    params:
        suite=suite_folder,
        out=subpath(output[0], parent=True),
    shell:
        "python -m bench figures --suite {params.suite:q} --out {params.out:q} > {log:q} 2>&1"


rule page:
    input:
        tables=f"{RESULTS}/tables/sts.csv",
        figure=f"{FIGURES}/leaderboard.png",
        compared=compared,
    output:
        report(
            f"{RESULTS}/report/index.html",
            caption="captions/page.rst",
            category="Results",
            labels={"content": "page"},
        ),
    log:
        f"{RESULTS}/logs/page.log",
    benchmark:
        f"{RESULTS}/benchmarks/page.tsv"
    params:
        suite=suite_folder,
        figures=subpath(input.figure, parent=True),
        out=subpath(output[0], parent=True),
    shell:
        "python -m bench page --suite {params.suite:q} --figures {params.figures:q} --out {params.out:q} > {log:q} 2>&1"


rule coverage:
    input:
        f"{RESULTS}/plan.json",
        outputs_of("score"),
        outputs_of("analyse"),
    output:
        report(
            f"{RESULTS}/tables/coverage.md",
            caption="captions/coverage.rst",
            category="Print",
            labels={"content": "coverage"},
        ),
    log:
        f"{RESULTS}/logs/coverage.log",
    benchmark:
        f"{RESULTS}/benchmarks/coverage.tsv"
    params:
        suite=suite_folder,
    shell:
        "python -m bench coverage --suite {params.suite:q} --out {output:q} > {log:q} 2>&1"


rule audit:
    output:
        report(
            f"{RESULTS}/tables/audit.md",
            caption="captions/audit.rst",
            category="Print",
            labels={"content": "audit"},
        ),
    log:
        f"{RESULTS}/logs/audit.log",
    benchmark:
        f"{RESULTS}/benchmarks/audit.tsv"
    shell:
        "python -m bench audit --out {output:q} > {log:q} 2>&1"


if SUITE.compare is not None:

    rule compare:
        input:
            f"{RESULTS}/plan.json",
            outputs_of("score"),
        output:
            table=report(
                f"{RESULTS}/tables/{COMPARISON}.csv",
                caption="captions/compare.rst",
                category="Results",
                labels={"content": "methods against the baseline"},
            ),
            figure=report(
                f"{FIGURES}/{COMPARISON}.png",
                caption="captions/compare.rst",
                category="Results",
                labels={"content": "methods against the baseline, figure"},
            ),
        log:
            f"{RESULTS}/logs/compare.log",
        benchmark:
            f"{RESULTS}/benchmarks/compare.tsv"
        params:
            suite=suite_folder,
            baseline=SUITE.compare.baseline,
            out=subpath(output.table, parent=True),
            figures=subpath(output.figure, parent=True),
        shell:
            "python -m bench compare --suite {params.suite:q} --baseline {params.baseline:q} --out {params.out:q} "
            "--figures {params.figures:q} > {log:q} 2>&1"
