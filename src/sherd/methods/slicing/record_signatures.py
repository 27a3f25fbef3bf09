"""The records' signatures, laid out for the check of ``incremental``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.slicing.attribute_codes import combined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.methods.slicing.sensitive_values import Sensitive

Codes = tuple["NDArray[np.int32]", int]
"""One code for every row, and how many codes there are."""


@dataclass(frozen=True, kw_only=True)
class RowSignatures:
    """Distinct signatures of a table's rows; see ``incremental`` for the meaning of each part."""

    of_row: NDArray[np.int32]
    parts: NDArray[np.int32]
    n_plus: int
    n_values: int
    heads: NDArray[np.int64]
    members: NDArray[np.int32]
    pair_of: NDArray[np.int64]
    n_pairs: int
    blocks: NDArray[np.int64]
    power: float


def signatures(
    columns: Sequence[Codes],
    separators: Sequence[Codes | None],
    q: Codes,
    sensitive: Sensitive,
    pairs: Sequence[NDArray[np.int32]],
    n_pairs: int,
    *,
    beta: float,
) -> RowSignatures:
    """The signatures of all rows.

    ``columns`` are those without the sensitive one; ``separators`` has one entry for every
    column, the sensitive one last, None where it shares nothing with earlier columns.
    """
    shared = [codes for codes in separators if codes is not None]
    placed: list[NDArray[np.int64]] = []
    total = 0
    for codes, size in [*columns, *shared, q]:
        placed.append(codes.astype(np.int64) + total)
        total += size
    ordered = [*placed[: len(columns)], placed[-1], *placed[len(columns) : -1]]
    of_row, count = combined(
        [codes for codes, _ in [*columns, q]], [size for _, size in [*columns, q]]
    )
    first = np.zeros(count, dtype=np.int64)
    first[of_row] = np.arange(len(of_row))
    parts = np.column_stack([codes[first] for codes in ordered]).astype(np.int32)
    n_plus = len(columns) + 1
    flat = parts[:, :n_plus].ravel()
    heads = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=total))])
    members = (np.argsort(flat, kind="stable") // n_plus).astype(np.int32)
    blocks = np.concatenate([[0], np.cumsum(sensitive.sizes)]).astype(np.int64)
    pair_of = np.full((q[1], int(blocks[-1])), -1, dtype=np.int64)
    for place, pair in enumerate(pairs):
        pair_of[q[0], blocks[place] + sensitive.codes[:, place]] = pair
    return RowSignatures(
        of_row=of_row,
        parts=parts,
        n_plus=n_plus,
        n_values=total,
        heads=heads.astype(np.int64),
        members=members,
        pair_of=pair_of,
        n_pairs=n_pairs,
        blocks=blocks,
        power=beta - sum(codes is None for codes in separators),
    )
