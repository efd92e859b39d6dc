"""Where messages say that a document is."""

from email.message import Message
from types import SimpleNamespace

import pytest

from bench.utils import documents
from bench.utils.documents import document
from tests.support.programs import ROOT


@pytest.fixture(autouse=True)
def nothing_known():
    documents.address.cache_clear()
    yield
    documents.address.cache_clear()


def test_without_a_site_it_is_a_file_of_the_package():
    assert (ROOT / document("reference/rule")).is_file()


def test_with_a_site_it_is_a_link(monkeypatch):
    metadata = Message()
    metadata["Project-URL"] = "Documentation, https://example.org/site/"
    found = [SimpleNamespace(metadata=metadata)]
    monkeypatch.setattr(documents, "distributions", lambda name: found)
    link = "https://example.org/site/reference/rule.html#claims"
    assert document("reference/rule", "claims") == link
