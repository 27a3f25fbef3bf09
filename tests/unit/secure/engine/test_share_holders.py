"""Owners that do not compute: what leaves them, and what of it each host sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreed import agreement, uniform

from sherd.errors import VerificationError
from sherd.methods.specialising.arbdistdp import cells_of, release
from sherd.randomness import Randomness
from sherd.secure.engine.interface import PlainEngine
from sherd.secure.engine.shapes import Shapes
from sherd.secure.engine.share_holders import GuestEngine

RNG = np.random.default_rng(3)
CODES = [RNG.integers(0, 10, 2000), RNG.integers(0, 3, 2000)]
CLASSES = RNG.integers(0, 2, 2000)


class Recorder:
    """A wire that keeps what each host receives, and tells opened results from a list."""

    def __init__(self, opened: list[tuple[str, tuple[int, ...]]], hosts: int = 2) -> None:
        self.received: list[list[np.ndarray]] = [[] for _ in range(hosts)]
        self.told = [list(opened) for _ in range(hosts)]

    def send_numbers(self, owner: int, numbers: np.ndarray) -> None:
        """Note what a host gets."""
        self.received[owner].append(numbers)

    def receive_numbers(self, owner: int, count: int) -> np.ndarray:
        """A guest receives no numbers."""
        raise AssertionError((owner, count))

    def send_opened(self, owner: int, what: str, values: tuple[int, ...]) -> None:
        """A guest opens nothing."""
        raise AssertionError((owner, what, values))

    def receive_opened(self, owner: int) -> tuple[str, tuple[int, ...]]:
        """The next result."""
        return self.told[owner].pop(0)


class Noting(PlainEngine):
    """The plain engine, noting what it opens and what guests put in."""

    def __init__(self, *sources: Any) -> None:
        super().__init__(*sources)
        self.opened: list[tuple[str, tuple[int, ...]]] = []
        self.inputs: list[tuple[int, np.ndarray]] = []

    def share(self, owner: int, own: Any, shape: tuple[int, ...]) -> Any:
        """Note the owner's numbers."""
        self.inputs.append((owner, np.asarray(own(), np.int64).reshape(shape)))
        return super().share(owner, own, shape)

    def open(self, a: Any, what: str) -> np.ndarray:
        """Note the result."""
        found = super().open(a, what)
        self.opened.append((what, tuple(found.ravel().tolist())))
        return found


def plain_run(owners: int, hosts: int) -> tuple[Noting, Any, dict[int, Any]]:
    """All owners in one process: the engine, the partition and the fragments."""
    holder = np.asarray(np.random.default_rng(5).integers(0, owners, (2000, 2)))
    fragments = cells_of(CODES, [np.array(holder == p, np.bool_) for p in range(owners)])
    sources = [Randomness.seeded(10 + p) for p in range(owners)]
    engine = Noting(sources[:hosts], owners - hosts)
    assert engine.parties == owners
    return engine, release(engine, fragments, CLASSES, agreement()), fragments


def test_a_guest_sends_what_the_plain_engine_takes_from_it() -> None:
    """Share by share, in the order in which hosts ask; their sums are its numbers."""
    engine, found, fragments = plain_run(4, 2)
    wire = Recorder(engine.opened)
    guest: Any = GuestEngine(wire, 3, 4, 2, Randomness.seeded(1))
    mine = release(guest, {3: fragments[3]}, CLASSES, agreement())
    assert (mine.counts == found.counts).all()
    assert mine.specialised == found.specialised
    sums = [(a + b).view(np.int64) for a, b in zip(*wire.received, strict=True)]
    told = [values for owner, values in engine.inputs if owner == 3]
    assert len(sums) == len(told)
    assert all((a == b).all() for a, b in zip(sums, told, strict=True))
    matrices = [one for one in sums if one.ndim == 2 and one.shape[1] > 100]
    assert matrices
    assert all(set(np.unique(one)) <= {0, 1} for one in matrices)
    assert wire.told == [[], []]


