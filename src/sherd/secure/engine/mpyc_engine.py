"""A second secure engine: MPyC, for three parties or more with an honest majority, on any Python.

Values are shared by Shamir's scheme over a prime field, and any minority of the parties sees
uniform numbers; a majority together sees everything. A matrix product is one local product and one
resharing. Parties follow the protocol and look at what they receive, as with SPU.

All owners compute: there are no guests, and no words modulo 2^64 can be opened masked, so overlaps
are refused and not settled. MPyC keeps one runtime in the process, reads the command line when it
is imported, and waits for ever for a party that is gone; here it is given its parties by hand, is
imported with an empty command line, and a lost party ends the run.

How its parties' connections are made, and what may pass there, is in ``mpyc_wire``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import ConnectionFailedError, MissingPartError, PolicyError, SherdError
from sherd.secure.engine.field_arithmetic import matrix_product, random_split
from sherd.secure.engine.interface import WORD_BITS, Opened
from sherd.secure.engine.link import address_of, unreadable
from sherd.secure.engine.mpyc_wire import MpycMeeting, ShareBytes
from sherd.secure.engine.tunnel import unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sherd.secure.engine.interface import Words
    from sherd.secure.engine.link import Peer

    Numbers = NDArray[np.int64]

LEAST_PARTIES = 3
"""With two, any one is no minority, and MPyC would share nothing at all."""


def load_mpyc() -> Any:
    """The package, or an error that says how to get it."""
    given, sys.argv = sys.argv, sys.argv[:1]  # it would read options from our command line
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of numpy's, in its own code
            import mpyc.runtime
            import mpyc.thresha
    except ImportError:
        raise MissingPartError(
            "secure computation is not installed",
            must="the package mpyc",
            do="install sherd[joint-mpyc]",
        ) from None
    finally:
        sys.argv = given
    mpyc.thresha.np_random_split = random_split
    return mpyc.runtime


class MpycEngine:
    """One party's side of the computation; ``connect`` joins it to the others."""

    def __init__(self, peers: Sequence[Peer], rank: int, key: Path, randomness: Words, *,
                 timeout: float, longest_wait: float = 3600.0) -> None:  # fmt: skip
        if len(peers) < LEAST_PARTIES:
            raise PolicyError(
                "MPyC needs more parties",
                must=f"at least {LEAST_PARTIES}, of which most are honest",
                got=str(len(peers)),
                do="use the engine spu for two parties",
            )
        self._peers, self._rank = peers, rank
        self._randomness, self._timeout, self._longest = randomness, timeout, longest_wait
        module = load_mpyc()
        self._mpc = _runtime(module, peers, rank)
        self._loop = self._mpc._loop  # noqa: SLF001 - it has no other name
        self._number = self._mpc.SecInt(64)
        module.pickle = ShareBytes(self._number.field.modulus)  # of MPyC's runtime, for arrays
        self._meeting = MpycMeeting(self._mpc, peers, rank, key)
        self.transcript: list[Opened] = []

    def connect(self) -> None:
        """Join the others; raises where somebody does not come in time or has the wrong key."""
        try:
            self._loop.run_until_complete(asyncio.wait_for(self._meeting.join(), self._timeout))
        except TimeoutError:
            raise unreachable(self._meeting.missing(), self._timeout) from None
        self._loop.set_exception_handler(self._went_wrong)

    def _went_wrong(self, _loop: object, context: dict[str, Any]) -> None:
        """End the run where MPyC cannot use what it was sent; it would wait for ever."""
        error = context.get("exception")
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self._meeting.broken(unreadable("shares of the numbers that are due"))

    @property
    def parties(self) -> int:
        """How many owners give input; all of them compute."""
        return len(self._peers)

    @property
    def rank(self) -> int:
        """Which of them this is."""
        return self._rank

    @property
    def sent(self) -> int:
        """Bytes sent so far, before TLS."""
        others = (p for p in self._mpc.parties if p.pid != self._rank)
        return sum(int(party.protocol.nbytes_sent) for party in others)

    def share(self, owner: int, own: Callable[[], Numbers], shape: tuple[int, ...]) -> Any:
        """The owner's numbers, shared out to all."""
        values = np.zeros(shape, np.int64)
        if owner == self._rank:
            values = np.asarray(own(), np.int64).reshape(shape)
        return self._mpc.input(self._public(values), senders=owner)

    def share_bits(self, owner: int, own: Callable[[], Numbers], shape: tuple[int, ...]) -> Any:
        """As any numbers: their products are cheap here."""
        return self.share(owner, own, shape)

    def _public(self, values: Numbers | int) -> Any:
        return self._number.array(np.asarray(values, np.int64).astype(object))

    def random(self, n: int, bits: int = WORD_BITS) -> Any:
        """Each party's word added up, a carry taken off after each."""
        keep = np.uint64(2**bits - 1)
        total: Any = None
        for party in range(self.parties):
            mine = self.share(
                party, lambda: (self._randomness.words(n) & keep).view(np.int64), (n,)
            )
            if total is None:
                total = mine
                continue
            total = total + mine
            below = self.less(total, 2**bits)
            total = total - (1 - below) * 2**bits
        return total

    def add(self, a: Any, b: Any) -> Any:
        """Share by share."""
        return a + (self._public(b) if isinstance(b, np.ndarray) else b)

    def scale(self, a: Any, factor: Numbers | int) -> Any:
        """Share by share."""
        if isinstance(factor, int):
            return a * factor
        field = self._number.field.array(np.asarray(factor, np.int64).astype(object))
        return a * field

    def reshape(self, a: Any, shape: tuple[int, ...]) -> Any:
        """Local."""
        return self._mpc.np_reshape(a, shape)

    def take(self, a: Any, start: int, stop: int) -> Any:
        """Local."""
        return a[start:stop]

    def block(self, a: Any, rows: slice, columns: slice) -> Any:
        """Local."""
        part = a[rows, columns]
        return self.reshape(part, (part.shape[0] * part.shape[1],))

    def join(self, parts: Sequence[Any]) -> Any:
        """Local."""
        return self._mpc.np_concatenate(tuple(parts))

    def stack(self, parts: Sequence[Any]) -> Any:
        """Local."""
        columns = [self.reshape(one, (*one.shape, 1)) for one in parts]
        return self._mpc.np_concatenate(tuple(columns), axis=len(parts[0].shape))

    def sum(self, a: Any) -> Any:
        """Local."""
        return self._mpc.np_sum(a, axis=-1)

    def less(self, a: Any, bound: Numbers | int) -> Any:
        """A comparison for each number."""
        return self._mpc.np_less(a, self._public(np.broadcast_to(np.asarray(bound), a.shape)))

    def maximum(self, a: Any) -> Any:
        """A tournament."""
        return self._tournament(a)[0]

    def largest(self, a: Any) -> Any:
        """A tournament whose winners carry their places along."""
        return self._tournament(a)[1]

    def _tournament(self, x: Any) -> tuple[Any, Any]:
        """The largest and its place; neighbours meet, so that the first of equals stays first."""
        place = self._public(np.broadcast_to(np.arange(x.shape[-1]), x.shape))
        while x.shape[-1] > 1:
            pairs = x.shape[-1] // 2 * 2
            left, right = x[..., 0:pairs:2], x[..., 1:pairs:2]
            wins = self._mpc.np_less(left, right)
            where, other = place[..., 0:pairs:2], place[..., 1:pairs:2]
            x = self._with_odd(left + wins * (right - left), x, pairs)
            place = self._with_odd(where + wins * (other - where), place, pairs)
        # Of a flat secret an array of one number: MPyC has no arrays without axes.
        return (x, place) if len(x.shape) == 1 else (x[..., 0], place[..., 0])

    def _with_odd(self, winners: Any, before: Any, pairs: int) -> Any:
        if before.shape[-1] == pairs:
            return winners
        return self._mpc.np_concatenate((winners, before[..., pairs:]), axis=len(before.shape) - 1)

    def multiply(self, a: Any, b: Any) -> Any:
        """A local product and a resharing for each number."""
        return a * b

    def inner(self, a: Any, b: Any) -> Any:
        """A local matrix product and a resharing of its result."""
        return _product(self._mpc)(a, self._mpc.np_transpose(b))

    def settle(self, a: Any, what: str) -> Any:
        """The same: what is computed is on its way already."""
        del what
        return a

    def open(self, a: Any, what: str) -> Numbers:
        """Exchange shares of the result."""
        due = unreadable("shares of the numbers that are due")
        try:
            opened = self._loop.run_until_complete(self._unless_lost(self._mpc.output(a)))
        except (RuntimeError, ValueError, TypeError):  # MPyC stops the loop where it stumbles
            raise due from None
        if len(np.ravel(opened)) != np.prod(a.shape):
            raise due
        values = np.array([int(value) for value in np.ravel(opened)], np.int64).reshape(a.shape)
        self.transcript.append(Opened(what=what, count=values.size))
        return values

    async def _unless_lost(self, result: Any) -> Any:
        """A result, or an error where a party is gone or takes too long."""
        waiting = [asyncio.ensure_future(result), asyncio.ensure_future(self._meeting.lost.wait())]
        done, _ = await asyncio.wait(
            waiting, timeout=self._longest, return_when=asyncio.FIRST_COMPLETED
        )
        waiting[1].cancel()
        if waiting[0] in done:
            return waiting[0].result()
        if isinstance(self._meeting.error, SherdError):
            raise self._meeting.error
        raise ConnectionFailedError(
            "the computation with the other parties broke off",
            got="a lost connection" if done else f"no result within {self._longest:g} s",
            do="see that all parties run and can reach each other, then start again",
        )

    def close(self) -> None:
        """Leave."""
        for party in self._mpc.parties:
            if party.pid != self._rank and party.protocol is not None:
                party.protocol.transport.abort()


