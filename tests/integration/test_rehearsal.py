"""What `make rehearsal` takes for granted, which shows here before a night."""

from tests.rehearsal import CHANGES
from tests.support.programs import ROOT
from tests.support.random_models import MODELS


def test_the_copy_of_the_project_is_changed_where_the_sources_say_so():
    for name, changes in CHANGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert [old for old in changes if text.count(old) != 1] == []


def test_every_model_of_the_paper_suite_has_a_stand_in(paper_runs):
    loaded = {name for run in paper_runs for name in run.hub_models.values()}
    loaded |= {
        run.pretrained.location for run in paper_runs if run.pretrained.kind == "transformer"
    }
    assert loaded == MODELS.keys()
