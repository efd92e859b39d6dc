# Training, scoring and analysing runs. Each stage has rules, so that scoring again does not train again.
#
# A job has `runs_per_job` runs: small runs take less time than starting a process. A run always has the threads of its
# recipe, since sums of floats depend on their number.
for stage, folder in FOLDERS.items():
    for name, ids in JOBS.rules(stage).items():

        rule:
            name:
                name
            input:
                of_job(inputs_of, stage, ids),
            output:
                temporary_if_dropped(stage, expand(f"{folder}/{{run}}.json", run=ids)),
            log:
                f"{RESULTS}/logs/{stage}/{ids[0]}.log",
            priority: of_job(JOBS.priority, stage, ids)
            # A stopped or killed training resumes; one that failed for good is not tried again (docs/how-to/troubleshooting.md).
            retries: 3 if stage == "train" else None
            threads: of_job(JOBS.threads, stage, ids)
            resources:
                gpu=1,
                attempt=lambda wildcards, attempt: attempt,
            params:
                runs=of_job(lambda stage, ids: ids, stage, ids),
                what=of_job(JOBS.content, stage, ids),
                stage=stage,
                suite=suite_folder,
            shell:
                "python -m bench job {params.runs:q} --suite {params.suite:q} --stages {params.stage}"
                " --attempt {resources.attempt} > {log:q} 2>&1"
