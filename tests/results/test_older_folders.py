"""Folders of earlier versions: one sentence says what to run.

Each holds a plan and a file of scores of wiki-mini as the commit in its name wrote them.
"""

from pathlib import Path

import pytest

STORED = Path(__file__).parent / "stored"


@pytest.mark.parametrize(
    ("commit", "told"),
    [
        ("04104866", ["is not a scores file", "move it away and run the suite again"]),
        ("14ecfc7c", ["is not a plan", "sentbench plan FILE.yaml --out", "--lost"]),
    ],
)
def test_an_older_folder_is_one_sentence(commit, told, said):
    out, err = said("show", "--suite", STORED / commit, status=2)
    assert out == ""
    assert err.startswith(f"error: {STORED / commit}")
    assert err.count("\n") == 1
    assert [words for words in told if words not in err] == []
