"""The exact sampler's parts, and its rare branches with words chosen to reach them."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sherd.randomness import exponential as cells
from sherd.randomness import exponential as ex
from sherd.randomness.exponential import multiply

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Chosen:
    """A source that gives the chosen words in turn and then refuses."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def __call__(self, n: int) -> NDArray[np.uint64]:
        """The next n chosen words."""
        assert n <= len(self.left), "more words asked for than chosen"
        taken, self.left = self.left[:n], self.left[n:]
        return np.array(taken, dtype=np.uint64)


def word(*, cell16: int, test: int = 1, sign: int = 0, rest: int = 0) -> int:
    """A word with the given parts."""
    return cell16 << 48 | test << 40 | sign << 39 | rest


SURE = 0xFFF0  # a 16-bit prefix inside cell 0: W just below 1


def exact_boundary(i: int, bits: int) -> int:
    """floor(exp(−i/256)·2^bits) by decimal arithmetic."""
    with localcontext() as context:
        context.prec = 120
        return int((Decimal(-i) / 256).exp() * (1 << bits))


@pytest.mark.parametrize("bits", [64, 192])
def test_boundaries_agree_with_decimal_arithmetic(bits: int) -> None:
    """The certified floors equal those of an independent high-precision exponential."""
    floors = cells.boundaries(4096, bits)
    for i in [1, 2, 3, 100, 255, 256, 257, 1000, 2048, 4095, 4096]:
        assert floors[i - 1] == exact_boundary(i, bits)


def test_boundaries_gain_precision_until_certain() -> None:
    """Starting with too few bits ends with the same floors."""
    assert cells.boundaries(500, 64, extra=1) == cells.boundaries(500, 64)


def test_guide_agrees_with_boundaries_at_both_ends_of_every_prefix() -> None:
    """A prefix is sure exactly if both its ends lie in the cell the guide names."""
    guide, floors = cells._table()
    prefix = np.arange(2**16, dtype=np.uint64)
    bottom = 4096 - np.searchsorted(floors, prefix << np.uint64(48), side="left")
    last = (prefix << np.uint64(48)) | np.uint64(2**48 - 1)
    top = 4096 - np.searchsorted(floors, last, side="right")
    sure = guide != cells.UNSURE
    assert (sure == (bottom == top)).all()
    assert (guide[sure] == top[sure]).all()
    assert 0.97 < sure.mean() < 0.98


def test_multiply_gives_all_128_bits() -> None:
    """The two words are Python's exact product."""
    words = [0, 1, 2**32 - 1, 2**32, 2**63 + 12345, 2**64 - 1]
    a = np.repeat(np.array(words, dtype=np.uint64), len(words))
    b = np.tile(np.array(words, dtype=np.uint64), len(words))
    high, low = multiply(a, b)
    for x, y, h, w in zip(a, b, high, low, strict=True):
        assert (int(h) << 64 | int(w)) == int(x) * int(y)


@pytest.mark.parametrize("t", [1, 3, 2**13, 2**31 + 7, 2**32, 2**47 - 1, 2**47, 2**55 - 1, 2**56])
@pytest.mark.parametrize("s", [1, 7, 2**40 + 1])
def test_floor_is_exact_for_the_bits_drawn(t: int, s: int) -> None:
    """floor(E·t/s) equals that of unbounded arithmetic on the bits the sampler drew."""
    rng = np.random.Generator(np.random.Philox(5))
    n = 4000
    a = (rng.integers(0, 2**63, n, dtype=np.uint64) >> np.uint64(9)) << np.uint64(9)
    drawn: list[NDArray[np.uint64]] = []

    def source(k: int) -> NDArray[np.uint64]:
        drawn.append(rng.integers(0, 2**64, k, dtype=np.uint64))
        return drawn[-1]

    got = ex._floor(a, np.uint64(t), t, s, source)
    unsure = [j for j in range(n) if (int(a[j]) * t) % 2**56 + (t << 9) > 2**56]
    extra = dict.fromkeys(range(n), 0)
    if unsure:
        assert len(drawn) == 1
        extra.update(zip(unsure, map(int, drawn[0]), strict=True))
    for j in range(n):
        energy = (int(a[j]) >> 9 << 64) | extra[j]
        assert int(got[j]) == energy * t // (s << (47 + 64))


@pytest.mark.parametrize(("decider", "expected"), [(0, 0), (2**64 - 1, 1)])
@pytest.mark.parametrize("per_draw", [False, True])
def test_floor_draws_on_until_it_is_certain(decider: int, expected: int, per_draw: bool) -> None:
    """An R that is 1/3 in 111 bits: the next word decides whether 3·R reaches 1."""
    third = 2**111 // 3
    known = np.array([(third >> 64) << 9], dtype=np.uint64)
    t = np.array([3], dtype=np.uint64) if per_draw else np.uint64(3)
    source = Chosen(third & (2**64 - 1), decider)
    assert int(ex._floor(known, t, 3, 1, source)[0]) == expected
    assert source.left == []


def test_cell_tie_is_settled_by_further_bits() -> None:
    """A W equal to a boundary in 64 bits gets 64 more, and falls on the right side."""
    floor64, floor128 = cells.boundaries(300, 64)[-1], cells.boundaries(300, 128)[-1]
    tail = floor128 & (2**64 - 1)
    first = np.array([floor64 >> 48], dtype=np.uint64)
    second = (floor64 & (2**48 - 1)) << 16
    assert cells.cells(first, Chosen(second, tail - 1))[0] == 300
    assert cells.cells(first, Chosen(second, tail + 1))[0] == 299
    following = cells.boundaries(300, 192)[-1] & (2**64 - 1)
    assert cells.cells(first, Chosen(second, tail, following - 1))[0] == 300
    assert cells.cells(first, Chosen(second, tail, following + 1))[0] == 299


