"""``Randomness``: where random numbers come from, and what can be drawn from it.

>>> source = Randomness.seeded(7)
>>> source.is_seeded, len(source.words(3))
(True, 3)
>>> int(source.discrete_laplace(0, 1, size=4).sum())
0
"""

from __future__ import annotations

import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from sherd.errors import PlanError
from sherd.randomness import exponential, order, vetted
from sherd.randomness.exponential import multiply
from sherd.randomness.key_stream import KeyStream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Engine = Literal["auto", "opendp", "vector"]

FEW = 200
"""Draws of one scale up to which OpenDP's sampler is worth its import."""

FEW_IMPORTED = 1000
"""Draws of one scale up to which OpenDP's sampler is used once it is imported."""


class Randomness:
    """A source of random numbers: the operating system's, a secret key's, or seeded for tests.

    Made by ``from_system``, ``keyed`` or ``seeded``. Safe to share between threads; which
    thread gets which numbers of a seeded or keyed source then depends on scheduling, so give
    each its own child (``spawn``) where a result must come out the same again.
    """

    __slots__ = ("_generator", "_lock", "_seeds")

    def __init__(self, seeds: np.random.SeedSequence | KeyStream | None) -> None:
        self._seeds = seeds
        self._generator: np.random.Philox | KeyStream | None
        if isinstance(seeds, np.random.SeedSequence):
            self._generator = np.random.Philox(seeds)
        else:
            self._generator = seeds
        self._lock = threading.Lock()

    @classmethod
    def from_system(cls) -> Randomness:
        """The operating system's entropy, the only source a release may use."""
        return cls(None)

    @classmethod
    def seeded(cls, seed: int) -> Randomness:
        """A reproducible stream for tests; what is made with it carries no guarantee."""
        if seed < 0:
            raise PlanError("the seed is negative", must="a whole number from 0", got=str(seed))
        return cls(np.random.SeedSequence(seed))

    @classmethod
    def keyed(cls, key: bytes) -> Randomness:
        """The stream of a secret key of 32 bytes: who holds it gets the same numbers.

        To everybody else they are as good as the operating system's (ADR 0014), so a release
        made with a key that is used for nothing else, and kept, carries its guarantee.
        """
        return cls(KeyStream(key))

    @property
    def is_seeded(self) -> bool:
        """Whether anybody can draw the numbers again, so that they protect nothing."""
        return isinstance(self._seeds, np.random.SeedSequence)

    @property
    def is_keyed(self) -> bool:
        """Whether the numbers are those of a secret key."""
        return isinstance(self._seeds, KeyStream)

    def spawn(self, n: int) -> list[Randomness]:
        """Make n independent children: give each task its own, whichever thread runs it."""
        if self._seeds is None:
            return [Randomness(None) for _ in range(n)]
        with self._lock:
            return [Randomness(child) for child in self._seeds.spawn(n)]

    def words(self, n: int, threads: int = 1) -> NDArray[np.uint64]:
        """Draw n words of 64 random bits; the system's come on several threads if asked."""
        if self._generator is None:
            return _system_words(n, threads)
        with self._lock:
            return np.asarray(self._generator.random_raw(n), dtype=np.uint64)

    def below(self, bound: NDArray[np.uint64] | int, size: int | None = None) -> NDArray[np.uint64]:
        """Whole numbers uniform on 0 … bound − 1, exactly; a bound is from 1 to 2^63.

        Lemire's (2019) rejection: of the 2^64 words, those whose product with the bound
        has a low word under 2^64 mod bound are drawn again; of the rest, equally many have
        each high word.
        """
        if isinstance(bound, int):
            _require(1 <= bound <= 2**63, "a bound does not fit", "from 1 to 2**63", str(bound))
        limit = np.asarray(bound, dtype=np.uint64)
        n = _length(limit, size)
        limit = np.broadcast_to(limit, (n,))
        _require(
            n == 0 or bool(limit.min() >= 1 and limit.max() <= np.uint64(2**63)),
            "a bound does not fit",
            "from 1 to 2**63",
        )
        result, low = multiply(self.words(n), limit)
        doubtful = np.flatnonzero(low < limit)
        while doubtful.size:
            part = limit[doubtful]
            refused = low[doubtful] < (~part + np.uint64(1)) % part
            doubtful = doubtful[refused]
            high, low_again = multiply(self.words(doubtful.size), limit[doubtful])
            result[doubtful], low[doubtful] = high, low_again
        return result

    def permutation(self, n: int) -> NDArray[np.int64]:
        """A permutation of 0 … n − 1, every one equally likely."""
        _require(n >= 0, "the length of a permutation is negative", "from 0", str(n))
        return order.permutation(self.words, n)

    def shuffle(self, n: int, threads: int = 1) -> NDArray[np.uint32]:
        """A permutation as by ``permutation``, in half the memory, on several threads."""
        _require(
            0 <= n < 2**32, "the length of a shuffle does not fit", "from 0 to 2**32 - 1", str(n)
        )
        return order.shuffle(lambda count: self.words(count, threads), n, threads)

    def permutation_within(self, group_of_row: NDArray[np.int64]) -> NDArray[np.int64]:
        """A permutation that moves rows inside their group only, uniform in each group.

        Independent between groups; rows of a group need not be neighbours.
        """
        return order.permutation_within(self.words, np.asarray(group_of_row, dtype=np.int64))

    def bernoulli_exp(
        self, numerator: NDArray[np.int64] | int, denominator: int, size: int | None = None
    ) -> NDArray[np.bool_]:
        """True with probability exp(−numerator/denominator), exactly.

        That is the chance of E ≥ numerator/denominator for a standard exponential E, so of
        floor(E·denominator) ≥ numerator. Limits: numerators below 2^63, the denominator at
        most 2^56.
        """
        if isinstance(numerator, int):
            fits = 0 <= numerator < 2**63
            _require(fits, "a numerator does not fit", "from 0 to 2**63 - 1", str(numerator))
        wanted = _whole(np.asarray(numerator)).astype(np.int64)
        n = _length(wanted, size)
        _require(n == 0 or wanted.min() >= 0, "a probability exceeds 1", "a numerator from 0")
        _require(
            1 <= denominator <= exponential.MOST_NUMERATOR,
            "the denominator does not fit",
            "from 1 to 2**56",
            str(denominator),
        )
        floors = exponential.draw(self.words, denominator, 1, n, signed=False)
        return np.asarray(floors >= wanted, dtype=np.bool_)

    def geometric(
        self, numerator: NDArray[np.int64] | int, denominator: int, size: int | None = None
    ) -> NDArray[np.int64]:
        """The one-sided discrete Laplace: P(x) proportional to exp(−x·denominator/numerator).

        x is 0, 1, 2, …; limits and the meaning of 0 as for ``discrete_laplace``.
        """
        t, s, n = _scale(numerator, denominator, size)
        return exponential.draw(self.words, t, s, n, signed=False)

    def discrete_laplace(
        self,
        numerator: NDArray[np.int64] | int,
        denominator: int,
        size: int | None = None,
        *,
        engine: Engine = "auto",
    ) -> NDArray[np.int64]:
        """Noise of scale numerator/denominator: P(x) ∝ exp(−|x|·denominator/numerator).

        Numerators may differ by element; a numerator of 0 gives 0. After division by what
        all of them and the denominator have in common, numerators are at most 2^56 and the
        denominator below 2^63, else PlanError. A draw is below 128 scales in absolute value
        (what would exceed that, with probability exp(−128) < 10^−55, is cut off there), so
        it never wraps; where the scale is at most 2^55 it is below 2^62, and adding it to a
        value below 2^62 cannot wrap either. OpenDP's draws are cut off at 64 bits.

        ``engine="vector"`` is the exact sampler of ``exponential``. ``engine="opendp"`` is
        OpenDP's, one scale at a time, whose scale is a float: the wanted one, or the next
        float above it. Its code is vetted by more people, but a draw costs microseconds and
        its import a third of a second. ``auto`` takes OpenDP's for a single scale (not 0,
        given once or the same for all) and up to ``FEW`` draws (``FEW_IMPORTED`` once it is
        imported), and the vector elsewhere. A seeded or keyed source cannot steer OpenDP and
        always uses the vector.
        """
        _require(
            engine in ("auto", "opendp", "vector"),
            "the engine is unknown",
            "'auto', 'opendp' or 'vector'",
            repr(engine),
        )
        _require(
            engine != "opendp" or self._seeds is None,
            "a seeded or keyed source cannot steer OpenDP's sampler",
            "engine='vector' or 'auto'",
        )
        t, s, n = _scale(numerator, denominator, size)
        if engine == "auto":
            few = FEW_IMPORTED if vetted.imported() else FEW
            single = isinstance(t, int) and t > 0 and self._seeds is None
            engine = "opendp" if single and 0 < n <= few else "vector"
        if engine == "vector":
            return exponential.draw(self.words, t, s, n, signed=True)
        if isinstance(t, int):
            return vetted.discrete_laplace(Fraction(t, s), n)
        result = np.zeros(n, dtype=np.int64)
        for one in np.unique(t):
            rows = np.flatnonzero(t == one)
            result[rows] = vetted.discrete_laplace(Fraction(int(one), s), rows.size)
        return result


