"""Linking many people: in pieces on every core, and lists compared without taking them apart."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from sherd.errors import PeerError
from sherd.federation.protocol import linkage
from sherd.federation.protocol.linkage import (
    Secret,
    check_pseudonyms,
    common_names,
    intersection,
    overlap,
    ranges,
)

PLAN = "ab" * 32
PEOPLE = [b"%03d" % number for number in range(23)]


def pseudonyms(one: Secret, other: Secret) -> list[bytes]:
    """One's people, raised by both."""
    return one.finish(other.raise_batch(one.blind(PEOPLE)))


@pytest.mark.parametrize("piece", [1, 2, 5, 22, 23, 24])
def test_pieces_do_not_matter(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    """However the work is shared out, every byte is the same, and both owners agree."""
    north, south = Secret(b"n" * 32, PLAN), Secret(b"s" * 32, PLAN)
    blinded, expected = north.blind(PEOPLE), pseudonyms(north, south)
    monkeypatch.setattr(linkage, "PIECE", piece)
    assert north.blind(PEOPLE) == blinded
    assert pseudonyms(north, south) == expected == pseudonyms(south, north)
    assert len(set(expected)) == len(PEOPLE)
    # As it is defined: one inversion for each person.
    group, place = north._group, 7
    inverse = group.crypto_core_ristretto255_scalar_invert(north._blind(place))
    exponent = group.crypto_core_ristretto255_scalar_mul(north._key, inverse)
    assert north._unblinding(range(5, 11))[place - 5] == exponent


def test_nothing_and_nonsense() -> None:
    """No people give no pseudonyms; a point that is none is refused from any piece."""
    north = Secret(b"n" * 32, PLAN)
    assert (north.blind([]), north.raise_batch(b""), north.finish(b"")) == (b"", b"", [])
    for batch in (b"\xff" * 32, north.blind(PEOPLE) + b"\xff" * 32, b"\0" * 31):
        with pytest.raises(PeerError):
            north.raise_batch(batch)


def test_lists_are_compared_as_sets_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """However they are cut, and also names that end in zeros, which arrays of texts cut off."""
    dice = random.Random(1)  # noqa: S311 - dice, no secrets
    names = [dice.randbytes(31) + b"\0" if n % 3 else dice.randbytes(32) for n in range(150)]
    names += [b"\0" * 32, b"\0" * 31 + b"\1", b"\1" + b"\0" * 31]
    for _ in range(200):
        lists = [sorted(dice.sample(names, dice.randint(0, 120))) for _ in range(3)]
        batches = {str(number): b"".join(each) for number, each in enumerate(lists)}
        common = set(lists[0]).intersection(*lists[1:])
        times = Counter(name for each in lists for name in each)
        monkeypatch.setattr(linkage, "RANGE", dice.choice([1, 2, 7, 1 << 16]))
        pieces = [list(piece.values()) for piece in ranges(batches)]
        assert all(len(names) <= linkage.RANGE for piece in pieces for names in piece)
        found = b"".join(common_names(piece).tobytes() for piece in pieces)
        assert found == b"".join(sorted(common)) == intersection(list(batches.values()))
        assert sum(map(overlap, pieces)) == sum(count > 1 for count in times.values())
        for batch, each in zip(batches.values(), lists, strict=True):
            check_pseudonyms(batch, len(each))


@pytest.mark.parametrize("order", [[1, 0], [0, 0], [0, 1, 1], [0, 2, 1]])
def test_lists_out_of_order_are_refused(order: list[int]) -> None:
    """Unsorted, or somebody twice."""
    names = [bytes([number]) * 32 for number in range(3)]
    with pytest.raises(PeerError):
        check_pseudonyms(b"".join(names[place] for place in order), len(order))
