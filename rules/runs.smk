# Training and scoring are separate rules, so that scoring again does not train again.


rule train:
    input:
        run_inputs,
    output:
        f"{RESULTS}/trained/{{run}}.json",
    log:
        f"{RESULTS}/logs/train/{{run}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/train/{{run}}.tsv"
    # A stopped or killed training resumes (docs/unbreakable.md).
    retries: 3
    threads: run_threads
    resources:
        gpu=1,
    params:
        run=run_arguments,
        suite=suite_folder,
    shell:
        "python -m bench train {params.run:q} --suite {params.suite:q} > {log:q} 2>&1"


rule score:
    input:
        run_inputs,
        trained_encoder,
    output:
        f"{RESULTS}/scores/{{run}}.json",
    log:
        f"{RESULTS}/logs/score/{{run}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/score/{{run}}.tsv"
    resources:
        gpu=1,
    params:
        run=run_arguments,
        suite=suite_folder,
        tasks=run_tasks,
        mode=suites.mode_of(config),
    shell:
        "python -m bench score {params.run:q} --suite {params.suite:q}"
        " --tasks {params.tasks:q} --mode {params.mode:q} > {log:q} 2>&1"


rule analyse:
    input:
        analysis_inputs,
        trained_encoder,
    output:
        f"{RESULTS}/analyses/{{run}}.json",
    log:
        f"{RESULTS}/logs/analyse/{{run}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/analyse/{{run}}.tsv"
    resources:
        gpu=1,
    params:
        run=run_arguments,
        suite=suite_folder,
        analyses=run_analyses,
    shell:
        "python -m bench analyse {params.run:q} --suite {params.suite:q}"
        " --analyses {params.analyses:q} > {log:q} 2>&1"
