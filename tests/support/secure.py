"""Parties of a secure computation as processes that stay alive over many cases.

Starting SPU takes seconds, so one set of processes answers case after case: a case is a line of
JSON to every party, the answer a line from each. The processes run with the interpreter that
SHERD_JOINT_PYTHON names; this module is imported there as well, so it needs no test library.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import sherd
from sherd.methods.graphical.measuring import CodedTable, Marginal, Noise, Request
from sherd.methods.graphical.secure_measuring import EVERYBODY, HolderLayout, SecureMeasurer
from sherd.methods.specialising.arbdistdp import Agreement, cells_of, release
from sherd.methods.specialising.hierarchy import Hierarchy
from sherd.methods.specialising.scores import Budget, sensitivity
from sherd.randomness import Randomness
from sherd.secure.engine.cell_holders import Holes, Overlaps
from sherd.secure.engine.cost_meter import Meter
from sherd.secure.engine.link import Peer, connect, make_key

Case = dict[str, Any]

PATIENCE = 60.0
"""Seconds that a party waits for the others before it leaves."""


def agreement_of(case: Case) -> Agreement:
    """What the parties of a case agree on."""
    schema = sherd.Schema.from_data({"attributes": case["attributes"]})
    holes = Holes(case.get("holes", "refuse"))
    keeps = holes is Holes.MISSING
    hierarchies = tuple(Hierarchy.of(attribute, keeps_missing=keeps) for attribute in schema)
    return Agreement(
        hierarchies=hierarchies,
        class_name="class",
        class_labels=tuple(f"c{i}" for i in range(case["n_classes"])),
        utility=case["utility"],
        budget=Budget(
            epsilon=Fraction(case["epsilon"]),
            specialisations=case["h"],
            numeric=sum(one.numeric for one in hierarchies),
            sensitivity=sensitivity(case["utility"], len(case["classes"])),
        ),
        max_leaves=case["max_leaves"],
        overlaps=Overlaps(case.get("overlaps", "refuse")),
        holes=holes,
    )


def table_of(case: Case) -> tuple[list[np.ndarray], np.ndarray, list[np.ndarray]]:
    """The pooled codes, the classes, and who holds what."""
    codes = [np.array(column, np.int64) for column in case["codes"]]
    classes = np.array(case["classes"], np.int64)
    holder = np.array(case["holder"], np.int64).reshape(len(classes), len(codes))
    # With overlaps or holes, a bit for each party says whether it holds the cell.
    bits = "overlaps" in case
    return (
        codes,
        classes,
        [holder >> party & 1 == 1 if bits else holder == party for party in range(case["parties"])],
    )


def measuring_case(parties: int) -> tuple[Case, list[list[int]]]:
    """Attributes by column, one split cell by cell, one everybody has; and the exact counts."""
    rng = np.random.default_rng(3)
    sizes, n = [3, 2, 4, 2, 2], 40
    layout = [0, 1, parties - 1, None, EVERYBODY]
    codes = [rng.integers(0, size, n) for size in sizes]
    holder = np.tile([0 if one is None else one for one in layout], (n, 1))
    holder[:, 3] = rng.integers(0, parties, n)
    case: Case = {
        "do": "measure", "sizes": sizes, "layout": layout, "holder": holder.tolist(),
        "codes": [column.tolist() for column in codes],
    }  # fmt: skip
    table = CodedTable(codes, sizes)
    return case, [table.histogram(one.marginal).tolist() for one in requests_of(case)]


class Words:
    """A party's randomness, started again for each case."""

    def __init__(self) -> None:
        self.source = Randomness.seeded(0)

    def words(self, n: int) -> np.ndarray:
        """Words of the case's seed."""
        return self.source.words(n)


