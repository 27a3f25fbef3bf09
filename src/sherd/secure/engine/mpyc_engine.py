"""A second secure engine: MPyC, for three parties or more with an honest majority, on any Python.

Values are shared by Shamir's scheme over a prime field, and any minority of the parties sees
uniform numbers; a majority together sees everything. A matrix product is one local product and one
resharing. Parties follow the protocol and look at what they receive, as with SPU.

All owners compute: there are no guests, and no words modulo 2^64 can be opened masked, so overlaps
are refused and not settled. MPyC keeps one runtime in the process, reads the command line when it
is imported, and waits for ever for a party that is gone; here it is given its parties by hand, is
imported with an empty command line, and a lost party ends the run.

Between parties is TLS 1.3; a connection counts if the certificate is, byte for byte, the one agreed
on for the party that it says it is.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import ConnectionFailedError, MissingPartError, PolicyError
from sherd.secure.engine.field_arithmetic import matrix_product, random_split
from sherd.secure.engine.interface import WORD_BITS, Opened
from sherd.secure.engine.link import address_of, certificate_bytes, tls_context

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
        self._peers, self._rank, self._key = peers, rank, key
        self._randomness, self._timeout, self._longest = randomness, timeout, longest_wait
        self._mpc = _runtime(load_mpyc(), peers, rank)
        self._loop = self._mpc._loop  # noqa: SLF001 - it has no other name
        self._number = self._mpc.SecInt(64)
        self._lost = asyncio.Event()
        self.transcript: list[Opened] = []

    def connect(self) -> None:
        """Join the others; raises where somebody does not come in time or has the wrong key."""
        try:
            self._loop.run_until_complete(asyncio.wait_for(self._join(), self._timeout))
        except TimeoutError:
            absent = [p.name for i, p in enumerate(self._peers) if not self._joined(i)]
            raise ConnectionFailedError(
                "other parties could not be reached",
                must=f"running, reachable and holding the agreed keys: {', '.join(absent)}",
                got=f"no connection within {self._timeout:g} s",
                do="compare addresses and certificates, then start all parties again",
            ) from None

    def _joined(self, place: int) -> bool:
        protocol = self._mpc.parties[place].protocol
        return place == self._rank or protocol is not None

    async def _join(self) -> None:
        """As MPyC's own start, with pinned certificates: dial those after, listen to others."""
        from mpyc.asyncoro import MessageExchanger

        runtime, loop, lost = self._mpc, self._loop, self._lost
        pinned = [certificate_bytes(peer.certificate) for peer in self._peers]

        class Exchanger(MessageExchanger):  # type: ignore[misc]
            """MPyC's connection, which counts only with the agreed certificate."""

            def data_received(self, data: bytes) -> None:
                place = self.peer_pid
                if place is None:  # it begins with who it says it is
                    place = int.from_bytes((bytes(self.bytes) + data)[:2], "little")
                shown = self.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
                if place >= len(pinned) or shown != pinned[place]:
                    self.transport.abort()
                    return
                super().data_received(data)

            def connection_lost(self, exc: Exception | None) -> None:
                lost.set()
                del exc

        for party in runtime.parties:
            party.protocol = loop.create_future() if party.pid == self._rank else None
        host, port = address_of(self._peers[self._rank].address)
        server = await loop.create_server(
            lambda: Exchanger(runtime), host, port,
            ssl=self._context(ssl.PROTOCOL_TLS_SERVER, self._peers[: self._rank]),
        ) if self._rank else None  # fmt: skip
        for place in range(self._rank + 1, len(self._peers)):
            context = self._context(ssl.PROTOCOL_TLS_CLIENT, [self._peers[place]])
            await _dial(loop, self._peers[place], lambda p=place: Exchanger(runtime, p), context)  # type: ignore[misc]
        await runtime.parties[self._rank].protocol
        if server is not None:
            server.close()
        lost.clear()  # strangers that were turned away do not count

    def _context(self, protocol: int, trusted: Sequence[Peer]) -> ssl.SSLContext:
        return tls_context(protocol, self._peers[self._rank].certificate, self._key, trusted)

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
        opened = self._loop.run_until_complete(self._unless_lost(self._mpc.output(a)))
        values = np.array([int(value) for value in np.ravel(opened)], np.int64).reshape(a.shape)
        self.transcript.append(Opened(what=what, count=values.size))
        return values

    async def _unless_lost(self, result: Any) -> Any:
        """A result, or an error where a party is gone or takes too long."""
        waiting = [asyncio.ensure_future(result), asyncio.ensure_future(self._lost.wait())]
        done, _ = await asyncio.wait(
            waiting, timeout=self._longest, return_when=asyncio.FIRST_COMPLETED
        )
        waiting[1].cancel()
        if waiting[0] in done:
            return waiting[0].result()
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


async def _dial(
    loop: asyncio.AbstractEventLoop, peer: Peer, make: Callable[[], Any], context: ssl.SSLContext
) -> None:
    host, port = address_of(peer.address)
    while True:
        try:
            await loop.create_connection(make, host, port, ssl=context, server_hostname="")
        except (OSError, ssl.SSLError):
            await asyncio.sleep(0.1)
        else:
            return