_CHUNK = 1 << 16


def _system_words(n: int, threads: int) -> NDArray[np.uint64]:
    """Words from the operating system, whose generator is the slow part of a shuffle."""
    out = np.empty(n, np.uint64)

    def fill(start: int) -> None:
        part = out[start : start + _CHUNK]
        part[:] = np.frombuffer(os.urandom(8 * len(part)), np.uint64)

    starts = range(0, n, _CHUNK)
    if threads == 1 or len(starts) == 1:
        for start in starts:
            fill(start)
    else:
        with ThreadPoolExecutor(max_workers=threads) as pool:
            list(pool.map(fill, starts))
    return out


def _require(holds: bool, what: str, must: str, got: str | None = None) -> None:
    if not holds:
        raise PlanError(what, must=must, got=got)


def _whole(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The array, if it holds whole numbers: a fraction must not be rounded on the way."""
    _require(values.dtype.kind in "iu", "numerators are not whole", "integers", str(values.dtype))
    return values


def _length(values: NDArray[np.uint64] | NDArray[np.int64], size: int | None) -> int:
    """How many draws are asked for by an array, a size, or both."""
    if values.ndim == 0:
        _require(size is None or size >= 0, "the size is negative", "from 0", str(size))
        return 1 if size is None else size
    _require(values.ndim == 1, "an argument has the wrong shape", "one number or a flat array")
    _require(size in (None, values.size), "size and array differ", str(values.size), str(size))
    return int(values.size)


def _scale(
    numerator: NDArray[np.int64] | int, denominator: int, size: int | None
) -> tuple[NDArray[np.uint64] | int, int, int]:
    """The scale in lowest terms, one number where all are equal, and the number of draws."""
    denominator = int(denominator)
    _require(denominator >= 1, "the denominator is too small", "from 1", str(denominator))
    if isinstance(numerator, (int, np.integer)):
        smallest = largest = common = int(numerator)
        n = _length(np.zeros((), dtype=np.int64), size)
    else:
        n = _length(_whole(numerator), size)
        smallest, largest = (int(numerator.min()), int(numerator.max())) if n else (0, 0)
        common = int(np.gcd.reduce(numerator)) if n else 0
    common = math.gcd(common, denominator)
    _require(smallest >= 0, "a scale is negative", "a numerator from 0")
    largest, denominator = largest // common, denominator // common
    # A scale may come from the data, so the message names the limit and not the number.
    if largest > exponential.MOST_NUMERATOR or denominator > exponential.MOST_DENOMINATOR:
        raise PlanError(
            "the noise scale is not valid",
            must="a fraction with numerator at most 2**56 and denominator below 2**63",
            do="round the scale up to such a fraction",
        )
    if isinstance(numerator, (int, np.integer)) or smallest == largest * common:
        return largest, denominator, n
    reduced = numerator if common == 1 else numerator // common
    return reduced.astype(np.uint64), denominator, n