def _runtime(module: Any, peers: Sequence[Peer], rank: int) -> Any:
    """MPyC's runtime for these parties, put into the places where it looks for its one."""
    import mpyc

    parties = [module.Party(i, *address_of(peer.address)) for i, peer in enumerate(peers)]
    options = argparse.Namespace(
        threshold=(len(peers) - 1) // 2, no_log=True, no_async=False, no_prss=True, ssl=False,
        no_barrier=True, mix32_64bit=False, sec_param=30, bit_length=64, M=len(peers), f=None,
    )  # fmt: skip
    runtime = module.Runtime(rank, parties, options)
    module.mpc = runtime
    for name in ("sectypes", "asyncoro", "mpctools", "seclists", "secpols", "secgroups",
                 "random", "statistics"):  # fmt: skip
        getattr(mpyc, name).runtime = runtime
    return runtime


def _product(runtime: Any) -> Any:
    """MPyC's own matrix product of two secrets, with the local product computed by parts."""
    from mpyc.asyncoro import mpc_coro

    async def product(a: Any, b: Any) -> Any:
        await runtime.returnType((type(a), (a.shape[0], b.shape[1])))
        a, b = await runtime.gather(a, b)
        field = a.field
        local = field.array(matrix_product(a.value, b.value, field.modulus), check=False)
        return await runtime.gather(runtime._reshare(local))  # noqa: SLF001 - it has no other name

    product.__annotations__.clear()  # MPyC would take them for the type of the result
    return mpc_coro(product)
