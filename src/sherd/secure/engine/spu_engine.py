"""The secure engine: SPU's CHEETAH for two parties, ABY3 for three.

Each party is a process of its own with one ``SpuEngine``, joined to the others by a link. Both
protocols are secure against parties that follow the protocol and look at what they receive;
CHEETAH against one of two, ABY3 against one of three (two of three together see everything).

Operations are not carried out one by one: they are noted, and ``open`` compiles what its
result needs into one program, so that a choice is one program and not twenty. A compiled program
is kept for the next time the same shapes come. ``settle`` runs at once, where inputs are large.

SPU's pitfalls, and what is done: ``jnp.max`` and ``jnp.argmax`` of 64-bit integers return wrong
results without a word, so maxima are tournaments of comparisons; a party's own numbers enter as
private values (owner's rank given), others give zeros of the same shape in their place; shares
are exchanged as framed bytes, never pickled. Between two parties a product of shared numbers costs
some 260 bytes by homomorphic encryption, one of numbers and shared bits some 20 by oblivious
transfer; SPU takes the cheaper way only where bits are shared as bits, which its own inputs never
are, so ``share_bits`` writes the header of such a share itself.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import ConnectionFailedError, MissingPartError, PolicyError
from sherd.secure.engine.interface import WORD_BITS, Opened
from sherd.secure.engine.link import framed, unframed, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sherd.secure.engine.cost_meter import Meter
    from sherd.secure.engine.interface import Words
    from sherd.secure.engine.share_holders import Wire

    Numbers = NDArray[np.int64]

PROTOCOLS = {2: "CHEETAH", 3: "ABY3"}
"""The protocol for each number of computing parties. SEMI2K trusts its first party: not here."""

_NUMBERS, _BITS = b"\x12cheetah.AShr<FM64>", b"\x14cheetah.BShr<FM64,1>"
"""How the header of a share ends, with the length of the name: shared by sum, and bit by bit."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Noted:
    """A secret: a variable of the runtime, or how to compute one from others."""

    shape: tuple[int, ...]
    key: str
    apply: Callable[..., Any] | None = None
    parents: tuple[Noted, ...] = ()
    variable: str | None = None
    bits: bool = False


