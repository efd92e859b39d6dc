"""Writing without fsync, for tests that render hundreds of files. Durability is tested in
tests/utils."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def no_fsync() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
