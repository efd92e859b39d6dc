"""Work on several threads at once.

Mutations caught: items one after another; every thread with all of torch's; torch's threads left
divided; items begun after an error.
"""

import threading
from collections.abc import Callable

import pytest
import torch

from bench.models.side_by_side import side_by_side

pytestmark = pytest.mark.usefixtures("global_state")


@pytest.mark.parametrize(
    ("threads", "items", "most", "at_once"), [(4, 6, 2, 2), (4, 3, 16, 3), (1, 3, 16, 1)]
)
def test_items_at_once_divide_the_threads(
    threads: int, items: int, most: int, at_once: int
) -> None:
    torch.set_num_threads(threads)
    meeting = threading.Barrier(at_once, timeout=60)
    shares, results, callers = set(), list[int](), set()

    def work(item: int, _: Callable[[], bool]) -> int:
        meeting.wait()  # raises where fewer are at work
        shares.add(torch.get_num_threads())
        return item

    def then(result: int) -> None:
        results.append(result)
        callers.add(threading.current_thread())

    side_by_side(work, range(items), most, then)
    assert (shares, sorted(results)) == ({threads // at_once}, [*range(items)])
    assert callers == {threading.current_thread()}
    assert torch.get_num_threads() == threads


def test_an_error_ends_the_others() -> None:
    torch.set_num_threads(2)
    begun: list[int] = []
    results: list[int] = []

    def work(item: int, is_stopped: Callable[[], bool]) -> int:
        begun.append(item)
        if item == 1:
            raise ValueError("this one")
        while not is_stopped():
            pass
        return item

    with pytest.raises(ValueError, match="this one"):
        side_by_side(work, range(1000), 2, results.append)
    assert (len(begun) < 10, results) == (True, [])
    assert torch.get_num_threads() == 2
