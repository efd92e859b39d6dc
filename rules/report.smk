# From scores to what people look at.


rule plan:
    output:
        f"{RESULTS}/plan.json",
    log:
        f"{RESULTS}/logs/plan.log",
    benchmark:
        f"{RESULTS}/benchmarks/plan.tsv"
    params:
        config=suite_config,
    shell:
        "python -m bench plan --json {params.config:q} --out {output:q} > {log:q} 2>&1"


rule tables:
    input:
        f"{RESULTS}/plan.json",
        all_scores,
    output:
        f"{RESULTS}/tables/sts.csv",
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
        all_scores,
    output:
        f"{FIGURES}/leaderboard.png",
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
    output:
        f"{RESULTS}/report/index.html",
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
