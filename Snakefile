# The workflow, from text to tables. The configuration defines the targets; the rules are in rules/.
#
#   snakemake --cores N --resources gpu=8                      the paper suite (config/paper.yaml)
#   snakemake --cores 2 --configfile config/smoke.yaml         any other suite; configurations are complete
# Snakemake would merge a --configfile into this one key by key, so that a suite would inherit the keys it omits.
if not workflow.overwrite_configfiles:

    configfile: workflow.source_path("config/paper.yaml")


include: "rules/common.smk"


if CONTAINED:

    container: IMAGE


include: "rules/inputs.smk"
include: "rules/runs.smk"
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


onerror:
    print(
        f"failed runs, with their errors:   python -m bench status --suite {shlex.quote(RESULTS)}\n"
        f"tables and page of what is there: python -m bench render {shlex.quote(RESULTS)}"
        f" --out {shlex.quote(RESULTS)}/partial",
        file=sys.stderr,
    )
