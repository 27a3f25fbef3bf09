"""Runs of parties in a storm: nothing is charged twice, opened unpaid or differently, or left over.

    python tests/support/party_storm.py --seconds 60 --seed 1 [--parties 3]

Parties are threads over real TLS connections and real folders. The engine computes in the open,
over the parties' own channel, for the faults are not about secrecy: parties that die before or
after any step, connections that are reset, delays, power cuts between any two syncs, full disks,
and folders restored from earlier copies. Everybody is started again until all have the release.
Prints what happened as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import logging
import os
import random
import shutil
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from parties import Parties, consortium
from power import Disk

import sherd
from sherd.errors import SherdError
from sherd.release.bundle import Release, Staged
from sherd.secure.engine.interface import WORD_BITS, PlainEngine, Shares
from sherd.secure.party import PartySettings, party_run
from sherd.secure.party.channel import Channel
from sherd.secure.party.co_signing import CoSigner
from sherd.secure.party.run_budget import RunBudget
from sherd.secure.party.run_journal import RunJournal

PLANS: tuple[dict[str, Any], ...] = (
    {"epsilon": 1, "h": 1, "class_attribute": "c"},
    {"method": "dp-graph", "epsilon": 4, "delta": 1e-6, "choice": "all"},
)
STORMY, CALM = 5, 4
"""How often all are started in the storm, and then without faults at most."""
HANGS = 120.0


class Killed(BaseException):
    """Stands for kill -9 inside one process: nothing catches it."""


class OpenEngine(PlainEngine):
    """Every number is told to everybody, over the parties' channel; it protects nothing."""

    def __init__(self, party: Any, words: Any) -> None:
        super().__init__([words, words])
        self._channel, self._words = party._channel, words
        self.rank, self._owners = party._settings.rank, len(party._settings.peers)

    @property
    def parties(self) -> int:
        """How many owners give input."""
        return self._owners

    def share(self, owner: int, own: Any, shape: tuple[int, ...]) -> Shares:
        """The owner's numbers, as it tells them."""
        size = 8 * int(np.prod(shape))
        mine = np.ascontiguousarray(own(), "<i8").tobytes() if owner == self.rank else b""
        sizes = {place: size if place == owner else 0 for place in range(self._owners)}
        told = self._channel.exchange_bytes(mine, sizes)[owner]
        return self._again(np.frombuffer(told, "<i8").reshape(shape))

    def random(self, n: int, bits: int = WORD_BITS) -> Shares:
        """Everybody's words added up."""
        keep, total = np.uint64(2**bits - 1), np.zeros(n, np.uint64)
        for party in range(self._owners):
            mine = self.share(party, lambda: self._words.words(n).view(np.int64), (n,))
            total = (total + mine.parts[0]) & keep
        return self._again(total.view(np.int64))

    def _again(self, values: Any) -> Shares:
        return Shares(parts=(np.ascontiguousarray(values, np.int64).view(np.uint64),))


