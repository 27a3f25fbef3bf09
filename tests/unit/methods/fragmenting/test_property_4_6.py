"""Property 4.6 as printed against Definition 4.3, over every grouping of PATIENTS into pairs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from sherd.methods.fragmenting.association import empty_state, problem_shape
from sherd.methods.fragmenting.soundness import sound

from .patients import PATIENTS, RULES, THREE

if TYPE_CHECKING:
    from collections.abc import Iterator

Pairs = tuple[tuple[int, int], ...]
ROWS = PATIENTS.to_pylist()
EIGHT = range(8)
CONSTRAINTS = range(len(RULES.constraints))
PARTS = [[tuple(n for n in f if n in c) for f in THREE] for c in RULES.constraints]


def pairings(items: list[int]) -> Iterator[Pairs]:
    """Every way to put items into pairs."""
    if not items:
        yield ()
        return
    first = items[0]
    for other in items[1:]:
        rest = [item for item in items[1:] if item != other]
        for more in pairings(rest):
            yield ((first, other), *more)


def alike(f: int, c: int, t: int, u: int) -> bool:
    """Definition 4.2."""
    part = PARTS[c][f]
    return bool(part) and all(ROWS[t][name] == ROWS[u][name] for name in part)


class Grouping:
    """A fragment's tuples in pairs: the mate of each, and which pairs hold alike tuples."""

    def __init__(self, f: int, pairs: Pairs) -> None:
        self.pairs = pairs
        self.mate = [0] * 8
        for a, b in pairs:
            self.mate[a], self.mate[b] = b, a
        self.alike = [
            [
                [
                    any(alike(f, c, x, y) for x in (t, self.mate[t]) for y in (u, self.mate[u]))
                    for u in EIGHT
                ]
                for t in EIGHT
            ]
            for c in CONSTRAINTS
        ]


def heterogeneous(f: int) -> list[Grouping]:
    """The groupings of a fragment that fulfil Property 4.4."""
    return [
        Grouping(f, pairs)
        for pairs in pairings(list(EIGHT))
        if not any(alike(f, c, a, b) for c in CONSTRAINTS for a, b in pairs)
    ]


def deep(groupings: tuple[Grouping, ...], *, restricted: bool) -> bool:
    """Property 4.6, as printed or restricted to the fragments that hold attributes of c."""
    for c, z in itertools.product(CONSTRAINTS, range(3)):
        if not PARTS[c][z]:
            continue
        others = [f for f in range(3) if f != z and (PARTS[c][f] or not restricted)]
        for a, b in groupings[z].pairs:
            if all(groupings[f].alike[c][a][b] for f in others):
                return False
    return True


@pytest.mark.slow
def test_as_printed_it_is_not_enough() -> None:
    """Of 6,697 groupings that pass as printed, 6,590 are not 4-loose; 107 are, and are sound."""
    shape = problem_shape(PATIENTS, RULES, THREE, (2, 2, 2))
    printed = loose = 0
    left, middle, right = (heterogeneous(f) for f in range(3))
    for one, two in itertools.product(left, middle):
        if any(one.mate[t] == two.mate[t] for t in EIGHT):
            continue
        for three in right:
            if any(three.mate[t] in (one.mate[t], two.mate[t]) for t in EIGHT):
                continue
            if not deep((one, two, three), restricted=False):
                continue
            printed += 1
            passes = deep((one, two, three), restricted=True)
            loose += passes
            state = empty_state(shape)
            for f, grouping in enumerate((one, two, three)):
                for g, pair in enumerate(grouping.pairs):
                    state.place[list(pair), f] = g
            assert (sound(shape, state) == 0) is passes
    assert (printed, printed - loose) == (6697, 6590)
