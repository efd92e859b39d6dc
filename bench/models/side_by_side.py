"""Work on several threads of a processor that do not wait for each other.

torch divides each operation among its threads, and all wait for the slowest: if another process
takes one of their cores, every operation takes as long as on that core. Threads with separate
work lose no more than the core that is taken.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event
from typing import TypeVar

import torch

WorkItem = TypeVar("WorkItem")
Result = TypeVar("Result")


def side_by_side(
    work: Callable[[WorkItem, Callable[[], bool]], Result],
    items: Sequence[WorkItem],
    most: int,
    then: Callable[[Result], object] = lambda result: None,
    share: int | None = None,
) -> None:
    """Do work on items, several at once.

    Args:
        work: called with an item, and with a function that says whether to stop early, as after an
            error in another thread. It sees none of the caller's context of torch, such as
            `torch.no_grad`.
        items: begun in this order.
        most: items at once.
        then: called with each result, in the calling thread.
        share: torch's threads of an item; by default the items at work divide all of them.
    """
    threads, stopped = torch.get_num_threads(), Event()
    workers = min(most, threads, len(items))
    share = share or threads // max(1, workers)
    try:
        if workers < 2:
            torch.set_num_threads(share)
            for item in items:
                then(work(item, stopped.is_set))
            return
        with ThreadPoolExecutor(workers, "", torch.set_num_threads, (share,)) as pool:
            try:
                jobs = [pool.submit(work, item, stopped.is_set) for item in items]
                for job in as_completed(jobs):
                    then(job.result())
            finally:  # an interrupt arrives here, in the main thread
                pool.shutdown(wait=False, cancel_futures=True)
                stopped.set()
    finally:
        torch.set_num_threads(threads)
