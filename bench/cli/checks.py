"""Commands that check methods and whole suites."""

from pathlib import Path
from typing import Annotated

from bench.cli.parameters import Suite, arg, command, exactly_one, opt
from bench.utils.errors import UserError
from bench.utils.text import counted


@command()
def reference(
    suite: Suite,
    reference: Annotated[
        Path | None, opt("By default results/reference/<suite>.json.", "FILE.json")
    ] = None,
    check: Annotated[
        bool, opt("Check that the suite is within the reference.", name="--check")
    ] = False,
    arithmetics: Annotated[
        list[Path] | None,
        opt("Update the reference with the suite and these, one per arithmetic.", "FOLDER ..."),
    ] = None,
) -> None:
    """Check a suite against a reference, or update one.

    A reference is a distribution of scores over seeds and processors. An update keeps the runs that
    the reference already has. Exactly one of --check and --arithmetics is needed.
    """
    from bench.checks import regression

    exactly_one(check=check, arithmetics=arithmetics or None)
    if not reference:
        reference = Path("results", "reference", f"{suite.resolve().name}.json")
        if not reference.is_file():
            raise UserError(f"{reference} does not exist; name another file with --reference")
    if not arithmetics:
        print(regression.check(suite, reference))
    else:
        regression.write(suite, arithmetics, reference)


@command("check-method")
def check_method(file: Annotated[Path, arg("A file with methods.", "FILE.py")]) -> int:
    """Check a file of methods against their contract.

    Prints one line per clause. The exit status is 1 if one does not hold.
    """
    from bench.checks.method_contract import check

    faults = check(file)
    print(counted(faults, "fault") if faults else "all hold")
    return int(faults > 0)
