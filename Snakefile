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
        f"{RESULTS}/report/index.html",
        # Without them, what is missing would not be made again as long as the page is newer.
        outputs_of("score"),
        outputs_of("analyse"),


# A job gets the ids of its runs and reads the rest here, and so do `status` and `render` while runs are made. No rule
# writes it: Snakemake would not see that the parameters of a job have changed whose input is written again.
onstart:
    check_start()
    PLAN.write(Path(RESULTS) / "plan.json")
    Thread(target=watch, args=(PLAN, Path(RESULTS)), daemon=True).start()


onsuccess:
    if SUMMARY.is_file():  # not with --until
        print(SUMMARY.read_text(encoding="utf-8"), file=sys.stderr)


# Snakemake calls no `onstart` of a module of another workflow.
if not workflow.modifier.is_main_snakefile():
    PLAN.write(Path(RESULTS) / "plan.json")


onerror:
    if LOG_FILTER.is_interrupted:
        print("interrupted: repeat the command to continue", file=sys.stderr)
    else:
        from bench.report.formats import rendered

        print(
            rendered("status.txt", **vars(status(Path(RESULTS)))), file=sys.stderr
        )
    print(
        f"tables and page of what is there: sentbench render {shlex.quote(RESULTS)}"
        f" --out {shlex.quote(RESULTS)}/partial",
        file=sys.stderr,
    )
