"""Reports that were read and found right (`tests/report/rendered`)."""

from pathlib import Path

RENDERED = Path(__file__).parents[1] / "report" / "rendered"


def assert_as_read(path: Path, name: str) -> None:
    """After a change that is meant, copy what the failure names."""
    text = path.read_text(encoding="utf-8")
    assert text == (RENDERED / name).read_text(encoding="utf-8"), f"written to {path}"
