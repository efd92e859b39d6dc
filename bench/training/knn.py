"""Exact nearest neighbours by cosine: float64 products of blocks of rows.

The products of 1e5 rows of width 768 take some 11 minutes on two cores of a processor, those of 1e6
rows 100 times as long; a GPU of 67 TFLOPS in float64 (H100) needs at least 23 seconds for these.
"""

import numpy as np
import torch
from torch import Tensor

from bench.utils.errors import UserError
from bench.utils.progress import Progress

QUERIES, KEYS = 1024, 8192  # rows of a block of products: 64 MB
DECIMALS = 12  # equal vectors have equal cosines on every machine (docs/methods.md#sts-scores)


def nearest_rows(vectors: np.ndarray, count: int, device: str = "cpu") -> np.ndarray:
    """Return the `count` nearest other rows of each row by cosine, nearest first: int64 (n, count).

    Cosines are rounded to 1e-12; ties are ordered by row. A row of zeros has cosine 0 with every
    other row.
    """
    n, table = len(vectors), torch.from_numpy(vectors).to(device)
    if not 0 < count < n:
        raise UserError(
            f"{count} neighbours of each of {n} rows are not possible; ask for 1 to {n - 1}"
        )
    lengths = torch.linalg.vector_norm(table, dim=1, keepdim=True, dtype=torch.float64)
    if not lengths.isfinite().all():
        raise UserError("vectors to search are not finite; check whether the training diverged")
    scales = torch.where(lengths > 0, 1 / lengths, 0.0)

    def unit(rows: Tensor) -> Tensor:
        return table[rows].double() * scales[rows]

    rows = torch.arange(n, device=device)
    blocks = []
    with Progress(n, "neighbours", unit="row") as progress:
        for queries in rows.split(QUERIES):
            vectors_of_queries = unit(queries)
            best = scales.new_empty(len(queries), 0)  # cosines in units of 1e-12
            nearest = queries.new_empty(len(queries), 0)
            for keys in rows.split(KEYS):
                cosines = (vectors_of_queries @ unit(keys).T).mul_(10**DECIMALS).round_()
                inside = (queries >= keys[0]) & (queries <= keys[-1])
                cosines[inside, queries[inside] - keys[0]] = -torch.inf  # not its own neighbour
                # `topk` takes any of equal values, so the column tells them apart, lower ones
                # first. This is exact, as 1e12 times 8192 is below 2^53.
                apart = cosines.mul_(KEYS).sub_(torch.arange(len(keys), device=device))
                largest, columns = apart.topk(min(count, len(keys)))
                # The stable sort leaves rows of earlier blocks, the lower ones, first.
                joined = torch.cat([best, (largest / KEYS).ceil()], dim=1)
                best, order = joined.sort(dim=1, descending=True, stable=True)
                nearest = torch.cat([nearest, keys[columns]], dim=1).gather(1, order[:, :count])
                best = best[:, :count]
            blocks.append(nearest)
            progress.advance(len(queries))
    return torch.cat(blocks).cpu().numpy()
