"""Work on several threads at once.

Mutations caught: items one after another; every thread with all of torch's; torch's threads left
divided; items begun after an error.
"""

import threading

import pytest
import torch

from bench.models.side_by_side import side_by_side

pytestmark = pytest.mark.usefixtures("global_state")


@pytest.mark.parametrize(
    ("threads", "items", "most", "at_once"), [(4, 6, 2, 2), (4, 3, 16, 3), (1, 3, 16, 1)]
)
def test_items_at_once_divide_the_threads(threads, items, most, at_once):
    torch.set_num_threads(threads)
    meeting, shares, results = threading.Barrier(at_once, timeout=60), set(), []

    def work(item, _):
        meeting.wait()  # raises where fewer are at work
        shares.add(torch.get_num_threads())
        return item

    def then(result):
        results.append((result, threading.current_thread()))

    side_by_side(work, range(items), most, then)
    assert shares == {threads // at_once}
    assert sorted(item for item, _ in results) == [*range(items)]
    assert {thread for _, thread in results} == {threading.current_thread()}
    assert torch.get_num_threads() == threads