class SpuEngine:
    """One party's side of the computation.

    ``link`` is SPU's link to the other parties; ``randomness`` what this party adds to joint
    randomness. ``owners`` is how many give input where more do than compute; their shares come
    by ``wire``. ``transcript`` lists what was opened; a ``meter`` is told what everything costs.
    """

    def __init__(
        self,
        link: Any,
        randomness: Words,
        *,
        owners: int | None = None,
        wire: Wire | None = None,
        meter: Meter | None = None,
    ) -> None:
        spu = load_spu()
        import jax

        if link.world_size not in PROTOCOLS:
            raise PolicyError(
                "the number of computing parties is not valid",
                must="two (CHEETAH) or three (ABY3)",
                got=str(link.world_size),
                do="more owners share their input to two or three of them",
            )
        jax.config.update("jax_enable_x64", True)
        config = spu.libspu.RuntimeConfig(
            protocol=getattr(spu.libspu.ProtocolKind, PROTOCOLS[link.world_size]),
            field=spu.libspu.FieldType.FM64,
        )
        # Without it an owner's rank is ignored, and others' zeros would spoil the sum of shares.
        config.experimental_enable_colocated_optimization = True
        if meter is not None:
            meter.begin(spu.libspu)
            config.enable_pphlo_profile = True
        self._spu, self._jnp, self._meter = spu, jax.numpy, meter
        self._link, self._randomness = link, randomness
        self._hosts, self._wire = int(link.world_size), wire
        self._owners = self._hosts if owners is None else owners
        self._runtime = spu.Runtime(link, config)
        self._io = spu.Io(link.world_size, config)
        self._names = itertools.count()
        self._programs: dict[str, bytes] = {}
        self.transcript: list[Opened] = []

    @property
    def parties(self) -> int:
        """How many owners give input."""
        return self._owners

    @property
    def rank(self) -> int:
        """Which of them this is."""
        return int(self._link.rank)

    def share(self, owner: int, own: Callable[[], Numbers], shape: tuple[int, ...]) -> Noted:
        """The owner's numbers; of those of an owner that does not compute, the sum of shares."""
        if owner < self._hosts:
            return self._private(owner, own, shape)
        assert self._wire is not None
        mine = self._wire.receive_numbers(owner, math.prod(shape)).view(np.int64)
        parts = [self._private(host, lambda: mine, shape) for host in range(self._hosts)]
        return _note("guest", lambda first, *rest: sum(rest, first), shape, *parts)

    def _private(self, owner: int, own: Callable[[], Numbers], shape: tuple[int, ...]) -> Noted:
        """A computing party's numbers as a private input; the others put zeros in their place."""
        values = np.zeros(shape, np.int64)
        if owner == self.rank:
            values = np.ascontiguousarray(own(), np.int64).reshape(shape)
        secret = self._spu.Visibility.VIS_SECRET
        name = f"v{next(self._names)}"
        self._runtime.set_var(name, self._io.make_shares(values, secret, owner)[self.rank])
        return Noted(shape=shape, key=f"in{owner}{shape}", variable=name)

    def share_bits(self, owner: int, own: Callable[[], Numbers], shape: tuple[int, ...]) -> Noted:
        """Between two computing parties, bits whose exclusive or is the number: its own and 0."""
        if self._hosts != 2 or owner >= self._hosts:
            return self.share(owner, own, shape)
        values = np.zeros(shape, np.bool_)
        if owner == self.rank:
            values = np.ascontiguousarray(own()).reshape(shape) != 0
        secret = self._spu.Visibility.VIS_SECRET
        bits = self._spu.libspu.Share()
        numbers = self._io.make_shares(np.zeros(shape, np.bool_), secret)[self.rank].meta
        if not numbers.endswith(_NUMBERS):
            raise MissingPartError("this version of spu writes shares in an unknown form")
        bits.meta = numbers.removesuffix(_NUMBERS) + _BITS
        # A private value's bytes are the value itself, here of everybody's own part.
        bits.share_chunks = self._io.make_shares(values, secret, self.rank)[self.rank].share_chunks
        name = f"v{next(self._names)}"
        self._runtime.set_var(name, bits)
        return Noted(shape=shape, key=f"bits{owner}{shape}", variable=name, bits=True)

    def random(self, n: int, bits: int = WORD_BITS) -> Noted:
        """Each party's word added up, a carry taken off after each."""
        keep = np.uint64(2**bits - 1)
        parts = [
            self.share(party, lambda: (self._randomness.words(n) & keep).view(np.int64), (n,))
            for party in range(self._hosts)
        ]
        jnp, modulus = self._jnp, 2**bits

        def reduced(*words: Any) -> Any:
            total = words[0]
            for word in words[1:]:
                total = total + word
                total = total - (total >= modulus).astype(jnp.int64) * modulus
            return total

        return _note(f"random{bits}", reduced, (n,), *parts)

    def add(self, a: Noted, b: Noted | Numbers) -> Noted:
        """Sums of shares."""
        if isinstance(b, Noted):
            return _note("add", lambda x, y: x + y, a.shape, a, b)
        public = np.asarray(b, np.int64)
        return _note(f"add{_digest(public)}", lambda x: x + public, a.shape, a)

    def scale(self, a: Noted, factor: Numbers | int) -> Noted:
        """Shares times public numbers."""
        public = np.asarray(factor, np.int64)
        return _note(f"scale{_digest(public)}", lambda x: x * public, a.shape, a)

    def reshape(self, a: Noted, shape: tuple[int, ...]) -> Noted:
        """Local."""
        return _note(f"reshape{shape}", lambda x: x.reshape(shape), shape, a)

    def take(self, a: Noted, start: int, stop: int) -> Noted:
        """Local."""
        return _note(f"take{start}:{stop}", lambda x: x[start:stop], (stop - start,), a)

    def block(self, a: Noted, rows: slice, columns: slice) -> Noted:
        """Local."""
        size = (rows.stop - rows.start) * (columns.stop - columns.start)
        key = f"block{rows.start}:{rows.stop},{columns.start}:{columns.stop}"
        return _note(key, lambda x: x[rows, columns].reshape(size), (size,), a)

    def join(self, parts: Sequence[Noted]) -> Noted:
        """Local."""
        jnp, length = self._jnp, sum(one.shape[0] for one in parts)
        return _note("join", lambda *x: jnp.concatenate(x), (length,), *parts)

    def stack(self, parts: Sequence[Noted]) -> Noted:
        """Local."""
        jnp, shape = self._jnp, (*parts[0].shape, len(parts))
        return _note("stack", lambda *x: jnp.stack(x, axis=-1), shape, *parts)

    def sum(self, a: Noted) -> Noted:
        """Local."""
        return _note("sum", lambda x: x.sum(axis=-1), a.shape[:-1], a)

    def less(self, a: Noted, bound: Numbers | int) -> Noted:
        """A comparison for each number."""
        jnp, public = self._jnp, np.asarray(bound, np.int64)
        return _note(f"less{_digest(public)}", lambda x: (x < public).astype(jnp.int64), a.shape, a)

    def maximum(self, a: Noted) -> Noted:
        """A tournament."""
        return _note("maximum", lambda x: self._tournament(x)[0], a.shape[:-1], a)

    def largest(self, a: Noted) -> Noted:
        """A tournament whose winners carry their places along."""
        return _note("largest", lambda x: self._tournament(x)[1], a.shape[:-1], a)

    def _tournament(self, x: Any) -> tuple[Any, Any]:
        """The largest and its place; neighbours meet, so that the first of equals stays first."""
        jnp = self._jnp
        place = jnp.broadcast_to(jnp.arange(x.shape[-1]), x.shape)
        while x.shape[-1] > 1:
            odd = x[..., x.shape[-1] // 2 * 2 :], place[..., x.shape[-1] // 2 * 2 :]
            pairs = x.shape[-1] // 2 * 2
            left, right = x[..., 0:pairs:2], x[..., 1:pairs:2]
            wins = right > left
            x = jnp.concatenate([jnp.where(wins, right, left), odd[0]], axis=-1)
            place = jnp.concatenate(
                [jnp.where(wins, place[..., 1:pairs:2], place[..., 0:pairs:2]), odd[1]], axis=-1
            )
        return x[..., 0], place[..., 0]

    def multiply(self, a: Noted, b: Noted) -> Noted:
        """A product for each number."""
        shape = np.broadcast_shapes(a.shape, b.shape)
        return _note("multiply", lambda x, y: x * y, shape, a, b)

    def inner(self, a: Noted, b: Noted) -> Noted:
        """One matrix product."""
        return _note("inner", lambda x, y: x @ y.T, (a.shape[0], b.shape[0]), a, b)

    def settle(self, a: Noted, what: str) -> Noted:
        """Run what the secret needs at once, for its inputs are large."""
        return self._computed(a, what)

    def open(self, a: Noted, what: str) -> Numbers:
        """Run what the result needs, then exchange its shares."""
        done = self._computed(a, what)
        assert done.variable is not None
        share = self._runtime.get_var(done.variable)
        mine = framed([share.meta, *share.share_chunks])
        try:
            for party in range(self._hosts):
                if party != self.rank:
                    self._link.send_async(party, mine)
            frames = [
                mine if party == self.rank else self._link.recv(party)
                for party in range(self._hosts)
            ]
        except RuntimeError as error:
            raise _lost(error) from None
        if self._meter is not None:
            others = [len(one) for party, one in enumerate(frames) if party != self.rank]
            self._meter.passed(what, [len(mine)] * len(others), others)
        shares = [self._share(frame) for frame in frames]
        try:
            opened = np.asarray(self._io.reconstruct(shares))
        except RuntimeError:
            raise unreadable("shares of this result") from None
        if opened.shape != a.shape:
            raise unreadable(f"shares of {a.shape} numbers")
        self.transcript.append(Opened(what=what, count=opened.size))
        self._runtime.del_var(done.variable)
        return opened.astype(np.int64)

    def _share(self, frame: bytes) -> Any:
        parts = unframed(frame)
        share = self._spu.libspu.Share()
        share.meta, share.share_chunks = parts[0], parts[1:]
        return share

    def _computed(self, a: Noted, what: str) -> Noted:
        """Compile and run everything a secret depends on, as one program."""
        from spu.utils import frontend

        begin = time.perf_counter()
        leaves, order = _graph(a)
        if not order:
            return a
        names = [one.variable for one in leaves]
        key = _program_key(leaves, order)
        result = f"v{next(self._names)}"
        if key not in self._programs:
            place = {id(one): i for i, one in enumerate(leaves)}

            def program(*given: Any) -> Any:
                known = {name: given[i] for name, i in place.items()}
                for one in order:
                    assert one.apply is not None
                    known[id(one)] = one.apply(*(known[id(parent)] for parent in one.parents))
                return known[id(order[-1])]

            examples = [
                np.zeros(one.shape, np.dtype("bool" if one.bits else "int64")) for one in leaves
            ]
            visible = [self._spu.Visibility.VIS_SECRET] * len(leaves)
            compiled, _ = frontend.compile(
                frontend.Kind.JAX, program, examples, {}, names, visible, lambda _out: [result]
            )
            self._programs[key] = compiled.code
        middle = time.perf_counter()
        executable = self._spu.libspu.Executable(
            name=what, input_names=names, output_names=[result], code=self._programs[key]
        )
        try:
            self._runtime.run(executable)
        except RuntimeError as error:
            raise _lost(error) from None
        for name in names:
            self._runtime.del_var(name)
        end = time.perf_counter()
        if self._meter is not None:
            self._meter.took("compiling", middle - begin)
            self._meter.ran(what, end - middle)
        return Noted(shape=a.shape, key=f"var{a.shape}", variable=result)


def _note(key: str, apply: Callable[..., Any], shape: tuple[int, ...], *parents: Noted) -> Noted:
    return Noted(shape=shape, key=key, apply=apply, parents=parents)


def _digest(public: Numbers) -> str:
    """A short name of public numbers, so that programs with other ones are other programs."""
    import hashlib

    return f"{public.shape}{hashlib.sha256(public.tobytes()).hexdigest()[:16]}"


def _graph(a: Noted) -> tuple[list[Noted], list[Noted]]:
    """The variables a secret depends on, and what is to be computed, parents first."""
    leaves: dict[int, Noted] = {}
    order: dict[int, Noted] = {}

    def visit(one: Noted) -> None:
        if id(one) in leaves or id(one) in order:
            return
        if one.variable is not None:
            leaves[id(one)] = one
            return
        for parent in one.parents:
            visit(parent)
        order[id(one)] = one

    visit(a)
    return list(leaves.values()), list(order.values())


def _program_key(leaves: list[Noted], order: list[Noted]) -> str:
    """What a program does, spelled out: operations, shapes and who depends on whom."""
    place = {id(one): i for i, one in enumerate([*leaves, *order])}
    lines = [one.key for one in leaves]
    lines += [f"{one.key}({[place[id(p)] for p in one.parents]})" for one in order]
    return ";".join(lines)


def _lost(error: Exception) -> ConnectionFailedError:
    """What a failed exchange means; SPU's own text names addresses and stays in the log."""
    return ConnectionFailedError(
        "the computation with the other parties broke off",
        got=type(error).__name__,
        do="see that all parties run and can reach each other, then start again",
    )


def load_spu() -> Any:
    """The package, or an error that says how to get it."""
    try:
        import spu
        import spu.libspu
    except ImportError:
        raise MissingPartError(
            "secure computation is not installed",
            must="the package spu, on Python 3.11",
            do="install sherd[joint] into an environment of its own",
        ) from None
    return spu
