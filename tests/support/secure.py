"""Parties of a secure computation as processes that stay alive over many cases.

Starting SPU takes seconds, so one set of processes answers case after case: a case is a line of
JSON to every party, the answer a line from each. The processes run with the interpreter that
SHERD_JOINT_PYTHON names; this module is imported there as well, so it needs no test library.
"""

from __future__ import annotations

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
from sherd.methods.specialising.epsilon_shares import Budget
from sherd.methods.specialising.hierarchy import Hierarchy
from sherd.methods.specialising.joint_specialisation import Agreement, cells_of, release
from sherd.methods.specialising.scores import sensitivity
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


class Words:
    """A party's randomness, started anew for each case."""

    def __init__(self) -> None:
        self.source = Randomness.seeded(0)

    def words(self, n: int) -> np.ndarray:
        """Words of the case's seed."""
        return self.source.words(n)


class SecureParties:
    """All parties of a computation, alive until they are stopped."""

    def __init__(self, python: str, parties: int, folder: Path) -> None:
        for i in range(parties):
            make_key(folder, f"p{i}")
        sockets = [socket.socket() for _ in range(parties)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        ports = [str(one.getsockname()[1]) for one in sockets]
        for one in sockets:
            one.close()
        places = [str(Path(sherd.__file__).parent.parent), str(Path(__file__).parent)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
        self._folder, self.count = folder, parties
        self._running = []
        for i in range(parties):
            with (folder / f"log{i}").open("wb") as log:
                self._running.append(
                    subprocess.Popen(
                        [python, __file__, str(folder), str(i), *ports],
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
    from sherd.secure.engine.spu_engine import SpuEngine

    # SPU writes to standard output; answers go to what that was.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    folder, rank, ports = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    peers = [
        Peer(name=f"p{i}", address=f"127.0.0.1:{port}", certificate=folder / f"p{i}.pem")
        for i, port in enumerate(ports)
    ]
    link = connect(peers, rank, folder / f"p{rank}.key", timeout=240)
    meter, words = Meter(folder / f"spu{rank}.log"), Words()
    engine = SpuEngine(link, words, meter=meter)  # type: ignore[arg-type]
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line), engine, words, meter)) + "\n")
        answers.flush()
    link.stop_link()
    part(folder, rank, len(ports))


def part(folder: Path, rank: int, parties: int) -> None:
    """Leave when all have taken their links down: the last ones need an answer until then."""
    done = [folder / f"{i}.done" for i in range(parties)]
    done[rank].touch()
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and not all(one.exists() for one in done):
        time.sleep(0.1)


if __name__ == "__main__":
    main()
