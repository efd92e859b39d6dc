# Inputs of training and scoring: data, corpora, backbones.
# The small files in inputs/ state that an input exists and is verified, with its identity.


# Cluster nodes often have no network, so downloads run where Snakemake runs.
localrules:
    data,
    corpus,
    backbone,


rule data:
    output:
        f"{RESULTS}/inputs/data.json",
    log:
        f"{RESULTS}/logs/data.log",
    params:
        name=data_name,
        files=own_data_sums,
        tasks=probing_tasks,
        suite=suite_folder,
    shell:
        "python -m bench fetch data {params.name:q} --tasks {params.tasks:q}"
        " --suite {params.suite:q} --out {output:q} > {log:q} 2>&1"


rule corpus:
    output:
        f"{RESULTS}/inputs/corpus-{{corpus}}.json",
    log:
        f"{RESULTS}/logs/corpus-{{corpus}}.log",
    params:
        name=corpus_name,
        file=own_corpus_sum,
        data=data_name,
        suite=suite_folder,
    shell:
        "python -m bench fetch corpus {params.name:q} --data {params.data:q}"
        " --suite {params.suite:q} --out {output:q} > {log:q} 2>&1"


rule backbone:
    output:
        f"{RESULTS}/inputs/backbone-{{backbone}}.json",
    log:
        f"{RESULTS}/logs/backbone-{{backbone}}.log",
    params:
        name=backbone_reference,
        suite=suite_folder,
    shell:
        "python -m bench fetch backbone {params.name:q} --suite {params.suite:q} --out {output:q} > {log:q} 2>&1"
