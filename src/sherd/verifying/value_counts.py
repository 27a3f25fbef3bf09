"""How many different values a column has, and how often the rarest occurs, in bounded memory.

Values are counted by keys of 64 bits: of numbers and times their own bits, of texts a hash. Where
there are more than fit, only the keys whose hash begins as those of the part at hand are counted,
and the column is read again for the next part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Keys = NDArray[np.int64]

ROOM = 1 << 21
"""Values that are counted at a time."""

_MOST_PARTS = 1 << 14
"""Beyond which a column has more values than a release can have."""


@dataclass(frozen=True, kw_only=True)
class Occurrences:
    """Different values, and how often the rarest of them occurs."""

    distinct: int
    least: int


class _Tally:
    """Keys in ascending order, and how often each was seen."""

    def __init__(self) -> None:
        self.keys: Keys = np.empty(0, np.int64)
        self.times: Keys = np.empty(0, np.int64)

    def add(self, keys: Keys, times: Keys) -> None:
        at = np.searchsorted(self.keys, keys)
        known = np.zeros(len(keys), np.bool_)
        inside = at < len(self.keys)
        known[inside] = self.keys[at[inside]] == keys[inside]
        self.times[at[known]] += times[known]
        new = ~known
        self.keys = np.insert(self.keys, at[new], keys[new])
        self.times = np.insert(self.times, at[new], times[new])

    def keep(self, kept: NDArray[np.bool_]) -> None:
        self.keys, self.times = self.keys[kept], self.times[kept]


def count_values(column: Callable[[], Iterator[pa.ChunkedArray]], most: int) -> Occurrences:
    """The different values of a column, missing cells aside, and the rarest one's count.

    ``column`` gives its pieces, each time it is called. Counting ends early where there turn out
    to be more than ``most`` and not all of them fit.
    """
    bits, part = 0, 0
    distinct, least = 0, np.iinfo(np.int64).max
    while part < 1 << bits:
        tally = _Tally()
        for piece in column():
            keys, times = _keys(piece)
            if bits:
                inside = _parts(keys, bits) == part
                keys, times = keys[inside], times[inside]
            tally.add(keys, times)
            while len(tally.keys) > ROOM:
                if distinct + len(tally.keys) > most or 1 << bits >= _MOST_PARTS:
                    return Occurrences(distinct=distinct + len(tally.keys), least=0)
                bits, part = bits + 1, part * 2
                tally.keep(_parts(tally.keys, bits) == part)
        distinct += len(tally.keys)
        least = min(least, int(tally.times.min(initial=least)))
        part += 1
    return Occurrences(distinct=distinct, least=least if distinct else 0)


def _parts(keys: Keys, bits: int) -> NDArray[np.uint64]:
    """The first bits of the keys' hashes, by the last steps of MurmurHash."""
    mixed = keys.view(np.uint64).copy()
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xC4CEB9FE1A85EC53)
    mixed ^= mixed >> np.uint64(33)
    return mixed >> np.uint64(64 - bits)


def _keys(piece: pa.ChunkedArray) -> tuple[Keys, Keys]:
    """The different keys of a piece, ascending, and how often each occurs."""
    present = piece.drop_null().combine_chunks()
    kind, test = present.type, pa.types
    if test.is_float64(kind):
        cells: Any = present.to_numpy().view(np.int64)
    elif test.is_date32(kind):
        cells = present.cast(pa.int32()).to_numpy().astype(np.int64)
    elif test.is_int64(kind) or test.is_timestamp(kind):
        cells = present.cast(pa.int64()).to_numpy()
    else:
        counted = pc.value_counts(present.cast(pa.string()))
        hashes = [hash(value) for value in counted.field("values").to_pylist()]
        keys = np.array(hashes, np.int64)
        order = np.argsort(keys)
        return keys[order], counted.field("counts").to_numpy()[order]
    keys, times = np.unique(cells, return_counts=True)
    return keys, times