class SecureParties:
    """All parties of a computation, alive until they are stopped."""

    def __init__(self, python: str, parties: int, folder: Path, engine: str = "spu") -> None:
        for i in range(parties):
            make_key(folder, f"p{i}")
        sockets = [socket.socket() for _ in range(parties)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        ports = [str(one.getsockname()[1]) for one in sockets]
        for one in sockets:
            one.close()
        self.ports = [int(port) for port in ports]
        places = [str(Path(sherd.__file__).parent.parent), str(Path(__file__).parent)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
        self._folder, self.count = folder, parties
        self._running = []
        for i in range(parties):
            with (folder / f"log{i}").open("wb") as log:
                self._running.append(
                    subprocess.Popen(
                        [python, __file__, engine, str(folder), str(i), *ports],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        env=environment,
                        text=True,
                    )
                )

    def run(self, case: Case) -> list[Any]:
        """Every party's answer."""
        line = json.dumps(case) + "\n"
        for one in self._running:
            assert one.stdin is not None
            one.stdin.write(line)
            one.stdin.flush()
        answers = []
        for i, one in enumerate(self._running):
            assert one.stdout is not None
            answer = one.stdout.readline()
            assert answer, (self._folder / f"log{i}").read_text()[-3000:]
            answers.append(json.loads(answer))
        return answers

    def stop(self) -> None:
        """End the processes."""
        for one in self._running:
            assert one.stdin is not None
            assert one.stdout is not None
            one.stdin.close()
        for one in self._running:
            try:
                one.wait(PATIENCE + 20)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
            assert one.stdout is not None
            one.stdout.close()


def _answer(case: Case, engine: Any, words: Words, meter: Meter) -> Any:
    """What one party makes of a case."""
    before = len(meter.traffic), len(engine.transcript)
    if case["do"] == "operations":
        return operations(engine, np.array(case["values"], np.int64))
    if case["do"] == "measure":
        return [one.counts.tolist() for one in measurer_of(case, engine).measure(requests_of(case))]
    if case["do"] == "share":
        # The bytes that leave this party when a sum of everybody's numbers is opened.
        values = np.array(case["values"], np.int64)
        total = engine.share(0, lambda: values, values.shape)
        for party in range(1, case["parties"]):
            total = engine.add(total, engine.share(party, lambda: values, values.shape))
        sent: list[bytes] = []
        original = engine._link
        engine._link = _Tapped(original, sent)
        try:
            engine.open(total, "a test")
        finally:
            engine._link = original
        return {"sent": sent[0].hex()}
    words.source = Randomness.seeded(case["words"][engine.rank])
    codes, classes, held = table_of(case)
    mine = {engine.rank: cells_of(codes, held)[engine.rank]}
    script = case.get("places")
    used: Any = engine if script is None else _Scripted(engine, script)
    found = release(used, mine, classes, agreement_of(case))
    return {
        "cuts": found.specialised.cuts,
        "counts": found.counts.tolist(),
        "opened": [[one.what, one.count] for one in engine.transcript[before[1] :]],
        "traffic": [
            {"step": step, "bytes": one.sent, "messages": one.messages_sent}
            for step, one in meter.traffic[before[0] :]
        ],
    }


def requests_of(case: Case) -> list[Request]:
    """Marginals of all pairs and triples, with so little noise that none is ever drawn."""
    noise = Noise(kind="laplace", scale=Fraction(1, 16))
    places = range(len(case["sizes"]))
    every = [c for k in (1, 2, 3) for c in itertools.combinations(places, k)]
    bins = [tuple(range(size)) for size in case["sizes"]]
    return [
        Request(marginal=Marginal(attributes=c, bins=tuple(bins[a] for a in c)), noise=noise)
        for c in every
    ]


def measurer_of(case: Case, engine: Any) -> SecureMeasurer:
    """A party's measurer of a case: attributes by column, split, or known to everybody."""
    codes = [np.array(column, np.int64) for column in case["codes"]]
    holder = np.array(case["holder"], np.int64)
    mine = (holder == engine.rank) | (holder == EVERYBODY)
    cells = tuple(np.where(mine[:, a], column, -1) for a, column in enumerate(codes))
    layout = HolderLayout(
        holders=tuple(case["layout"]), sizes=tuple(case["sizes"]), rows=len(codes[0])
    )
    source = Randomness.from_system()
    return SecureMeasurer(
        engine, layout, {engine.rank: cells}, lambda _p: lambda noise, n: noise.draw(source, n)
    )


def operations(engine: Any, x: np.ndarray) -> list[Any]:
    """What every operation of an engine makes of a matrix that its second party has."""

    def given() -> Any:
        return engine.share(1, lambda: x, x.shape)

    flat = (x.size,)
    results = [
        given(),
        engine.add(given(), given()),
        engine.add(given(), x),
        engine.scale(given(), -3),
        engine.scale(given(), np.arange(x.shape[1])),
        engine.take(engine.reshape(given(), flat), 1, x.size - 1),
        engine.join([engine.reshape(given(), flat), engine.reshape(given(), flat)]),
        engine.stack([engine.reshape(given(), flat), engine.reshape(given(), flat)]),
        engine.sum(given()),
        engine.less(engine.multiply(given(), given()), 30),
        engine.maximum(given()),
        engine.largest(given()),
        engine.multiply(given(), engine.reshape(engine.sum(given()), (x.shape[0], 1))),
        engine.multiply(given(), engine.share_bits(0, lambda: x % 2, x.shape)),
        engine.settle(engine.inner(given(), given()), "a test"),
        engine.block(given(), slice(0, 2), slice(1, 3)),
        engine.random(5),
        engine.random(4, 18),
    ]
    return [engine.open(one, "a test").tolist() for one in results]


class _Tapped:
    """A link that keeps what is sent through it by hand."""

    def __init__(self, link: Any, sent: list[bytes]) -> None:
        self._link, self._sent = link, sent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def send_async(self, to: int, data: bytes) -> None:
        """Note, and send."""
        self._sent.append(data)
        self._link.send_async(to, data)


class _Scripted:
    """An engine whose opened places of choices are replaced by given ones."""

    def __init__(self, engine: Any, places: list[list[int]]) -> None:
        self._engine, self._places = engine, [np.array(one, np.int64) for one in places]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def open(self, a: Any, what: str) -> np.ndarray:
        """What was opened; of choices the next given places."""
        opened: np.ndarray = self._engine.open(a, what)
        return self._places.pop(0) if what == "places of choices" else opened


def main() -> None:
    """One party: arguments are the folder of keys, this party's place, and everybody's ports."""
    # SPU writes to standard output; answers go to what that was.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    kind, folder, rank, ports = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    peers = [
        Peer(name=f"p{i}", address=f"127.0.0.1:{port}", certificate=folder / f"p{i}.pem")
        for i, port in enumerate(ports)
    ]
    meter, words = Meter(folder / f"spu{rank}.log"), Words()
    link, engine = _engine(kind, peers, rank, folder / f"p{rank}.key", words, meter)
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line), engine, words, meter)) + "\n")
        answers.flush()
    if link is not None:
        link.stop_link()
    part(folder, rank, len(ports))


def _engine(
    kind: str, peers: list[Peer], rank: int, key: Path, words: Words, meter: Meter
) -> tuple[Any, Any]:
    """The link, where the engine has one apart from itself, and the engine."""
    if kind == "mpyc":
        from sherd.secure.engine.mpyc_engine import MpycEngine

        engine = MpycEngine(peers, rank, key, words, timeout=240)
        engine.connect()
        return None, engine
    from sherd.secure.engine.spu_engine import SpuEngine

    link = connect(peers, rank, key, timeout=240)
    return link, SpuEngine(link, words, meter=meter)


def part(folder: Path, rank: int, parties: int) -> None:
    """Leave when all have taken their links down: the last ones need an answer until then."""
    done = [folder / f"{i}.done" for i in range(parties)]
    done[rank].touch()
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and not all(one.exists() for one in done):
        time.sleep(0.1)


if __name__ == "__main__":
    main()
