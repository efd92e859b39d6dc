"""Addresses name one printed number each, for ever; rows are found by the names of print."""

import shlex

import pytest

from bench.datasets.metrics import PRINTED
from bench.reported import ROW_COLUMNS
from bench.reported.address import address, find_rows, find_table, reproduce_command
from bench.utils.files import sha256_text
from tests.support.printed_numbers import mapped, printed

# SHA-256 of all addresses in the order of print. Links from outside name them, so this changes
# only if numbers are added or their labels corrected.
ADDRESSES = "fa1738f42aeb3ecc2bbd2fdf12947d36f2b12a0a61e630e3b990c37a2ce871e7"


def test_addresses_are_distinct_and_stay():
    addresses = [address(number) for number in printed().itertuples()]
    assert len(set(addresses)) == len(addresses)
    place = "gs-infonce-v2/table-2/gs-infonce/m-3x/bert-base-uncased/avg/test/spearman"
    assert place in addresses
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789./-") for name in addresses)
    assert sha256_text("\n".join(addresses)) == ADDRESSES


def test_the_command_of_a_number_finds_its_row_and_no_other():
    """Every row that has a run; IS-CSE prints a row `DCLR` and a row `+ DCLR`."""
    numbers = mapped()
    for number in (
        numbers[numbers["metric"].isin(PRINTED)].drop_duplicates(ROW_COLUMNS).itertuples()
    ):
        words = shlex.split(reproduce_command(number))
        assert words[:2] == ["sentbench", "reproduce"]
        source, table, _, row, _, backbone = words[2:]
        result = find_rows(source, table, row, backbone)
        assert {own.label for own in result} == {
            tuple(getattr(number, name) for name in ROW_COLUMNS)
        }


@pytest.mark.parametrize(
    ("table", "row", "method"),
    [
        ("Table 1", "DCLR", "DCLR"),
        ("table-1", "+ DCLR", "IS-CSE+DCLR"),
        ("TABLE 1", "dclr (OURS)", "DCLR"),
        ("1", "DCLR", "DCLR"),
        ("Table 4", "is-cse", "IS-CSE"),
    ],
)
def test_rows_by_name(table, row, method):
    result = find_rows("is-cse", find_table("is-cse", table), row)
    assert {number.method for number in result} == {method}