def test_tail_adds_cells_and_is_cut_off() -> None:
    """Beyond the table a fresh cell is added; the cut-off keeps 15 bits."""
    first = np.zeros(1, dtype=np.uint64)
    one = cells.boundaries(1, 64)[-1]
    assert cells.cells(first, Chosen(0, one + 1))[0] == 4096
    assert cells.cells(first, Chosen(0, one - 1))[0] == 4096 + 1
    assert cells.cells(first, Chosen(*[0] * 8))[0] == cells.LAST_CELL
    last = cells.boundaries(4096, 64)[-1]
    lower = Chosen((last & (2**48 - 1)) << 16, 0, one + 1)  # a tie, lost: the tail again
    assert cells.cells(np.array([last >> 48], dtype=np.uint64), lower)[0] == 4096


def run(first: int, *more: int) -> tuple[bool, int]:
    """Whether one proposal is accepted, and how many bits of R it took."""
    source = Chosen(*more)
    words = np.array([first], dtype=np.uint64)
    ok, lazily = ex._accepted(words, words & ex._REST_MASK, source)
    assert source.left == []
    return bool(ok[0]), lazily[0][1].count if lazily else 47


def test_run_of_uniforms_decides_by_its_parity() -> None:
    """Accepted exactly if the first rise after Z0 = R comes at an odd place."""
    half = 2**38
    assert run(word(cell16=SURE, test=1, rest=half)) == (True, 47)
    near = word(cell16=SURE, test=0, rest=half)
    z1 = (half // 2) << 25  # Z1 = R/2
    assert run(near, (half + 1) << 25) == (True, 47)
    assert run(near, z1, 2**63) == (False, 47)
    assert run(near, z1, (half // 4) << 17, 2**63) == (True, 47)
    assert run(near, z1, (half // 4) << 17, (half // 8) << 17, 2**63) == (False, 47)


def test_ties_in_the_run_draw_more_bits_of_both() -> None:
    """Z1 = R or Z2 = Z1 in the bits known: more bits of each, and R keeps its own."""
    half = 2**38
    near = word(cell16=SURE, test=0, rest=half)
    # Z1 ties R: words are Z1, Z2, then the further bits of Z1 and of R in turn.
    assert run(near, half << 25, 2**63, 9, 8) == (True, 47 + 64)
    assert run(near, half << 25, 2**63, 8, 9) == (False, 47 + 64)
    # Z2 ties Z1, which then gets more bits than the 47 it has.
    z1 = half // 2
    z2 = (z1 << 17) + 5
    assert run(near, z1 << 25, z2, 4 << 47) == (False, 47)
    assert run(near, z1 << 25, z2, 6 << 47, 2**63) == (True, 47)


def test_extra_bits_of_the_run_are_those_of_the_floor() -> None:
    """An R that a tie made longer is the one the floor is taken of."""
    half = 2**38
    near = word(cell16=SURE, test=0, rest=half)
    t = 2**56
    # The floor's own word (2^64 − 1) must not count: R's further bits are 8.
    source = Chosen(near, half << 25, 2**63, 9, 8, 2**64 - 1)
    value, ok = ex._trial(source, np.uint64(t), t, 1, 1, False)
    assert ok[0]
    assert int(value[0]) == ((half << 64) | 8) * t >> (47 + 64)
    source = Chosen(near, half << 25, 2**63, 9, 8, 2**64 - 1)
    value, ok = ex._trial(source, np.array([t], dtype=np.uint64), t, 1, 1, False)
    assert int(value[0]) == ((half << 64) | 8) * t >> (47 + 64)


def test_sign_and_negative_zero() -> None:
    """A set sign bit negates; −0 is refused and drawn again."""
    plus = word(cell16=SURE, sign=0, rest=2**38)
    minus = word(cell16=SURE, sign=1, rest=2**38)
    assert ex.draw(Chosen(plus), 1000, 1, 1, signed=True).tolist() == [1]
    assert ex.draw(Chosen(minus), 1000, 1, 1, signed=True).tolist() == [-1]
    assert ex.draw(Chosen(minus, plus), 10, 1, 1, signed=True).tolist() == [0]


@pytest.mark.parametrize("sign", [0, 1])
def test_widest_draw_does_not_wrap(sign: int) -> None:
    """The largest E there is times the largest numerator still fits, with either sign."""
    first = word(cell16=0, sign=sign, rest=2**39 - 1)
    source = Chosen(first, *[0] * 8, 2**64 - 1)
    t = ex.MOST_NUMERATOR
    drawn = int(ex.draw(source, t, 1, 1, signed=True)[0])
    assert source.left == []
    assert drawn == (2**63 - 1) * (1 - 2 * sign)


def test_blocks_cover_every_draw() -> None:
    """Draws span blocks, refused ones included, and each keeps its own scale."""
    rng = np.random.Philox(3)
    t = np.zeros(1000, dtype=np.uint64)
    t[::3] = 10**12
    drawn = ex.draw(lambda n: np.asarray(rng.random_raw(n)), t, 1, 1000, signed=True, block=16)
    assert ((drawn != 0) == (t > 0)).all()


def test_no_draws() -> None:
    """Nothing asked for, nothing drawn."""
    assert ex.draw(Chosen(), 5, 1, 0, signed=True).size == 0
