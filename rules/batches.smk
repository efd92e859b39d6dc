# The rules of runs.smk for several runs at once: where runs are small, starting a process costs more than its work.
# How many run at once is a resource, since a changed one is no reason to run anything again. A job has the threads of as
# many runs, which share them: sums of floats depend on threads. What stands first in the configuration goes first, and
# trainings before scorings, which nothing else waits for: else a long job may be the last one, with the other cores idle.
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
            # Stopped or killed, a training goes on where it was (docs/unbreakable.md).
            retries: 3
            threads: min(TOGETHER, len(trained_ids)) * max(RUNS[run].recipe.threads for run in trained_ids)
            resources:
                gpu=1,
                together=TOGETHER,
            params:
                plan=told(trained_ids),
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
            plan=told(ids, "tasks"),
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
                plan=told(analysed_ids, "analyses"),
                suite=suite_folder,
            shell:
                "python -m bench runs --suite {params.suite:q} --stages analyse --together {resources.together}"
                " --json {params.plan:q} > {log:q} 2>&1"