class Storm:
    """The dice, and how often each fault was thrown."""

    def __init__(self, seed: int, strength: float) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - dice, no secrets
        self.strength, self.quiet = strength, True
        self.faults: Counter[str] = Counter()
        self.failures: list[str] = []
        self.local = threading.local()
        self.opened: dict[tuple[str, int], Any] = {}
        self.world: World

    def strikes(self, fault: str, chance: float) -> bool:
        """Whether a fault happens now."""
        if self.quiet or self.dice.random() >= chance * self.strength:
            return False
        self.faults[fault] += 1
        return True

    def reach(self, place: str) -> None:
        """A place at which something may befall a party."""
        name = getattr(self.local, "name", None)
        if name is None:
            return
        often = 0.005 if "sharing" in place else 0.025  # there are many of the former
        if self.world.is_dark(name) or self.strikes(f"death, {place}", often):
            raise Killed
        if self.strikes("late", 0.02):
            time.sleep(self.dice.uniform(0.0, 0.1))
        channel = getattr(self.local, "channel", None)
        if channel is not None and channel._connections and self.strikes("reset", 0.008):
            line = self.dice.choice(list(channel._connections.values()))
            channel._thread.loop.call_soon_threadsafe(line._writer.transport.abort)

    def around(self, owner: Any, name: str, place: str) -> None:
        """Let things happen before and after each call of a function."""
        real = getattr(owner, name)

        @functools.wraps(real)
        def struck(*given: Any, **named: Any) -> Any:
            self.reach(f"before {place}")
            result = real(*given, **named)
            self.reach(f"after {place}")
            return result

        setattr(owner, name, struck)

    def install(self) -> None:
        """Put the places into the code; once in a process."""
        signed, left, opened = CoSigner.__call__, Channel.__exit__, Channel.connect

        def signing(one: Any, what: str, values: tuple[int, ...], text: bytes) -> Any:
            self.check_opened(what, values)
            return signed(one, what, values, text)

        def leaving(channel: Any, kind: Any, error: Any, trace: Any) -> None:
            for line in channel._connections.values() if isinstance(error, Killed) else ():
                channel._thread.loop.call_soon_threadsafe(line._writer.transport.abort)
            left(channel, kind, error, trace)

        def connecting(channel: Any, **named: Any) -> Any:
            self.local.channel = channel
            return opened(channel, **named)

        CoSigner.__call__ = signing  # type: ignore[method-assign,assignment]
        Channel.__exit__ = leaving  # type: ignore[method-assign]
        Channel.connect = connecting  # type: ignore[method-assign,assignment]
        for owner, name, place in (
            (Channel, "connect", "connecting"), (Channel, "exchange", "telling"),
            (Channel, "exchange_bytes", "sharing"), (RunBudget, "pay", "paying"),
            (RunJournal, "begin", "beginning"), (RunJournal, "append", "writing down"),
            (RunJournal, "finish", "finishing"), (CoSigner, "__call__", "signing"),
            (Release, "stage", "staging"), (Staged, "publish", "publishing"),
        ):  # fmt: skip
            self.around(owner, name, place)

        def with_engine(party: Any, _computing: Any, words: Any, released: Any) -> Any:
            return released(OpenEngine(party, words))

        party_run._Party._with_mpyc = with_engine  # type: ignore[method-assign,assignment]
        party_run._Party._with_spu = with_engine  # type: ignore[method-assign,assignment]
        party_run._check_engine = lambda settings: None  # noqa: ARG005 - as it is called
        run_engine = party_run._Party._run_engine

        def running(party: Any, given: Any, journal: Any, ready: Any) -> Any:
            self.local.journal = journal
            return run_engine(party, given, journal, ready)

        party_run._Party._run_engine = running  # type: ignore[method-assign,assignment]

    def check_opened(self, what: str, values: tuple[int, ...]) -> None:
        """What is opened is paid for here, and is what it was whenever it was opened before."""
        journal, name = self.local.journal, self.local.name
        if not self.world.is_dark(name):
            ledger = sherd.Ledger(self.world.parties.folders[name] / "ledger.db")
            if ledger.charge_of(journal.run) is None:
                self.failures.append(f"{name}: opened and not paid for")
        before = self.opened.setdefault((journal.run, len(journal.entries)), (what, values))
        if before != (what, values):
            self.failures.append(f"{name}: opened twice, differently: {what}")


def free_ports(count: int) -> list[int]:
    """Ports that no connection is given by the system, so that they stay free between starts."""
    start, found = 20_000 + os.getpid() * 37 % 10_000, list[int]()
    while len(found) < count:
        start += 1
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", start))
            found.append(start)
    return found


