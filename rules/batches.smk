# The rules of runs.smk for several runs per job. Small runs take less time than starting a process.
# The number of concurrent runs is a resource, because changing a resource does not trigger a rerun.
# A job reserves the threads of its concurrent runs; a run always has the threads of its recipe, since
# sums of floats depend on their number. Priorities follow the order of the configuration, trainings before scorings, so
# that no long job is left to the end while other cores are idle.
TOGETHER = config.get("runs_together", 1)

for number, first in enumerate(range(0, len(RUNS), config["runs_per_job"])):
    ids = list(RUNS)[first : first + config["runs_per_job"]]
    trained_ids = [run for run in ids if RUNS[run].trained]
    analysed_ids = [run for run in ids if PLANNED[run].analyses]
    inputs = sorted({path for run in ids for path in inputs_of(run)})

    if trained_ids:

        rule:
            name:
                f"train_{number}"
            input:
                inputs,
            output:
                expand(f"{RESULTS}/trained/{{run}}.json", run=trained_ids),
            log:
                f"{RESULTS}/logs/train/{number}.log",
            benchmark:
                f"{RESULTS}/benchmarks/train/{number}.tsv"
            priority: 2 * len(RUNS) - first
            # A stopped or killed training resumes (docs/unbreakable.md).
            retries: 3
            threads: min(TOGETHER, len(trained_ids)) * max(RUNS[run].recipe.threads for run in trained_ids)
            resources:
                gpu=1,
                together=TOGETHER,
            params:
                plan=plan_part(trained_ids),
                suite=suite_folder,
            shell:
                "python -m bench runs --suite {params.suite:q} --stages train --together {resources.together}"
                " --json {params.plan:q} > {log:q} 2>&1"

    rule:
        name:
            f"score_{number}"
        input:
            inputs,
            expand(f"{RESULTS}/trained/{{run}}.json", run=trained_ids),
        output:
            expand(f"{RESULTS}/scores/{{run}}.json", run=ids),
        log:
            f"{RESULTS}/logs/score/{number}.log",
        benchmark:
            f"{RESULTS}/benchmarks/score/{number}.tsv"
        priority: len(RUNS) - first
        threads: min(TOGETHER, len(ids))
        resources:
            gpu=1,
            together=TOGETHER,
        params:
            plan=plan_part(ids, "tasks"),
            suite=suite_folder,
        shell:
            "python -m bench runs --suite {params.suite:q} --stages score --together {resources.together}"
            " --json {params.plan:q} > {log:q} 2>&1"

    if analysed_ids:

        rule:
            name:
                f"analyse_{number}"
            input:
                sorted(
                    {path for run in analysed_ids for path in analysis_inputs_of(run)}
                ),
                expand(f"{RESULTS}/trained/{{run}}.json", run=trained_ids),
            output:
                expand(f"{RESULTS}/analyses/{{run}}.json", run=analysed_ids),
            log:
                f"{RESULTS}/logs/analyse/{number}.log",
            benchmark:
                f"{RESULTS}/benchmarks/analyse/{number}.tsv"
            priority: len(RUNS) - first
            threads: min(TOGETHER, len(analysed_ids))
            resources:
                gpu=1,
                together=TOGETHER,
            params:
                plan=plan_part(analysed_ids, "analyses"),
                suite=suite_folder,
            shell:
                "python -m bench runs --suite {params.suite:q} --stages analyse --together {resources.together}"
                " --json {params.plan:q} > {log:q} 2>&1"
