"""Work on several threads of a processor that do not wait for each other.

torch divides each operation among its threads, and all wait for the slowest: if another process
takes one of their cores, every operation takes as long as on that core. Threads with work of their
own lose no more than the core that is taken.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    work: Callable[[Item, Callable[[], bool]], Result],
    items: Sequence[Item],
    most: int,
    then: Callable[[Result], object] = lambda result: None,
) -> None:
    """Do work on items, at most `most` at once, which divide torch's threads among them.

    `work` is called with an item, and with a function that says whether to stop early, as after an
    error in another thread; it sees none of the caller's context of torch, such as `torch.no_grad`.
    `then` is called in the calling thread with each result, as soon as it is there.
    """
    threads, stopped = torch.get_num_threads(), Event()
    workers = min(most, threads, len(items))
    if workers < 2:
        for item in items:
            then(work(item, stopped.is_set))
        return
    try:
        with ThreadPoolExecutor(workers, "", torch.set_num_threads, (threads // workers,)) as pool:
            try:
                futures = [pool.submit(work, item, stopped.is_set) for item in items]
                for future in as_completed(futures):
                    then(future.result())
            finally:
                stopped.set()  # an interrupt arrives here, in the main thread
                pool.shutdown(wait=False, cancel_futures=True)
    finally:
        torch.set_num_threads(threads)
