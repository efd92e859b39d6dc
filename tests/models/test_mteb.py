"""A trained encoder in mteb, as docs/how-to/encoders.md shows it."""

import re

import pytest

from bench.models.load import load_encoder, save_encoder
from tests.support.programs import ROOT

DOCUMENT = (ROOT / "docs" / "how-to" / "encoders.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_run_is_scored_by_mteb(tiny_bert, tmp_path, monkeypatch):
    """On a task of mteb's that needs no download."""
    from mteb.mocks.mock_tasks import MockSTSTask

    monkeypatch.chdir(tmp_path)
    run = "results/mine/runs/<run>/encoder"
    save_encoder(load_encoder(tiny_bert, pooler="avg"), tmp_path / run)
    section = DOCUMENT.partition("## A run's folder in other libraries")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    task = 'mteb.get_tasks(tasks=["NFCorpus"])'
    exec("\n".join(blocks).replace(task, "[task]"), {"task": MockSTSTask()})
    assert [*(tmp_path / "mteb-results").rglob("MockSTSTask.json")]