class World:
    """Some parties, and what befalls them."""

    def __init__(self, folder: Path, names: str, storm: Storm) -> None:
        self.storm, self.disk = storm, None
        storm.world, storm.opened = self, {}
        engine = "mpyc" if len(names) > 2 else "spu"
        linkage = storm.dice.choice(("known", "oprf"))
        self.parties: Parties = consortium(
            folder,
            tuple(names),
            n=30,
            plan=storm.dice.choice(PLANS),
            engine=engine,
            linkage=linkage,
        )
        peers = [
            {"name": name, "address": f"127.0.0.1:{port}", "certificate": f"{name}.pem"}
            for name, port in zip(names, free_ports(len(names)), strict=True)
        ]
        for name in names:
            self.parties.change(name, parties=peers)
        if library := os.environ.get("LD_PRELOAD"):
            self.disk = Disk(folder, Path(library))
            self.disk.settle(folder)
        self.copies: dict[str, Path] = {}

    def close(self) -> None:
        """Let the disk be."""
        if self.disk is not None:
            self.disk.close()

    def is_dark(self, name: str) -> bool:
        """Whether somebody's power is gone."""
        return self.disk is not None and self.parties.folders[name] in self.disk.left

    def start(self, name: str, timeout: float, told: dict[str, str]) -> None:
        """One party, to its end; what came of it."""
        storm, folder = self.storm, self.parties.folders[name]
        storm.local.name, storm.local.channel = name, None
        try:
            settings = replace(PartySettings.load(folder / "party.yaml"), timeout=timeout)
            party_run.run(settings, ledger=sherd.Ledger(folder / "ledger.db"))
            told[name] = "done"
        except Killed:
            told[name] = "killed"
        except SherdError as error:
            told[name] = f"{type(error).__name__}: {error}"
        except BaseException:
            told[name] = "crashed"
            if not self.is_dark(name):  # without power anything may fail
                storm.failures.append(f"{name}: {traceback.format_exc()}")

    def all_once(self, timeout: float) -> dict[str, str]:
        """Start all, wait until all have ended, and bring back the power."""
        storm, told = self.storm, dict[str, str]()
        threads = []
        for name, folder in self.parties.folders.items():
            if self.disk is not None and storm.dice.random() < 0.15 and not storm.quiet:
                self.disk.arm(folder, storm.dice.randint(1, 30), storm.dice)
            thread = threading.Thread(target=self.start, args=(name, timeout, told), daemon=True)
            threads.append(thread)
            thread.start()
        if self.disk is not None and storm.strikes("disk full", 0.1):
            time.sleep(storm.dice.uniform(0.0, 0.5))
            self.disk.fill(storm.dice.choice(list(self.parties.folders.values())))
        until = time.monotonic() + HANGS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            storm.failures.append(f"a party hangs: {told}")
        if self.disk is not None:
            self.disk.fill(None)
            for folder in self.parties.folders.values():
                self.disk.disarm(folder)
                storm.faults["power cut"] += self.disk.bring_back(folder)
        return told

    def restore(self) -> None:
        """Keep copies of folders, and put one back where nobody has published yet."""
        storm, folders = self.storm, self.parties.folders
        if any((place / "release").exists() for place in folders.values()):
            return
        name = storm.dice.choice(list(folders))
        if name not in self.copies and storm.dice.random() < 0.5:
            self.copies[name] = Path(tempfile.mkdtemp(dir=folders[name].parent)) / name
            shutil.copytree(folders[name], self.copies[name])
        elif name in self.copies and storm.dice.random() < 0.5:
            storm.faults["folder restored"] += 1
            shutil.rmtree(folders[name])
            shutil.copytree(self.copies[name], folders[name])
            if self.disk is not None:
                self.disk.settle(folders[name])

    def weather(self) -> str:
        """A run in the storm, then without faults until all have the release."""
        storm = self.storm
        told: dict[str, str] = {}
        for _ in range(STORMY):
            storm.quiet = False
            told = self.all_once(2.0)
            storm.quiet = True
            if set(told.values()) == {"done"}:
                break
            self.restore()
        for _ in range(CALM):
            if set(told.values()) == {"done"}:
                break
            told = self.all_once(30.0)
        self.check(told)
        return "released"

    def check(self, told: dict[str, str]) -> None:
        """Everybody has the same release, and paid once for each run that opened anything."""
        assert set(told.values()) == {"done"}, f"not brought to an end: {told}"
        folders = self.parties.folders.values()
        found = [Release.load(folder / "release") for folder in folders]
        assert all(one.tables["data"].equals(found[0].tables["data"]) for one in found)
        run = found[0].manifest["facts"]["run"]
        assert {one.manifest["facts"]["run"] for one in found} == {run}
        for folder in folders:
            ledger = sherd.Ledger(folder / "ledger.db")
            ledger.verify()
            charged = [one.plan_hash for one in ledger.entries() if one.kind == "charge"]
            assert len(set(charged)) == len(charged), "charged twice"
            assert run in charged, "released and not paid for"


def main() -> int:
    """Run, and print what happened."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strength", type=float, default=1.0)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    logging.getLogger("sherd").setLevel(logging.CRITICAL)
    memory = Path("/dev/shm")  # noqa: S108 - fresh folders of our own in it
    base = memory if os.access(memory, os.W_OK) else None
    storm, runs, number = Storm(args.seed, args.strength), Counter[str](), 0
    storm.install()
    began = time.monotonic()
    while number < 2 or time.monotonic() < began + args.seconds:
        names = ("ab", "abc")[number % 2]
        with tempfile.TemporaryDirectory(dir=base, prefix="sherd-parties-") as folder:
            world = World(Path(folder).resolve(), names, storm)
            try:
                runs[f"{len(names)} parties {world.weather()}"] += 1
            except Exception:
                storm.failures.append(f"run {number}: {traceback.format_exc()}")
            with contextlib.suppress(OSError):
                world.close()
        number += 1
        told = {
            "seconds": round(time.monotonic() - began), "faults": sum(storm.faults.values()),
            "runs": dict(runs), "failures": storm.failures,
            "by_kind": dict(sorted(storm.faults.items())),
        }  # fmt: skip
        if args.record is not None:
            args.record.write_text(json.dumps(told, indent=1), encoding="utf-8")
    sys.stdout.write(json.dumps(told) + "\n")
    return 1 if storm.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