@pytest.mark.parametrize("hosts", [2, 3])
def test_no_host_sees_anything_of_a_guests_input(hosts: int) -> None:
    """What each of them receives in a whole run is uniform (seeded; false alarms 10^-4).

    The test has power: it finds masks of 60 bits, and the sum of all shares.
    """
    engine, _, fragments = plain_run(hosts + 1, hosts)
    wire = Recorder(engine.opened, hosts)
    guest: Any = GuestEngine(wire, hosts, hosts + 1, hosts, Randomness.seeded(8))
    release(guest, {hosts: fragments[hosts]}, CLASSES, agreement())
    flat = [np.concatenate([one.ravel() for one in each]) for each in wire.received]
    assert flat[0].size > 3000
    for one in flat:
        assert uniform(one) > 1e-4
    for some in range(hosts):  # any set of hosts but all of them
        assert uniform(sum(flat[:some] + flat[some + 1 :], np.zeros_like(flat[0]))) > 1e-4
    assert uniform(flat[0] >> np.uint64(4)) < 1e-6
    assert uniform(sum(flat[1:], flat[0])) < 1e-6


def test_two_inputs_look_alike_to_every_host() -> None:
    """The same guest with other cells: as many messages of the same shapes."""
    engine, _, fragments = plain_run(3, 2)
    seen = []
    for change in (False, True):
        codes = [np.where(c >= 0, 0, -1) if change else c for c in fragments[2].codes]
        wire = Recorder(engine.opened)
        guest: Any = GuestEngine(wire, 2, 3, 2, Randomness.from_system())
        release(guest, {2: type(fragments[2])(codes=tuple(codes))}, CLASSES, agreement())
        seen.append([[one.shape for one in each] for each in wire.received])
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "second", [("places", (1, 2, 4)), ("places", (1, 2)), ("counts", (1, 2, 3))]
)
def test_hosts_that_do_not_say_the_same_are_found(second: tuple[str, tuple[int, ...]]) -> None:
    """One of them tells other numbers, fewer of them, or another thing."""
    wire = Recorder([("places", (1, 2, 3))])
    guest = GuestEngine(wire, 2, 3, 2, Randomness.seeded(1))
    what = guest.share(0, lambda: np.zeros(3, np.int64), (3,))
    assert guest.open(what, "places").tolist() == [1, 2, 3]
    wire.told = [[("places", (1, 2, 3))], [second]]
    with pytest.raises(VerificationError, match="disagree"):
        guest.open(what, "places")
    wire.told = [[second], [second]]
    if second[1] != (1, 2, 4):
        with pytest.raises(VerificationError, match="disagree"):
            guest.open(what, "places")


def test_shapes_are_those_of_the_plain_engine() -> None:
    """Every operation, on the same arguments."""
    plain = PlainEngine([Randomness.seeded(1), Randomness.seeded(2)])
    shapes: Any = Shapes(2)
    assert shapes.parties == plain.parties

    def walk(engine: Any) -> list[tuple[int, ...]]:
        a = engine.share(0, lambda: np.arange(6), (2, 3))
        flat = engine.reshape(a, (6,))
        return [
            one.shape
            for one in (
                a, flat, engine.random(5), engine.random(4, 18), engine.add(a, a),
                engine.add(a, np.ones(3, np.int64)), engine.scale(a, -2),
                engine.scale(flat, np.arange(6)), engine.take(flat, 1, 4),
                engine.join([flat, flat]), engine.stack([flat, flat]), engine.sum(a),
                engine.less(a, 3), engine.maximum(a), engine.largest(a), engine.largest(flat),
                engine.multiply(a, engine.reshape(engine.take(flat, 0, 3), (1, 3))),
                engine.block(a, slice(0, 2), slice(1, 3)), engine.inner(a, a),
                engine.settle(a, "a test"),
            )
        ]  # fmt: skip

    assert walk(shapes) == walk(plain)
