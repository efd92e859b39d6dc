"""Exact nearest neighbours of many vectors by cosine.

Blockwise products of unit vectors in float32 give a few more candidates than requested. Their
cosines are then computed in float64, which determines the result. If the largest possible float32
error leaves open whether another row is nearer, the row is searched again in float64.

Unit vectors are centred first. Those of an untrained backbone lie in a narrow cone (RoBERTa's
cosines are near 1), which float32 resolves poorly. With u = c + m and m the mean,
u_i u_j = c_i c_j + m c_j + a constant of row i.

Memory in addition to the vectors and the result: one float32 copy of the vectors, 20 bytes per
row, and about 0.4 GB. Vectors and result, too, are held on the device.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from bench.models.float32 import float32_products
from bench.utils.errors import UserError
from bench.utils.progress import Progress

QUERIES, KEYS = 512, 16_384  # rows of a block of products: 32 MB in float32
SPARE = 16  # candidates in addition to those requested
PAIRS = 1024  # candidates whose vectors are read together
DECIMALS = 12  # equal vectors have equal cosines on every machine (docs/methods.md#sts-scores)
UNIT = 2.0**-24  # relative error of one float32 operation; TF32 would have 2.0**-11


@float32_products("ieee")
def nearest_rows(vectors: np.ndarray, count: int, device: str = "cpu") -> np.ndarray:
    """Return the `count` nearest other rows of each row by cosine, nearest first: int64 (n, count).

    Cosines are computed in float64 and rounded to 1e-12; ties are ordered by row. A row of zeros
    has cosine 0 with every other row. Vectors (n, d) are of any float type, or a `numpy.memmap`.

    Raises:
        UserError: `count` is out of range, or a vector is not finite.
    """
    rows = len(vectors)
    if not 0 < count < rows:
        raise UserError(
            f"{count} neighbours of each of {rows} rows are not possible; ask for 1 to {rows - 1}"
        )
    table = _Table(vectors, device)
    neighbours = torch.empty(rows, count, dtype=torch.int64, device=device)
    is_certain = torch.empty(rows, dtype=torch.bool, device=device)
    with Progress(rows, "neighbours", unit="row") as progress:
        for queries in torch.arange(rows, device=device).split(QUERIES):
            neighbours[queries], is_certain[queries] = table.search(queries, count)
            progress.advance(len(queries))
    rest = (~is_certain).nonzero().squeeze(1)
    if len(rest):
        with Progress(len(rest), "neighbours too close for float32", unit="row") as progress:
            for queries in rest.split(QUERIES // 4):
                neighbours[queries] = table.search_in_float64(queries, count)
                progress.advance(len(queries))
    return neighbours.cpu().numpy()


class _Table:
    """The rows to search: 1 / length of each (`scale`, 0 for a row of zeros) and m (`mean`) in
    float64, c_j (`centred`) and m c_j (`bias`) in float32."""

    def __init__(self, vectors: np.ndarray, device: str) -> None:
        rows, width = vectors.shape
        with warnings.catch_warnings():  # an array may be read-only, and the table only reads it
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            self.vectors, self.device = torch.from_numpy(vectors).to(device), device
        self.scale = torch.ones(rows, 1, dtype=torch.float64, device=device)
        self.mean = torch.zeros(width, dtype=torch.float64, device=device)
        self.centred = torch.empty(rows, width, device=device)
        self.bias = torch.empty(rows, device=device)
        blocks = [slice(start, min(start + KEYS, rows)) for start in range(0, rows, KEYS)]
        for block in blocks:
            lengths = self.unit(block).norm(dim=1, keepdim=True)
            if not lengths.isfinite().all():
                row = block.start + int((~lengths.isfinite()).flatten().nonzero()[0])
                raise UserError(
                    f"row {row} of the vectors is not finite, so it has no neighbours; "
                    "check whether the training diverged"
                )
            self.scale[block] = torch.where(lengths > 0, 1 / lengths, 0.0)
            self.mean += self.unit(block).sum(0) / rows
        for block in blocks:
            centred = self.unit(block) - self.mean
            self.centred[block] = centred.float()
            self.bias[block] = (centred @ self.mean).float()
        self.blocks = blocks
        self.lengths = self.centred.norm(dim=1)

    def read(self, rows: slice | Tensor) -> Tensor:
        """Return some of the given vectors, float64 (..., d)."""
        return self.vectors[rows].double()

    def unit(self, rows: slice | Tensor) -> Tensor:
        """Return unit vectors of some rows, float64 (n, d)."""
        return self.read(rows) * self.scale[rows]

    def search(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return the nearest rows of each query, and for which queries the result is certain."""
        others = len(self.scale) - 1
        wanted = min(count + SPARE, others)
        scores, rows = self.bias.new_empty(len(queries), 0), queries.new_empty(len(queries), 0)
        for block in self.blocks:
            products = torch.addmm(self.bias[block], self.centred[queries], self.centred[block].T)
            _set_own(products, queries, block)
            best = products.topk(min(wanted, products.shape[1]))
            scores = torch.cat([scores, best.values], dim=1)
            rows = torch.cat([rows, best.indices + block.start], dim=1)
            if scores.shape[1] > wanted:
                scores, place = scores.topk(wanted)
                rows = rows.gather(1, place)

        rows = rows.sort(dim=1).values  # ties are ordered by row
        own, at_once = self.unit(queries), max(1, PAIRS // wanted)
        pieces = [
            torch.einsum("qd,qkd->qk", mine, self.read(theirs))
            for mine, theirs in zip(own.split(at_once), rows.split(at_once), strict=True)
        ]
        cosines, rows = _nearest_first(torch.cat(pieces) * self.scale[rows].squeeze(2), rows, count)
        # A row outside the candidates scores at most as much as the last of them, plus the error of
        # d products and sums.
        size = self.lengths[queries] * self.lengths.max() + self.bias.abs().max()
        error = (self.centred.shape[1] + 4) * UNIT * size
        reach = scores[:, -1].double() + error + own @ self.mean + 10.0**-DECIMALS
        return rows, (cosines[:, -1] > reach) | (wanted == others)

    def search_in_float64(self, queries: Tensor, count: int) -> Tensor:
        """Return the nearest rows of each query, computed in float64 only."""
        own = self.unit(queries)
        cosines, rows = own.new_empty(len(queries), 0), queries.new_empty(len(queries), 0)
        for block in self.blocks:
            products = own @ self.unit(block).T
            _set_own(products, queries, block)
            indices = torch.arange(block.start, block.stop, device=self.device)
            indices = indices.expand(len(queries), -1)
            joined = torch.cat([cosines, products], dim=1), torch.cat([rows, indices], dim=1)
            cosines, rows = _nearest_first(*joined, count)
        return rows


def _set_own(products: Tensor, queries: Tensor, block: slice) -> None:
    """Exclude each query from its own neighbours."""
    inside = (queries >= block.start) & (queries < block.stop)
    products[inside, queries[inside] - block.start] = -torch.inf


def _nearest_first(cosines: Tensor, rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest cosines and their rows; ties keep the given order."""
    cosines, order = cosines.round(decimals=DECIMALS).sort(dim=1, descending=True, stable=True)
    return cosines[:, :count], rows.gather(1, order[:, :count])
