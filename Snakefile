# From text to table. Configuration in, targets out; the rules stand in rules/ by stage.
#
#   snakemake --cores N --resources gpu=8                      the paper suite (config/paper.yaml)
#   snakemake --cores 2 --configfile config/smoke.yaml         any other suite; a configuration is complete, nothing is merged
# Snakemake would lay a --configfile over this one, key by key, and a suite would inherit what it does not name.
if not workflow.overwrite_configfiles:

    configfile: workflow.source_path("config/paper.yaml")


include: "rules/common.smk"
include: "rules/inputs.smk"


if config.get("runs_per_job", 1) == 1:

    include: "rules/runs.smk"

else:

    include: "rules/batches.smk"


include: "rules/report.smk"


rule all:
    default_target: True
    input:
        f"{RESULTS}/tables/sts.csv",
        f"{FIGURES}/leaderboard.png",
        f"{RESULTS}/report/index.html",
        f"{RESULTS}/tables/coverage.md",
        f"{RESULTS}/tables/audit.md",
        compared,
