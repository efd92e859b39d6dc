"""Work on several threads at once."""

import threading

import pytest
import torch

from bench.models.side_by_side import side_by_side


@pytest.mark.usefixtures("global_state")
def test_items_are_worked_on_at_once():
    """And the threads are torch's again."""
    torch.set_num_threads(4)
    meeting, results = threading.Barrier(2, timeout=60), []

    def work(item, _):
        meeting.wait()  # raises where fewer are at work
        return item

    side_by_side(work, range(6), 2, results.append)
    assert sorted(results) == [*range(6)]
    assert torch.get_num_threads() == 4
